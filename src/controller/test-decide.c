/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/decide.h"

#include "base/test.h"

static enum row_action judge(const char *desired, const char *observed,
			     bool settled, bool listed)
{
	struct row_facts r = { .desired = desired,
			       .observed = observed,
			       .settled = settled,
			       .generation = 3,
			       .fence = 1 };
	struct list_facts l = { .observed = "running",
				.generation = 3,
				.fence = 1 };

	return decide_row(&r, listed ? &l : NULL);
}

TEST(a_running_row_that_is_listed_is_left_alone)
{
	T_INT(judge("running", "running", true, true), ROW_NOTHING);
}

TEST(a_running_row_that_the_node_does_not_have_is_lost)
{
	T_INT(judge("running", "running", true, false), ROW_LOST);
}

TEST(a_row_that_somebody_works_on_is_left_to_him)
{
	T_INT(judge("running", "pending", false, false), ROW_NOTHING);
	T_INT(judge("running", "running", false, false), ROW_NOTHING);
	T_INT(judge("deleted", "running", false, true), ROW_NOTHING);
}

TEST(a_pending_row_without_an_operation_does_not_wait_for_ever)
{
	T_INT(judge("running", "pending", true, false), ROW_LOST);
	T_INT(judge("running", "starting", true, false), ROW_LOST);
}

TEST(a_wished_end_that_happened_is_an_end)
{
	T_INT(judge("deleted", "running", true, false), ROW_ENDED);
}

TEST(a_wished_end_that_nobody_works_on_is_told_again)
{
	T_INT(judge("deleted", "running", true, true), ROW_END);
}

TEST(a_final_row_is_never_touched)
{
	T_INT(judge("running", "ended", true, false), ROW_NOTHING);
	T_INT(judge("running", "failed", true, true), ROW_NOTHING);
	T_INT(judge("deleted", "lost", true, true), ROW_NOTHING);
}

TEST(an_earlier_life_on_the_node_is_ended)
{
	struct row_facts r = { .desired = "running",
			       .observed = "running",
			       .settled = true,
			       .fence = 2 };
	struct list_facts l = { .observed = "running", .fence = 1 };

	T_INT(decide_row(&r, &l), ROW_END);
	l.fence = 2;
	T_INT(decide_row(&r, &l), ROW_NOTHING);
	l.fence = 3;
	T_INT(decide_row(&r, &l), ROW_NOTHING);
}

TEST(kinds_of_operations)
{
	T_INT(op_kind_of("create"), OP_CREATE);
	T_INT(op_kind_of("end"), OP_END);
	T_INT(op_kind_of("template_build"), OP_BUILD);
	T_INT(op_kind_of("teleport"), OP_KIND_MAX_);
}

static struct op_decision op(enum op_kind kind, bool has_node, bool alive,
			     int64_t left)
{
	struct op_facts f = { .kind = kind,
			      .has_node = has_node,
			      .node_alive = alive,
			      .complete = true,
			      .time_left_ms = left,
			      .attempts = 1 };

	return decide_op(&f);
}

TEST(a_create_is_driven_again_on_a_living_node)
{
	T_INT(op(OP_CREATE, true, true, 1000).action, OP_DO_ENSURE);
}

TEST(a_create_waits_for_a_silent_node_until_its_deadline)
{
	T_INT(op(OP_CREATE, true, false, 1000).action, OP_DO_LATER);
	T_TRUE(op(OP_CREATE, true, false, 1000).delay_s >= 1);
	T_INT(op(OP_CREATE, true, false, 0).action, OP_DO_FAIL);
	T_STR(op(OP_CREATE, true, false, -1).code, "node_unavailable");
}

TEST(a_create_beyond_its_deadline_is_undone_on_the_node)
{
	T_INT(op(OP_CREATE, true, true, 0).action, OP_DO_GIVE_UP);
	T_INT(op(OP_CREATE, true, true, -60000).action, OP_DO_GIVE_UP);
}

TEST(a_create_whose_release_is_gone_fails)
{
	struct op_facts f = { .kind = OP_CREATE,
			      .has_node = true,
			      .node_alive = true,
			      .time_left_ms = 1000 };

	T_INT(decide_op(&f).action, OP_DO_FAIL);
	T_STR(decide_op(&f).code, "not_found");
}

TEST(an_end_needs_no_release)
{
	struct op_facts f = { .kind = OP_END,
			      .has_node = true,
			      .node_alive = true,
			      .time_left_ms = 1000 };

	T_INT(decide_op(&f).action, OP_DO_END);
}

TEST(an_end_of_what_was_never_placed_is_done)
{
	T_INT(op(OP_END, false, false, 1000).action, OP_DO_ENDED);
	T_INT(op(OP_END, false, false, -1).action, OP_DO_ENDED);
}

TEST(an_end_waits_for_a_silent_node_and_then_calls_it_lost)
{
	T_INT(op(OP_END, true, false, 1).action, OP_DO_LATER);
	T_INT(op(OP_END, true, false, 0).action, OP_DO_LOST);
}

