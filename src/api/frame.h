/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames of an exec, inside (proto/data.h, 16-byte heads in a stream of bytes)
 * and outside (one WebSocket message each: type, offset, payload), both ways.
 * Pure and bounded; both sides are hostile: the guest's bytes have passed the
 * monitor, and are checked here again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/data.h"

#define FRAME_MESSAGE_HEAD 9u
#define FRAME_MESSAGE_MAX  (FRAME_MESSAGE_HEAD + EXEC_FRAME_MAX)

struct frame {
	uint8_t type;
	uint64_t offset;
	const uint8_t *payload;
	uint32_t n;
};

/* The first frame of n bytes from the guest: bytes it takes, 0 if it is not
 * whole yet, -EBADMSG if it is none. */
ptrdiff_t frame_from_guest(const uint8_t *p, size_t n, struct frame *ret);
/* Heads; payload follows as it is. */
void frame_head(const struct frame *f, uint8_t ret[EXEC_FRAME_HEADER]);
void frame_message_head(const struct frame *f, uint8_t ret[FRAME_MESSAGE_HEAD]);
/* A whole message of a client. NULL, or what is wrong with it. watch: nothing
 * but acknowledgements is allowed. */
const char *frame_from_client(const uint8_t *p, size_t n, bool watch,
			      struct frame *ret);
/* Does the payload of this type hold an exec's output? */
bool frame_is_output(uint8_t type);
/* "stdout" …; NULL if it is not from a guest. */
const char *frame_name(uint8_t type);
