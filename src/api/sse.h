/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Server-sent events of what a guest streams: an exec's frames, or NDJSON lines
 * (console, watch), as they pass. One event an item; whatever is not an item
 * ends the conversion. Pure; holds at most one item that is not whole.
 *
 * An exec's event: event = stdout stderr pty started exit gap alive closing;
 * id = the offset behind it, so that a client that comes back with
 * Last-Event-ID (or from=) gets the next byte and no other; data =
 * {"o":OFFSET,"b64":"…"} for bytes, else the frame's JSON. alive has no id.
 * A line's event: its "type", or console, gap, alive, closing; id = the offset
 * behind the bytes of a console line; data = the line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* a line: 64 KiB in base64, an offset, names */
#define SSE_LINE_MAX 131072u

enum sse_of { SSE_FRAMES, SSE_LINES };

struct sse {
	enum sse_of of;
	struct buf part; /* of an item */
	bool over;	 /* nothing more has to come */
};

/* follow: an end without exit or closing is an interruption. */
void sse_init(struct sse *s, enum sse_of of, bool follow);
void sse_fini(struct sse *s);
/* Take all n bytes; events go to out. 0; -EBADMSG: this is no such stream, and
 * out has what came before; -ENOBUFS if out is full (it must have room for
 * twice n and SSE_LINE_MAX). */
int sse_feed(struct sse *s, const void *p, size_t n, struct buf *out);
/* The stream ended: if it did so in the middle, say so. */
void sse_end(struct sse *s, struct buf *out);

/* The offset that an event's id names, or -1. */
int64_t sse_last_id(const char *value);
