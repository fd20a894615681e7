/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to session*.c: the state of one attached exec. */

#include "base/loop.h"
#include "cli/attach.h"
#include "cli/escape.h"
#include "cli/line.h"
#include "cli/outlet.h"
#include "cli/session.h"

#define SESSION_SIGNALS 4

struct session;

struct session_signal {
	struct loop_signal sig;
	struct session *owner;
};

struct session {
	const struct session_spec *spec;
	struct session_end *end;
	struct loop *loop;
	struct attach a;
	struct outlet out;
	struct line *line;
	char *token;
	struct buf pending; /* a message that did not fit yet */
	bool held;	    /* the server is asked to wait: output is full */
	/* reconnecting */
	struct loop_timer again;
	unsigned pause_ms;
	uint64_t progress_ms;
	bool lost_told, minted, was_up;
	bool final; /* CLOSING said: do not come back */
	char closing[64];
	/* acknowledging */
	struct loop_timer ack;
	/* input */
	struct loop_io in;
	struct loop_defer in_again; /* a file: always readable */
	bool in_is_file, in_eof;
	struct escape escape;
	bool raw;
	struct session_signal signals[SESSION_SIGNALS];
	int n_signals;
	/* ending */
	struct loop_timer linger;
	bool leaving;
	int ret;
};

/* session.c */
void session_push(struct session *s);
/* Stop, with this exit code (0: as *end says). */
void session_stop(struct session *s, int ret);
/* A line on stderr, also on a raw terminal. */
void session_say(const struct session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* How to come back: "caisson attach SB EX --from N", allocated. */
char *session_hint(const struct session *s);

/* session_in.c */
int session_in_start(struct session *s, struct err *e);
void session_in_stop(struct session *s);
/* STARTED for the first time: the terminal becomes raw. */
void session_in_started(struct session *s);
/* Read on, or stop reading: as the window says. */
void session_in_update(struct session *s);
