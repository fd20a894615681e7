/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limit.h"

#include <stdio.h>

#include "base/test.h"

TEST(a_burst_is_let_through_and_then_one_a_period)
{
	struct limit *l = limit_new(2, 3);

	for (int i = 0; i < 3; i++)
		T_INT(limit_take(l, "a", 1000), 0);
	T_INT(limit_take(l, "a", 1000), 1);
	T_INT(limit_take(l, "a", 1499), 1);
	T_INT(limit_take(l, "a", 1500), 0);
	T_INT(limit_take(l, "a", 1501), 1);
	limit_free(l);
}

TEST(names_do_not_share_a_bucket)
{
	struct limit *l = limit_new(1, 1);

	T_INT(limit_take(l, "a", 0), 0);
	T_INT(limit_take(l, "a", 0), 1);
	T_INT(limit_take(l, "b", 0), 0);
	limit_free(l);
}

TEST(asking_takes_nothing_and_waiting_is_said_in_seconds)
{
	struct limit *l = limit_new(0.1, 1);

	T_INT(limit_wait_s(l, "a", 0), 0);
	T_INT(limit_wait_s(l, "a", 0), 0);
	limit_take(l, "a", 0);
	T_INT(limit_wait_s(l, "a", 0), 11);
	T_INT(limit_wait_s(l, "a", 9500), 1);
	T_INT(limit_wait_s(l, "a", 10000), 0);
	limit_free(l);
}

TEST(a_bucket_holds_no_more_than_the_burst_however_long_one_waits)
{
	struct limit *l = limit_new(1, 2);

	limit_take(l, "a", 0);
	T_INT(limit_take(l, "a", UINT64_C(1) << 50), 0);
	T_INT(limit_take(l, "a", UINT64_C(1) << 50), 0);
	T_INT(limit_take(l, "a", UINT64_C(1) << 50), 1);
	limit_free(l);
}

TEST(a_clock_that_goes_back_gives_nothing)
{
	struct limit *l = limit_new(1, 1);

	T_INT(limit_take(l, "a", 5000), 0);
	T_INT(limit_take(l, "a", 0), 1);
	T_INT(limit_take(l, "a", 5500), 1);
	limit_free(l);
}

TEST(an_exhausted_name_is_not_pushed_out_by_a_flood_of_others)
{
	struct limit *l = limit_new(0.001, 10);
	char name[32];

	for (int i = 0; i < 10; i++)
		limit_take(l, "bad", 0);
	T_TRUE(limit_wait_s(l, "bad", 0) > 0);
	for (int i = 0; i < 200000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		limit_take(l, name, 0);
	}
	T_TRUE(limit_wait_s(l, "bad", 0) > 0);
	limit_free(l);
}
