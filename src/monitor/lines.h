/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines of JSON that a guest's watch sends: each at most LINE_MAX_BYTES, an
 * object of known fields of the right types, written anew; other fields are
 * left out, other types end the stream with -EBADMSG, as do lines after the
 * last one ("gone") or before "ready". Names are the guest's text and never
 * used as such. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define LINE_MAX_BYTES 65536u
/* Most bytes that one line becomes: escapes may make it longer. */
#define LINE_OUT_MAX (6u * LINE_MAX_BYTES)

struct lines {
	struct buf in; /* at most one line */
	bool is_whole; /* its end is there */
	bool is_ready, has_ended;
};

void lines_init(struct lines *l);
void lines_fini(struct lines *l);
/* Nothing of a line is there. */
bool lines_is_between(const struct lines *l);

/* Take bytes, at most to the end of one line: how many were taken. */
size_t lines_feed(struct lines *l, const void *p, size_t n);

enum { LINES_MORE, LINES_ONE };
/* If a whole line is there, append what it becomes to out (LINES_ONE).
 * -EBADMSG with *e; -ENOBUFS if out is full. */
int lines_take(struct lines *l, struct buf *out, struct err *e);
