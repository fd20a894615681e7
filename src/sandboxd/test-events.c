/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/events.h"

#include "base/own.h"
#include "base/test.h"

#define SB "sb00000000000000000001"

static void push(struct events *ev, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		events_push(ev, SB, i, "vmm_exit", "d", NULL);
}

TEST(empty_ring)
{
	struct events ev = { 0 };

	events_init(&ev);
	T_TRUE(events_known(&ev, 0));
	T_TRUE(events_next(&ev, 0) == NULL);
	T_TRUE(!events_known(&ev, 1));
	events_fini(&ev);
}

TEST(numbers_are_without_gaps)
{
	struct events ev = { 0 };

	events_init(&ev);
	push(&ev, 3);
	T_INT(events_next(&ev, 0)->seq, 1);
	T_INT(events_next(&ev, 1)->seq, 2);
	T_INT(events_next(&ev, 2)->seq, 3);
	T_TRUE(events_next(&ev, 3) == NULL);
	events_fini(&ev);
}

TEST(who_fell_behind_is_told)
{
	struct events ev = { 0 };

	events_init(&ev);
	push(&ev, EVENTS_RING);
	T_TRUE(events_known(&ev, 0));
	T_INT(events_next(&ev, 0)->seq, 1);
	push(&ev, 1);
	T_TRUE(!events_known(&ev, 0));
	T_TRUE(events_known(&ev, 1));
	T_INT(events_next(&ev, 1)->seq, 2);
	events_fini(&ev);
}

static unsigned woken;

static void on_event(struct events_waiter *w)
{
	(void)w;
	woken++;
}

TEST(waiter_is_told_once)
{
	struct events ev = { 0 };
	struct events_waiter w;

	events_init(&ev);
	woken = 0;
	events_wait(&ev, &w, on_event);
	push(&ev, 2);
	T_INT(woken, 1);
	events_fini(&ev);
}

TEST(waiter_that_left_is_not_told)
{
	struct events ev = { 0 };
	struct events_waiter w;

	events_init(&ev);
	woken = 0;
	events_wait(&ev, &w, on_event);
	list_del(&w.link);
	push(&ev, 1);
	T_INT(woken, 0);
	events_fini(&ev);
}

TEST(long_detail_is_cut)
{
	struct events ev = { 0 };
	char text[1000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	events_init(&ev);
	events_push(&ev, SB, 1, "oom", text, NULL);
	T_INT(strlen(events_next(&ev, 0)->detail), 191);
	events_fini(&ev);
}
