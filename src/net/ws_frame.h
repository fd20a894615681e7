/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * WebSocket frames (RFC 6455 §5) as pure functions: no I/O, no clock. Memory
 * is that of one message, grown as its bytes arrive and never by the length a
 * peer announces.
 *
 * The reader refuses whatever the RFC lets it refuse, at the first byte that
 * shows it; its verdict does not depend on how the bytes are cut into portions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define WS_HEAD_MAX    14u
#define WS_CONTROL_MAX 125u
/* Fragments without a byte that one message may have: they cost the sender
 * nothing and would keep a message open for ever. */
#define WS_EMPTY_MAX 64u

enum ws_op {
	WS_CONT = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

/* Codes of close frames that we give. */
enum ws_code {
	WS_NORMAL = 1000,
	WS_PROTOCOL = 1002,
	WS_NO_CODE = 1005,  /* never sent: the close frame was empty */
	WS_ABNORMAL = 1006, /* never sent: there was no close frame */
	WS_DATA = 1007,
	WS_POLICY = 1008,
	WS_TOO_BIG = 1009,
};

/* ---- writing ---- */

/* The head of a whole (unfragmented) frame; mask NULL for a server's. Returns
 * its size. */
size_t ws_frame_head(uint8_t ret[WS_HEAD_MAX], enum ws_op op, uint64_t n,
		     const uint8_t mask[4]);
/* Mask or unmask n bytes, the first of which is byte `at` of its payload. */
void ws_frame_mask(uint8_t *p, size_t n, const uint8_t mask[4], uint64_t at);
/* May a close frame carry this code? */
bool ws_code_valid(unsigned code);

/* ---- reading ---- */

enum ws_event {
	WS_EV_MORE,    /* all bytes were used, nothing is complete */
	WS_EV_MESSAGE, /* msg, is_text */
	WS_EV_PING,    /* control, n_control */
	WS_EV_PONG,
	WS_EV_CLOSE, /* code, and control + 2 .. n_control is the reason */
	WS_EV_BAD,   /* code, why; every further call gives the same */
};

struct ws_rx {
	size_t max;  /* bytes of a message */
	bool masked; /* the peer is a client */
	/* results */
	struct buf msg;
	bool is_text;
	uint8_t control[WS_CONTROL_MAX + 1]; /* a NUL behind it */
	size_t n_control;
	unsigned code;
	const char *why;
	/* private: the frame being read */
	uint8_t head[WS_HEAD_MAX];
	size_t n_head;
	enum ws_op op;
	bool fin;
	bool in_payload;
	uint64_t at, left;
	uint8_t mask[4];
	/* private: the message being read */
	bool open;
	bool told; /* msg was handed out, forget it at the next call */
	unsigned empty;
};

void ws_rx_init(struct ws_rx *r, bool masked, size_t max);
void ws_rx_fini(struct ws_rx *r);
/* Reads up to the first event. *ret_used <= n bytes were taken; after anything
 * but MORE the caller comes back with the rest (which may be empty: a message
 * is never held back). Results are valid until the next call. */
enum ws_event ws_rx_next(struct ws_rx *r, const uint8_t *p, size_t n,
			 size_t *ret_used);
