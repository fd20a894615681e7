/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/decide.h"

#include <string.h>

#define DELAY_MAX_S 5

static bool is_final(const char *observed)
{
	return !strcmp(observed, "ended") || !strcmp(observed, "failed") ||
	       !strcmp(observed, "lost");
}

enum row_action decide_row(const struct row_facts *r,
			   const struct list_facts *l)
{
	bool deleted = !strcmp(r->desired, "deleted");

	/* whoever works on it knows better; a final row is a stranger's case */
	if (!r->settled || is_final(r->observed))
		return ROW_NOTHING;
	if (!l)
		return deleted ? ROW_ENDED : ROW_LOST;
	/* the node has an earlier life of it only: the one of this row is gone,
	 * and what is there must not live on */
	if (l->fence < r->fence)
		return ROW_END;
	/* an end that nobody works on any more */
	if (deleted)
		return ROW_END;
	return ROW_NOTHING;
}

enum op_kind op_kind_of(const char *word)
{
	if (!strcmp(word, "create"))
		return OP_CREATE;
	if (!strcmp(word, "end"))
		return OP_END;
	if (!strcmp(word, "template_build"))
		return OP_BUILD;
	return OP_KIND_MAX_;
}

int decide_delay_s(int attempts)
{
	int s = 1;

	while (--attempts > 0 && s < DELAY_MAX_S)
		s *= 2;
	return s < DELAY_MAX_S ? s : DELAY_MAX_S;
}

static struct op_decision later(const struct op_facts *f)
{
	return (struct op_decision){ .action = OP_DO_LATER,
				     .delay_s = decide_delay_s(f->attempts) };
}

static struct op_decision failed(enum op_action a, const char *code,
				 const char *message)
{
	return (struct op_decision){ .action = a,
				     .code = code,
				     .message = message };
}

static struct op_decision decide_end(const struct op_facts *f)
{
	if (!f->has_node)
		return (struct op_decision){ .action = OP_DO_ENDED };
	if (f->node_alive)
		return f->time_left_ms > 0
			   ? (struct op_decision){ .action = OP_DO_END }
			   : failed(OP_DO_GIVE_UP, "node_unavailable",
				    "the node did not confirm the end in "
				    "time; it is told again until it does");
	if (f->time_left_ms > 0)
		return later(f);
	return failed(OP_DO_LOST, "node_unavailable",
		      "the node does not answer");
}

static struct op_decision decide_start(const struct op_facts *f)
{
	bool create = f->kind == OP_CREATE;

	if (!f->complete)
		return failed(OP_DO_FAIL, "not_found",
			      "the template release is gone");
	if (f->time_left_ms <= 0)
		return failed(create && f->has_node && f->node_alive
				  ? OP_DO_GIVE_UP
				  : OP_DO_FAIL,
			      "node_unavailable",
			      create ? "the sandbox did not run in time"
				     : "the node was not ready in time");
	if (!f->has_node || !f->node_alive)
		return later(f);
	return (struct op_decision){ .action = create ? OP_DO_ENSURE
						      : OP_DO_PREPARE };
}

struct op_decision decide_op(const struct op_facts *f)
{
	switch (f->kind) {
	case OP_END:
		return decide_end(f);
	case OP_CREATE:
	case OP_BUILD:
		return decide_start(f);
	case OP_KIND_MAX_:
		break;
	}
	return failed(OP_DO_FAIL, "not_supported",
		      "this controller does not know that kind of operation");
}

/* Codes that say "not now" or "not to this incarnation of me". */
static bool passes(const char *code)
{
	static const char *const words[] = {
		"capacity",	     "node_unavailable", "no_space",
		"store_unavailable", "rate_limited",	 "wrong_incarnation"
	};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(code, words[i]))
			return true;
	}
	return false;
}

enum answer decide_answer(enum op_kind kind, int status, const char *code,
			  int64_t time_left_ms)
{
	if (status >= 200 && status < 300)
		return ANSWER_DONE;
	/* no end is ever given up here: its deadline is decide_op()'s */
	if (kind == OP_END)
		return ANSWER_LATER;
	/* somebody newer commands this sandbox: not ours to judge */
	if (!strcmp(code, "stale"))
		return ANSWER_LATER;
	if (time_left_ms <= 0)
		return ANSWER_FAILED;
	if (status == 0 || status >= 502 || passes(code))
		return ANSWER_LATER;
	return ANSWER_FAILED;
}

unsigned decide_sweep_ms(int64_t found, unsigned active)
{
	return found > 0 || active > 0 ? SWEEP_BUSY_MS : SWEEP_IDLE_MS;
}

int decide_hook_delay_s(int attempts)
{
	int delay = 5;

	while (--attempts > 0 && delay < 21600)
		delay *= 3;
	return delay < 21600 ? delay : 21600;
}
