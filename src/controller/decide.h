/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the controller does about what it sees: pure functions from facts to
 * one action, so that the whole table can be tested. Two subjects:
 *
 * A row against its node's list. Rows are read before the list, strangers are
 * asked for after it, so that a sandbox which appears or goes meanwhile is
 * taken for neither lost nor leaked.
 *
 * An operation that nobody works on, and what the node answered to it. A node's
 * "no" is final only if repeating cannot help; until its deadline everything
 * else is tried again.
 */

#include <stdbool.h>
#include <stdint.h>

/* ---- rows and lists ---- */

struct row_facts {
	const char *desired, *observed; /* as in the table */
	bool settled;			/* no operation is active */
	int64_t generation, fence;
};

struct list_facts {
	const char *observed; /* "running", … as the node says */
	int64_t generation, fence;
};

enum row_action {
	ROW_NOTHING,
	ROW_LOST,  /* it ran, the node has it no more */
	ROW_ENDED, /* its end was wished, and it is gone */
	ROW_END,   /* tell the node to end it (and the row will follow) */
	ROW_ACTION_MAX_,
};

/* l NULL: the node does not list it. */
enum row_action decide_row(const struct row_facts *r,
			   const struct list_facts *l);

/* ---- operations ---- */

enum op_kind { OP_CREATE, OP_END, OP_BUILD, OP_KIND_MAX_ };
/* OP_KIND_MAX_ for unknown words. */
enum op_kind op_kind_of(const char *word);

struct op_facts {
	enum op_kind kind;
	bool has_node, node_alive;
	bool complete; /* release and resources are there */
	int64_t time_left_ms;
	int attempts;
};

enum op_action {
	OP_DO_ENSURE,
	OP_DO_END,
	OP_DO_PREPARE,
	OP_DO_FAIL,    /* finish it as failed, with code */
	OP_DO_GIVE_UP, /* create: end on the node, then fail */
	OP_DO_LOST,    /* end: the node is gone, the sandbox is lost */
	OP_DO_ENDED,   /* end: there is nothing to end */
	OP_DO_LATER,   /* release it for delay_s */
	OP_ACTION_MAX_,
};

struct op_decision {
	enum op_action action;
	int delay_s;
	const char *code, *message; /* with FAIL, GIVE_UP, LOST */
};

struct op_decision decide_op(const struct op_facts *f);

enum answer {
	ANSWER_DONE,   /* as asked */
	ANSWER_FAILED, /* finally: the node's error becomes the operation's */
	ANSWER_LATER,  /* try again after a pause */
	ANSWER_MAX_,
};

/* status 0: no answer came. code: the node's error code, "" for none. */
enum answer decide_answer(enum op_kind kind, int status, const char *code,
			  int64_t time_left_ms);

/* Pause before the next attempt, seconds: 1, 2, 4, 5, 5, … */
int decide_delay_s(int attempts);

/* ---- pacing ---- */

#define SWEEP_BUSY_MS 250u
#define SWEEP_IDLE_MS 1000u
/* found: how many rows the last sweep moved; active: operations in hand. */
unsigned decide_sweep_ms(int64_t found, unsigned active);

/* Seconds until the next try of a webhook's delivery after so many: 5 s,
 * threefold each time, at most 6 h. Given up after HOOK_GIVE_UP_S. */
#define HOOK_GIVE_UP_S 259200
int decide_hook_delay_s(int attempts);
