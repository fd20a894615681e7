/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an attached exec needs to know to survive lost connections: pure, no
 * I/O, no clock. Output is a log with byte offsets, so a new connection asks
 * for the first byte that was not handed on; bytes below it are dropped, a jump
 * above it is a gap, never passed over in silence. Input is kept until the
 * guest says that the program's pipe took it, and is sent again from there, so
 * that no byte is lost and none arrives twice.
 *
 * A WebSocket message is one frame: type u8, offset u64 (big endian), payload.
 *
 * Bounds: EXEC_STDIN_WINDOW bytes of input, ATTACH_SIGNALS signals. A signal is
 * sent at most once: one that was under way when the line broke may be lost,
 * but is never repeated.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/data.h"

#define ATTACH_HEADER	   9u
#define ATTACH_MESSAGE_MAX (ATTACH_HEADER + EXEC_FRAME_MAX)
#define ATTACH_STDIN_PIECE 32768u
#define ATTACH_SIGNALS	   8u
#define ATTACH_PROTOCOL	   "caisson.exec.v1"

struct attach {
	/* output */
	uint64_t next;	/* every byte below was handed on, or is gone */
	uint64_t done;	/* ... and processed: what ACK may say */
	uint64_t acked; /* newest ACK of this connection */
	bool ack_due;
	/* input: `in` begins at stdin position `taken` */
	struct buf in;
	uint64_t taken;
	uint64_t sent;	   /* of this connection: next position to send */
	bool taken_known;  /* an exec that others wrote to says it first */
	bool ended;	   /* all of stdin is in `in` */
	bool end_sent;	   /* on this connection */
	bool watch;	   /* never writes */
	bool up, started;  /* connection; its STARTED was seen */
	bool ever_started; /* on any connection */
	/* controls */
	const char *signals[ATTACH_SIGNALS]; /* static names, a queue */
	size_t n_signals;
	unsigned cols, rows; /* 0: none */
	bool size_due;
	/* end */
	bool over; /* the exit fact was seen */
};

enum attach_type {
	ATTACH_NOTHING, /* not for the user, or all of it was seen before */
	ATTACH_OUTPUT,	/* stream, p, n */
	ATTACH_STARTED,
	ATTACH_GAP,	/* from, to, and p, n, stream behind it if n > 0 */
	ATTACH_EXIT,	/* body: the fact */
	ATTACH_CLOSING, /* body: {reason, retry} */
};

struct attach_event {
	enum attach_type type;
	int stream; /* 1 stdout, 2 stderr, 3 pty */
	const uint8_t *p;
	size_t n;
	uint64_t from, to;
	json_t *body; /* the caller's to json_decref(); NULL for others */
};

/* from: first output byte wanted. fresh: we made the exec, its stdin is at 0;
 * else STARTED says where it is. */
void attach_init(struct attach *a, uint64_t from, bool fresh, bool watch);
void attach_fini(struct attach *a);

/* A connection that was opened with from=a->next is there / is gone. */
void attach_up(struct attach *a);
void attach_down(struct attach *a);

/* One message of the server. -EBADMSG with *e for what no honest server sends;
 * the connection is to be given up then. */
int attach_take(struct attach *a, const uint8_t *p, size_t n,
		struct attach_event *ret, struct err *e);

/* Output below offset has reached its reader. */
void attach_done(struct attach *a, uint64_t offset);
/* The quarter of a second is over: acknowledge what is done. */
void attach_ack(struct attach *a);
bool attach_ack_waits(const struct attach *a);

/* Bytes of input that may be added now. */
size_t attach_stdin_room(const struct attach *a);
void attach_stdin(struct attach *a, const void *p, size_t n); /* <= room */
void attach_stdin_end(struct attach *a);
/* name must be static ("INT"). False if too many wait. */
bool attach_signal(struct attach *a, const char *name);
void attach_size(struct attach *a, unsigned cols, unsigned rows);

/* Put the next message to send into the empty buffer and count it as sent; the
 * caller must deliver it or call attach_down(). False if there is none. */
bool attach_next(struct attach *a, struct buf *ret);
