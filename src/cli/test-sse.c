/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/test.h"
#include "cli/sse.h"

static struct buf seen;
static int stop_after;

static int on_event(void *arg, const struct sse_event *ev)
{
	(void)arg;
	T_INT(strlen(ev->data), ev->n);
	buf_printf(&seen, "[%s|%s|%s]", ev->type, ev->id, ev->data);
	return stop_after && --stop_after == 0;
}

/* The same in one piece and byte by byte. */
static void gives(const char *text, const char *want)
{
	size_t n = strlen(text);

	for (size_t step = 1; step <= n; step += n > 1 ? n - 1 : 1) {
		struct sse s;
		struct err e = { 0 };

		buf_init(&seen, 0);
		sse_init(&s, on_event, NULL);
		for (size_t at = 0; at < n; at += step)
			T_INT(sse_feed(&s, text + at,
				       n - at < step ? n - at : step, &e),
			      0);
		T_STR(buf_cstr(&seen), want);
		sse_fini(&s);
		buf_fini(&seen);
	}
}

TEST(an_event_has_type_id_and_data)
{
	gives("event: a\nid: 7\ndata: {}\n\n", "[a|7|{}]");
}

TEST(data_lines_are_joined)
{
	gives("data: a\ndata:b\ndata\n\n", "[||a\nb\n]");
}

TEST(comments_and_unknown_fields_do_not_count)
{
	gives(": alive\n\nretry: 5\nfoo: x\ndata: y\n\n", "[||y]");
}

TEST(the_id_stays_the_type_does_not)
{
	gives("event: a\nid: 1\ndata: x\n\ndata: y\n\n", "[a|1|x][|1|y]");
}

TEST(any_end_of_line_will_do)
{
	gives("data: a\r\rdata: b\r\n\r\ndata: c\n\n", "[||a][||b][||c]");
}

TEST(an_event_without_data_or_end_is_none)
{
	gives("event: a\n\nevent: b\ndata: x\n", "");
}

TEST(a_restart_voids_the_unfinished)
{
	struct sse s;
	struct err e = { 0 };

	buf_init(&seen, 0);
	sse_init(&s, on_event, NULL);
	T_INT(sse_feed(&s, "id: 3\ndata: half", 16, &e), 0);
	sse_restart(&s);
	T_INT(sse_feed(&s, "data: whole\n\n", 13, &e), 0);
	T_STR(buf_cstr(&seen), "[|3|whole]");
	sse_fini(&s);
	buf_fini(&seen);
}

TEST(too_large_an_event_is_refused)
{
	static char piece[65536];
	struct sse s;
	struct err e = { 0 };
	int r = 0;

	memset(piece, 'a', sizeof(piece));
	sse_init(&s, on_event, NULL);
	for (int i = 0; i < 100 && r == 0; i++)
		r = sse_feed(&s, piece, sizeof(piece), &e);
	T_INT(r, -EMSGSIZE);
	sse_fini(&s);
}

TEST(a_handler_may_stop_it)
{
	struct sse s;
	struct err e = { 0 };

	buf_init(&seen, 0);
	stop_after = 1;
	sse_init(&s, on_event, NULL);
	T_INT(sse_feed(&s, "data: a\n\ndata: b\n\n", 18, &e), 1);
	T_STR(buf_cstr(&seen), "[||a]");
	sse_fini(&s);
	buf_fini(&seen);
}
