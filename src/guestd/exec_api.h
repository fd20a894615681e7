/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Routes of execs: what a request says becomes calls of exec.h. */

#include "guestd/exec.h"

/* Is there place for one more? Forgets the oldest ended ones. */
bool execs_make_room(struct execs *s);
/* Into the table, which owns the first reference. */
void execs_insert(struct execs *s, struct exec *x);
/* The idempotency key that led to this exec, if any. */
void exec_key_forget(struct execs *s, const char *id);

void exec_api_create(struct guestd *g, struct http_stream *s, const void *body,
		     size_t n);
void exec_api_list(struct guestd *g, struct http_stream *s);
void exec_api_get(struct exec *x, struct http_stream *s);
void exec_api_delete(struct exec *x, struct http_stream *s);
void exec_api_output(struct exec *x, struct http_stream *s);
void exec_api_signal(struct exec *x, struct http_stream *s, const void *body,
		     size_t n);
void exec_api_size(struct exec *x, struct http_stream *s, const void *body,
		   size_t n);
void exec_api_attach(struct exec *x, struct http_stream *s);
void exec_api_stdin(struct exec *x, struct http_stream *s);
