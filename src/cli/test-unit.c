/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unit.h"

#include "base/test.h"

/* 0 and 1 stand alone; 2 waits for both */
static const unsigned after[] = { 0, 0, 3 };

TEST(backoff_doubles_up_to_its_limit)
{
	T_INT(unit_backoff_ms(0), 0);
	T_INT(unit_backoff_ms(1), 100);
	T_INT(unit_backoff_ms(2), 200);
	T_INT(unit_backoff_ms(5), 1600);
	T_INT(unit_backoff_ms(12), 30000);
	T_INT(unit_backoff_ms(4000000000u), 30000);
}

TEST(a_unit_waits_for_those_before_it)
{
	struct unit_track u[3] = { 0 };

	T_TRUE(unit_may_start(u, after, 3, 0, 0));
	T_TRUE(!unit_may_start(u, after, 3, 2, 0));
	unit_ready(&u[0], 0);
	T_TRUE(!unit_may_start(u, after, 3, 2, 0));
	unit_ready(&u[1], 0);
	T_TRUE(unit_may_start(u, after, 3, 2, 0));
}

TEST(a_unit_that_runs_does_not_start_again)
{
	struct unit_track u[3] = { 0 };

	unit_started(&u[0], 5);
	T_TRUE(!unit_may_start(u, after, 3, 0, 5));
	unit_ready(&u[0], 6);
	T_TRUE(!unit_may_start(u, after, 3, 0, 6));
}

TEST(a_dead_daemon_starts_again_after_its_pause)
{
	struct unit_track u[3] = { 0 };

	unit_started(&u[0], 1000);
	unit_ended(&u[0], false, false, 1500);
	T_INT(u[0].state, UNIT_WAITING);
	T_TRUE(!unit_may_start(u, after, 3, 0, 1599));
	T_TRUE(unit_may_start(u, after, 3, 0, 1600));
	T_INT(u[0].restarts, 1);
}

TEST(a_daemon_that_exits_with_0_starts_again_too)
{
	struct unit_track u[3] = { 0 };

	unit_started(&u[0], 1000);
	unit_ready(&u[0], 1000);
	unit_ended(&u[0], false, true, 1500);
	T_INT(u[0].state, UNIT_WAITING);
}

TEST(steady_running_forgives_earlier_failures)
{
	struct unit_track u = { 0 };

	for (int i = 0; i < 5; i++)
		unit_ended(&u, false, false, 0);
	T_INT(u.failures, 5);
	unit_started(&u, 0);
	unit_ready(&u, 1000);
	unit_ended(&u, false, false, 1000 + UNIT_STEADY_MS);
	T_INT(u.failures, 1);
}

TEST(short_running_does_not_forgive)
{
	struct unit_track u = { 0 };

	for (int i = 0; i < 5; i++)
		unit_ended(&u, false, false, 0);
	unit_started(&u, 0);
	unit_ready(&u, 1000);
	unit_ended(&u, false, false, 1000 + UNIT_STEADY_MS - 1);
	T_INT(u.failures, 6);
}

TEST(a_restart_does_not_hold_up_those_behind)
{
	struct unit_track u[3] = { 0 };

	unit_ready(&u[0], 0);
	unit_ready(&u[1], 0);
	unit_ended(&u[0], false, false, 100);
	T_TRUE(unit_may_start(u, after, 3, 2, 100));
}

TEST(a_task_is_done_when_it_ends_well)
{
	struct unit_track u = { 0 };

	unit_started(&u, 0);
	unit_ended(&u, true, true, 50);
	T_INT(u.state, UNIT_READY);
	T_INT(u.restarts, 0);
}

TEST(a_task_is_given_up_in_the_end)
{
	struct unit_track u = { 0 };

	for (unsigned i = 1; i < UNIT_TASK_FAILURES; i++) {
		unit_ended(&u, true, false, 0);
		T_INT(u.state, UNIT_WAITING);
	}
	unit_ended(&u, true, false, 0);
	T_INT(u.state, UNIT_FAILED);
}

TEST(a_daemon_is_never_given_up)
{
	struct unit_track u = { 0 };

	for (unsigned i = 0; i < 100; i++)
		unit_ended(&u, false, false, 0);
	T_INT(u.state, UNIT_WAITING);
	T_INT(u.not_before_ms, UNIT_BACKOFF_MAX);
}

TEST(the_next_start_is_the_earliest_that_waits_for_time_alone)
{
	struct unit_track u[3] = { 0 };

	u[0].not_before_ms = 500;
	u[1].not_before_ms = 300;
	T_INT(unit_next_ms(u, after, 3, 100), 200);
	unit_started(&u[0], 0);
	unit_started(&u[1], 0);
	T_TRUE(unit_next_ms(u, after, 3, 100) == UINT64_MAX);
}

TEST(all_are_ready_only_when_each_is)
{
	struct unit_track u[3] = { 0 };

	unit_ready(&u[0], 0);
	unit_ready(&u[1], 0);
	T_TRUE(!units_all_ready(u, 3));
	unit_ready(&u[2], 0);
	T_TRUE(units_all_ready(u, 3));
}
