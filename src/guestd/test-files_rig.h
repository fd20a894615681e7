/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* File calls below the test's own folder, for the tests of them. */

#include "guestd/test-frames.h"

extern struct rig r;
extern struct rig_reply p;

/* call is "files", "files/list", "archive"...; name is relative to the test's
 * folder; both name and query are percent-encoded by the caller. fields as in
 * rig_start(). */
int file_call_with(const char *call, const char *method, const char *name,
		   const char *query, const char *const *fields,
		   const void *body, size_t n);
/* The same, and forget the answer. */
int file_status(const char *call, const char *method, const char *name,
		const char *query);
/* Path in the test's folder, allocated. */
char *in_tmp(const char *name);
/* Make a file there, without the guest's help. */
void make_file(const char *name, const char *text);
/* What a file there holds; valid until the next call. */
const char *content_of(const char *name);
