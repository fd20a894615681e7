/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames of an attached exec (proto/data.h): headers that guestd writes, and a
 * reader of what the client sends. Pure: bytes in, events out.
 *
 * A frame of input may be larger than what a stream holds at once, so its bytes
 * are handed on as they come; everything else is short and is collected. What
 * no honest client sends (an unknown type, set padding, a length that does not
 * fit the type, JSON that does not say what it should) is an error after which
 * the reader must not be used again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guestd/spec.h"
#include "proto/data.h"

#define FRAME_JSON_MAX 256u

struct frame_reader {
	uint8_t head[EXEC_FRAME_HEADER];
	size_t n_head;
	uint8_t json[FRAME_JSON_MAX];
	size_t n_json;
	/* of the frame whose payload comes now */
	uint8_t type;
	uint32_t left;
	uint64_t offset;
};

struct frame_event {
	uint8_t type; /* EXEC_STDIN … EXEC_ACK */
	uint64_t offset;
	const uint8_t *p; /* EXEC_STDIN: a part of a frame, n >= 1 bytes */
	size_t n;
	struct exec_size size; /* EXEC_SIZE */
	struct exec_kill kill; /* EXEC_SIGNAL */
};

void frame_reader_init(struct frame_reader *r);
/* Takes *ret_used bytes of n (all of them, if there is no event in them).
 * 1: *ret is an event; 0: more bytes are needed; -EINVAL. */
int frame_reader_feed(struct frame_reader *r, const uint8_t *p, size_t n,
		      size_t *ret_used, struct frame_event *ret);

void frame_put_header(uint8_t to[EXEC_FRAME_HEADER], uint8_t type, size_t n,
		      uint64_t offset);
