/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests that wait for an operation to end (?wait_s=). Whoever ends one in
 * this process wakes them at once; what other processes end is found by one
 * sweep every 250 ms while anybody waits.
 */

#include "api/req.h"

#define WAIT_S_MAX 60

enum answer {
	ANSWER_CREATE, /* 201 */
	ANSWER_END,    /* 200 */
	ANSWER_BUILD,  /* 201 */
	ANSWER_GET,    /* 200 in every state */
};

/* Answer now if state is final or wait_s is 0, else later. The texts are JSON
 * as the database gave them; sandbox may be NULL. Not final in time: 202 with
 * Location (ANSWER_GET: 200). Failed or cancelled: the operation's error. */
void wait_answer(struct req *r, enum answer how, int64_t wait_s, const char *op,
		 const char *state, const char *operation, const char *sandbox);

/* An operation ended. operation and sandbox may be NULL: then they are read. */
void wait_wake(struct api *a, const char *op, const char *state,
	       const char *operation, const char *sandbox);
bool wait_is_final(const char *state);
/* Answers all that wait with 503. */
void wait_fini(struct api *a);
