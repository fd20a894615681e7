/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP streams that belong to an exec: requests that wait for its start,
 * followers of its output (GET …/output and POST …/attach), the requests that
 * write its standard input. Each holds a reference; all of them may go away at
 * any time without any effect on the program.
 *
 * Followers and what the log keeps:
 *   WRITER   one at most, the newest. Has what it acknowledged. While it is
 *            there, nothing else decides.
 *   READER   …/output. Has what was written to its stream; with overflow
 *            "block" the slowest of them holds the program back.
 *   WATCHER  an attach with watch=1. Has what was written to its stream; one
 *            that is slow gets gaps.
 * With nobody there, "block" keeps what no reader ever had.
 */

#include "guestd/exec.h"
#include "guestd/exec_child.h"
#include "guestd/exec_frames.h"

enum follower_role { FOLLOW_READER, FOLLOW_WATCHER, FOLLOW_WRITER };

struct follower {
	struct list link;
	struct exec *exec;
	struct http_stream *stream;
	struct loop_timer alive;
	enum follower_role role;
	uint64_t at;	 /* written to the stream up to here */
	uint64_t acked;	 /* a writer's */
	struct buf rest; /* of a frame that the stream took in part */
	bool follow;	 /* else it ends with what there is */
	bool told_start, told_end;
	bool is_closing; /* CLOSING was said: nothing may follow */
	bool over;	 /* our side has ended */
	bool alive_due;

	/* attach only */
	struct frame_reader frames;
	uint64_t told_stdin;
	bool has_written; /* the writer's first bytes have come */
	bool in_ended;	  /* its request has ended */
};

/* ---- exec_wait.c ---- */

/* Answer s with the record when x has started (or did not). status: 201, or 200
 * on a replay. */
void exec_wait_start(struct exec *x, struct http_stream *s, int status);
/* Attach s then. */
void exec_wait_attach(struct exec *x, struct http_stream *s, uint64_t from,
		      bool watch);
/* r NULL: it started. */
void exec_waiters_answer(struct exec *x, const struct exec_report *r);
void exec_reply_refused(struct http_stream *s, const struct exec_report *r);

/* ---- exec_follow.c ---- */

/* GET …/output */
void exec_follow(struct exec *x, struct http_stream *s, uint64_t from,
		 bool follow);
/* A new follower on s, whose handler is h; NULL if s was answered with 416. */
struct follower *follower_new(struct exec *x, struct http_stream *s,
			      uint64_t from, enum follower_role role,
			      const struct http_handler *h);
/* Begin to send: once the stream is set up. */
void follower_begin(struct follower *f);
/* The handlers that all have. */
void follower_on_writable(struct http_stream *s);
void follower_on_close(struct http_stream *s, const struct err *e);
/* Say CLOSING and end. */
void follower_close(struct follower *f, const char *reason, bool retry);
/* Readers moved: decide anew what may be dropped. */
void exec_update_floor(struct exec *x);
/* All followers. */
void exec_streams_close(struct exec *x, const char *reason, bool retry);
/* There is output, the end, or input was taken: serve all streams later in this
 * round. */
void exec_streams_wake(struct exec *x);
size_t exec_n_watchers(const struct exec *x);

/* ---- exec_attach.c ---- */

/* x has begun, or s only watches. */
void exec_attach(struct exec *x, struct http_stream *s, uint64_t from,
		 bool watch);
/* Input was taken: go on reading, tell how far. */
void exec_attach_moved(struct follower *f);

/* ---- exec_input.c ---- */

/* POST …/stdin: the body goes to the program from position offset on. */
void exec_input_start(struct exec *x, struct http_stream *s, uint64_t offset,
		      bool end);
void exec_input_moved(struct exec_input *in);
