/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a client of an exec does: start it, read its frames, check offsets. */

#include "guestd/test-rig.h"
#include "net/json.h"
#include "proto/data.h"

struct frames {
	struct buf out, err; /* bytes by kind */
	uint64_t at;	     /* offset of the next byte expected */
	uint64_t gap_from, gap_to;
	unsigned n_started, n_exit, n_gap;
	json_t *exit; /* the exit fact */
};

void frames_init(struct frames *f, uint64_t from);
void frames_fini(struct frames *f);
/* Consume whole frames from b; fails the test on a wrong offset. keep: whether
 * bytes are collected or only counted. */
void frames_feed(struct frames *f, struct buf *b, bool keep);

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
