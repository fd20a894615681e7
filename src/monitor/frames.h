/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output frames of a guest's exec (proto/data.h): checked, and written either
 * as a line of JSON each or as they are.
 *
 * The guest is hostile: a frame of an unknown type, a length over the limit,
 * set padding, an offset that does not continue the stream, or a payload that
 * is not JSON where JSON belongs ends the stream with -EBADMSG. What passed is
 * re-serialised, never copied, except for raw payload bytes. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/data.h"

/* Most bytes that one frame becomes, in either form. */
#define FRAME_OUT_MAX (EXEC_FRAME_MAX * 6u + 256u)

struct frames {
	struct buf in;	/* at most one frame */
	uint64_t next;	/* offset of the next output byte */
	bool is_raw;	/* write frames, not lines */
	bool has_ended; /* the exit fact has passed; nothing may follow */
};

/* from: the offset that was asked for. */
void frames_init(struct frames *f, uint64_t from, bool is_raw);
void frames_fini(struct frames *f);

/* Take bytes, at most until one frame is complete: how many were taken. */
size_t frames_feed(struct frames *f, const void *p, size_t n);

enum { FRAMES_MORE, FRAMES_ONE };
/* If a whole frame is there, append what it becomes to out (FRAMES_ONE).
 * -EBADMSG with *e; -ENOBUFS if out is full. */
int frames_take(struct frames *f, struct buf *out, struct err *e);
