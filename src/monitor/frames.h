/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames of an exec (proto/data.h), in both directions: checked, and written
 * either as a line of JSON each or as they are.
 *
 * Neither side is trusted: a frame of a type that is not its sender's, a length
 * over the limit, set padding, an offset that does not continue the output, or
 * a payload that has not its kind's form ends the stream with -EBADMSG. What
 * passed is re-serialised, never copied, except for raw payload bytes. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/data.h"

/* Most bytes that one frame becomes, in either form. */
#define FRAME_OUT_MAX (EXEC_FRAME_MAX * 6u + 256u)

enum frames_form {
	FRAMES_LINES,  /* a guest's output, as lines of JSON */
	FRAMES_RAW,    /* a guest's output, as frames */
	FRAMES_CLIENT, /* a client's input, as frames */
};

struct frames {
	struct buf in; /* at most one frame */
	uint64_t next; /* offset of the next output byte */
	enum frames_form form;
	bool has_ended; /* EXIT or CLOSING has passed; nothing may follow */
};

/* from: the offset that was asked for. */
void frames_init(struct frames *f, uint64_t from, enum frames_form form);
void frames_fini(struct frames *f);
/* Nothing of a frame is there. */
bool frames_is_between(const struct frames *f);

/* Take bytes, at most until one frame is complete: how many were taken. */
size_t frames_feed(struct frames *f, const void *p, size_t n);

enum { FRAMES_MORE, FRAMES_ONE };
/* If a whole frame is there, append what it becomes to out (FRAMES_ONE).
 * -EBADMSG with *e; -ENOBUFS if out is full. */
int frames_take(struct frames *f, struct buf *out, struct err *e);
/* Our own last word to a client: CLOSING {reason, retry} in f's form. */
void frames_put_closing(const struct frames *f, const char *reason,
			bool can_retry, struct buf *out);
