/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP streams that belong to an exec: requests that wait for its start,
 * followers of its output, the writer of its standard input. Each holds a
 * reference; all of them may go away at any time without any effect on the
 * program.
 */

#include "guestd/exec.h"
#include "guestd/exec_child.h"

/* Answer s when x has started (or did not). status: 201, or 200 on a replay. */
void exec_wait_start(struct exec *x, struct http_stream *s, int status);
/* r NULL: it started. */
void exec_waiters_answer(struct exec *x, const struct exec_report *r);

/* GET …/output */
void exec_follow(struct exec *x, struct http_stream *s, uint64_t from,
		 bool follow);
/* There is output, or the end: pump all followers later in this round. */
void exec_streams_wake(struct exec *x);

/* POST …/stdin: the body goes to the program from position offset on. */
void exec_input_start(struct exec *x, struct http_stream *s, uint64_t offset,
		      bool end);
