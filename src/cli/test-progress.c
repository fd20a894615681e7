/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include "base/test.h"

TEST(a_progress_line_is_read)
{
	struct progress p;

	progress_init(&p);
	T_TRUE(progress_line(&p, "progress 3 10 installing packages", 1000));
	T_INT(p.done, 3);
	T_INT(p.total, 10);
	T_STR(p.phase, "installing packages");
}

TEST(other_lines_are_not_progress)
{
	static const char *const bad[] = { "",
					   "progress",
					   "progress 1",
					   "progress 1 2",
					   "progress x 2 y",
					   "progress 1 0 y",
					   "progress -1 2 y",
					   "Progress 1 2 y" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct progress p;

		progress_init(&p);
		T_TRUE(!progress_line(&p, bad[i], 1000));
		T_INT(p.total, 0);
	}
}

TEST(a_plan_in_seconds_goes_on_between_its_lines)
{
	struct progress p;
	char s[128];

	progress_init(&p);
	T_TRUE(progress_line(&p, "progress 10 100 installing", 1000));
	T_INT(progress_eta_s(&p, 1000), 90);
	T_INT(progress_eta_s(&p, 31000), 60);
	T_TRUE(progress_plain(&p, 31000, s, sizeof(s)));
	T_STR(s, "installing: 40 %  1m 00s left");
	/* longer than planned: nearly done, not done */
	T_INT(progress_eta_s(&p, 90000), 1);
	T_INT(progress_eta_s(&p, 500000), -1);
	T_TRUE(progress_plain(&p, 500000, s, sizeof(s)));
	T_STR(s, "installing: 99 %  longer than planned");
}

TEST(a_plan_that_is_over_says_no_time)
{
	struct progress p;
	char s[128];

	progress_init(&p);
	T_TRUE(progress_line(&p, "progress 10 10 done", 1000));
	T_TRUE(progress_plain(&p, 1000, s, sizeof(s)));
	T_STR(s, "done: 100 %");
}

TEST(more_than_all_is_all)
{
	struct progress p;

	progress_init(&p);
	T_TRUE(progress_line(&p, "progress 12 10 x", 1000));
	T_INT(p.done, 10);
	T_INT(progress_eta_s(&p, 1000), 0);
}

TEST(the_estimate_follows_the_speed)
{
	struct progress p;

	progress_init(&p);
	progress_set(&p, 0, 100, "x", 10000);
	T_INT(progress_eta_s(&p, 10000), -1);
	progress_set(&p, 10, 100, "x", 15000);
	T_INT(progress_eta_s(&p, 15000), 45);
	progress_set(&p, 50, 100, "x", 20000);
	T_INT(progress_eta_s(&p, 20000), 10);
}

TEST(a_slow_start_is_forgotten)
{
	struct progress p;

	progress_init(&p);
	progress_set(&p, 0, 1000, "x", 1000);
	for (unsigned i = 1; i <= 100; i++) /* one a second for 100 s */
		progress_set(&p, i, 1000, "x", 1000 + 1000 * i);
	for (unsigned i = 1; i <= 30; i++) /* then ten a second */
		progress_set(&p, 100 + 10 * i, 1000, "x", 101000 + 1000 * i);
	T_INT(progress_eta_s(&p, 131000), 60);
}

TEST(a_stall_makes_the_estimate_grow)
{
	struct progress p;
	int64_t before;

	progress_init(&p);
	progress_set(&p, 0, 100, "x", 1000);
	progress_set(&p, 50, 100, "x", 6000);
	before = progress_eta_s(&p, 6000);
	T_INT(before, 5);
	T_TRUE(progress_eta_s(&p, 26000) > before);
	/* beyond the window nothing is known any more */
	T_INT(progress_eta_s(&p, 600000), -1);
}

TEST(a_new_phase_forgets_the_old_speed)
{
	struct progress p;

	progress_init(&p);
	progress_set(&p, 0, 100, "a", 1000);
	progress_set(&p, 50, 100, "a", 6000);
	progress_set(&p, 60, 100, "b", 7000);
	T_INT(progress_eta_s(&p, 7000), -1);
}

TEST(the_bar_fits_its_columns)
{
	struct progress p;
	char s[256];

	progress_init(&p);
	progress_set(&p, 0, 100, "installing packages and more", 1000);
	progress_set(&p, 25, 100, "installing packages and more", 6000);
	for (unsigned columns = 40; columns < 140; columns++) {
		progress_bar(&p, 6000, columns, s, sizeof(s));
		T_TRUE(strlen(s) <= columns + 6);
		T_HAS(s, "25 %");
		T_HAS(s, "15s left");
	}
	progress_bar(&p, 6000, 100, s, sizeof(s));
	T_HAS(s, "[##########..");
}

TEST(long_times_are_said_in_minutes_and_hours)
{
	struct progress p;
	char s[256];

	progress_init(&p);
	progress_set(&p, 0, 1000, "x", 1000);
	progress_set(&p, 50, 1000, "x", 6000);
	progress_bar(&p, 6000, 100, s, sizeof(s));
	T_HAS(s, "1m 35s left");
	progress_init(&p);
	progress_set(&p, 0, 10000, "x", 1000);
	progress_set(&p, 10, 10000, "x", 6000);
	progress_bar(&p, 6000, 100, s, sizeof(s));
	T_HAS(s, "1h 23m left");
}

TEST(plain_lines_come_at_most_every_5_s_and_at_each_phase)
{
	struct progress p;
	char s[128];

	progress_init(&p);
	progress_set(&p, 0, 10, "a", 1000);
	T_TRUE(progress_plain(&p, 1000, s, sizeof(s)));
	T_STR(s, "a: 0 %");
	T_TRUE(!progress_plain(&p, 5999, s, sizeof(s)));
	T_TRUE(progress_plain(&p, 6000, s, sizeof(s)));
	progress_set(&p, 5, 10, "b", 6001);
	T_TRUE(progress_plain(&p, 6001, s, sizeof(s)));
	T_STR(s, "b: 50 %");
}
