/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a client of an exec does: start it, read its frames, check offsets. */

#include "guestd/test-rig.h"
#include "net/json.h"
#include "proto/data.h"

struct frames {
	struct buf out, err; /* bytes by kind; a terminal's are in out */
	uint64_t at;	     /* offset of the next byte expected */
	uint64_t gap_from, gap_to;
	unsigned n_started, n_exit, n_gap, n_alive;
	long long pid, stdin_offset; /* as told last */
	char closing[24];	     /* its reason, "" = none came */
	bool retry;
	json_t *exit; /* the exit fact */
};

void frames_init(struct frames *f, uint64_t from);
void frames_fini(struct frames *f);
/* Consume whole frames from b; fails the test on a wrong offset. keep: whether
 * bytes are collected or only counted. */
void frames_feed(struct frames *f, struct buf *b, bool keep);

/* ---- an attached client ---- */

struct session {
	struct rig_reply p;
	struct frames f;
};

/* POST …/attach?query; frames are expected from offset `from` on. */
void session_open(struct rig *r, struct session *s, const char *id,
		  const char *query, uint64_t from);
/* It went away, or is over. */
void session_close(struct session *s);
void session_send(struct session *s, uint8_t type, uint64_t offset,
		  const void *p, size_t n);
void session_input(struct session *s, uint64_t offset, const char *text);
void session_ack(struct session *s);
/* Take what comes for a while, acknowledging it or not. */
void session_run(struct session *s, uint64_t ms, bool ack);
/* Until the text is in the output; fails the test if it never is. */
void session_expect(struct session *s, const char *text);
/* Acknowledge all to the end of the stream. */
void session_finish(struct session *s);

/* A guestd that runs (renewed, thawed). */
void guest_up(struct rig *r);
/* POST /v1/execs with these fields ("\"cmd\":[…]"); the id goes to ret_id. */
int guest_exec(struct rig *r, const char *fields, char ret_id[40]);
/* All output from an offset to the end. */
void guest_output(struct rig *r, const char *id, uint64_t from,
		  struct frames *f);
/* Both; the reply must be 201. */
void guest_run(struct rig *r, const char *fields, struct frames *f);

const char *exit_str(const struct frames *f, const char *key);
long long exit_int(const struct frames *f, const char *key); /* -1: null */
/* code of an error answer; "" if it is none */
const char *error_code(struct rig_reply *p);
