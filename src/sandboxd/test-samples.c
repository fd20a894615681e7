/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/samples.h"

#include "base/test.h"

#define SB "sb00000000000000000001"

static void push(struct samples *ss, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct usage u = { .is_known = true, .cpu_ms = ss->next };

		samples_push(ss, SB, &u);
	}
}

TEST(nothing_is_there_at_first)
{
	struct samples ss;

	samples_init(&ss);
	T_TRUE(samples_known(&ss, 0));
	T_TRUE(!samples_next(&ss, 0));
	T_TRUE(!samples_known(&ss, 1));
	samples_fini(&ss);
}

TEST(each_comes_once_in_order)
{
	struct samples ss;

	samples_init(&ss);
	push(&ss, 3);
	for (uint64_t i = 0; i < 3; i++) {
		T_INT(samples_next(&ss, i)->seq, i + 1);
		T_INT(samples_next(&ss, i)->usage.cpu_ms, i + 1);
	}
	T_TRUE(!samples_next(&ss, 3));
	samples_fini(&ss);
}

TEST(who_fell_behind_is_told)
{
	struct samples ss;

	samples_init(&ss);
	push(&ss, SAMPLES_RING);
	T_TRUE(samples_known(&ss, 0));
	push(&ss, 1);
	T_TRUE(!samples_known(&ss, 0));
	T_TRUE(samples_known(&ss, 1));
	T_INT(samples_next(&ss, 1)->seq, 2);
	samples_fini(&ss);
}