TEST(an_end_beyond_its_deadline_is_no_success)
{
	struct op_decision d = op(OP_END, true, true, 0);

	T_INT(d.action, OP_DO_GIVE_UP);
	T_STR(d.code, "node_unavailable");
}

TEST(a_build_is_prepared_again_or_fails_at_its_deadline)
{
	T_INT(op(OP_BUILD, true, true, 1000).action, OP_DO_PREPARE);
	T_INT(op(OP_BUILD, true, false, 1000).action, OP_DO_LATER);
	T_INT(op(OP_BUILD, true, true, 0).action, OP_DO_FAIL);
}

TEST(an_unknown_kind_fails_typed)
{
	T_INT(op(OP_KIND_MAX_, true, true, 1000).action, OP_DO_FAIL);
	T_STR(op(OP_KIND_MAX_, true, true, 1000).code, "not_supported");
}

TEST(every_decision_to_fail_has_a_code_and_words)
{
	for (int kind = 0; kind <= OP_KIND_MAX_; kind++) {
		for (int bits = 0; bits < 8; bits++) {
			struct op_facts f = {
				.kind = (enum op_kind)kind,
				.has_node = bits & 1,
				.node_alive = bits & 2,
				.complete = bits & 4,
				.time_left_ms = 0,
			};
			struct op_decision d = decide_op(&f);

			/* a deadline passed: nothing waits any longer */
			T_TRUE(d.action != OP_DO_LATER);
			if (d.action == OP_DO_FAIL ||
			    d.action == OP_DO_GIVE_UP || d.action == OP_DO_LOST)
				T_TRUE(d.code && d.message);
		}
	}
}

TEST(pauses_grow_to_a_limit)
{
	T_INT(decide_delay_s(0), 1);
	T_INT(decide_delay_s(1), 1);
	T_INT(decide_delay_s(2), 2);
	T_INT(decide_delay_s(3), 4);
	T_INT(decide_delay_s(4), 5);
	T_INT(decide_delay_s(1000000), 5);
}

TEST(a_2xx_is_done)
{
	T_INT(decide_answer(OP_CREATE, 200, "", 10), ANSWER_DONE);
	T_INT(decide_answer(OP_BUILD, 202, "", 10), ANSWER_DONE);
	T_INT(decide_answer(OP_END, 200, "", -10), ANSWER_DONE);
}

TEST(a_final_no_is_final)
{
	T_INT(decide_answer(OP_CREATE, 422, "not_supported", 1000),
	      ANSWER_FAILED);
	T_INT(decide_answer(OP_CREATE, 400, "invalid_field", 1000),
	      ANSWER_FAILED);
	T_INT(decide_answer(OP_CREATE, 500, "internal", 1000), ANSWER_FAILED);
}

TEST(not_now_is_tried_again_until_the_deadline)
{
	static const char *const words[] = { "capacity", "node_unavailable",
					     "no_space", "wrong_incarnation" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		T_INT(decide_answer(OP_CREATE, 409, words[i], 1000),
		      ANSWER_LATER);
		T_INT(decide_answer(OP_CREATE, 409, words[i], 0),
		      ANSWER_FAILED);
	}
}

TEST(no_answer_is_no_failure_before_the_deadline)
{
	T_INT(decide_answer(OP_CREATE, 0, "", 1000), ANSWER_LATER);
	T_INT(decide_answer(OP_CREATE, 0, "", 0), ANSWER_FAILED);
	T_INT(decide_answer(OP_BUILD, 503, "", 1), ANSWER_LATER);
}

TEST(an_end_is_never_answered_with_failed)
{
	static const int status[] = { 0, 400, 404, 409, 500, 503 };

	for (size_t i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		T_INT(decide_answer(OP_END, status[i], "x", 1000),
		      ANSWER_LATER);
		T_INT(decide_answer(OP_END, status[i], "x", -1), ANSWER_LATER);
	}
}

TEST(a_stale_command_judges_nobody)
{
	T_INT(decide_answer(OP_CREATE, 409, "stale", 1000), ANSWER_LATER);
	T_INT(decide_answer(OP_CREATE, 409, "stale", -1), ANSWER_LATER);
}

TEST(sweeps_are_quick_only_while_something_is_pending)
{
	T_INT(decide_sweep_ms(0, 0), SWEEP_IDLE_MS);
	T_INT(decide_sweep_ms(1, 0), SWEEP_BUSY_MS);
	T_INT(decide_sweep_ms(0, 1), SWEEP_BUSY_MS);
}

TEST(a_webhook_is_tried_again_after_5_s_and_at_most_6_h)
{
	int64_t sum = 0;

	T_INT(decide_hook_delay_s(0), 5);
	T_INT(decide_hook_delay_s(1), 5);
	T_INT(decide_hook_delay_s(2), 15);
	T_INT(decide_hook_delay_s(8), 10935);
	T_INT(decide_hook_delay_s(9), 21600);
	T_INT(decide_hook_delay_s(1000000), 21600);
	for (int i = 1; i <= 19; i++)
		sum += decide_hook_delay_s(i);
	T_TRUE(sum < HOOK_GIVE_UP_S); /* at least 19 tries */
}
