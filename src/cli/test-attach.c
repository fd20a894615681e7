/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attach.h"

#include "base/own.h"
#include "base/test.h"

#define TEXT(s) s, sizeof(s) - 1

static size_t frame(uint8_t *ret, uint8_t type, uint64_t at, const void *p,
		    size_t n)
{
	ret[0] = type;
	for (int i = 0; i < 8; i++)
		ret[1 + i] = (uint8_t)(at >> (56 - 8 * i));
	if (n)
		memcpy(ret + ATTACH_HEADER, p, n);
	return ATTACH_HEADER + n;
}

static uint64_t offset_of(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 1; i < 9; i++)
		v = v << 8 | p[i];
	return v;
}

/* Give one frame to a; the event's body is dropped. */
static int give(struct attach *a, uint8_t type, uint64_t at, const void *p,
		size_t n, struct attach_event *ret)
{
	static uint8_t m[ATTACH_MESSAGE_MAX + 64];
	struct err e = { 0 };
	int r = attach_take(a, m, frame(m, type, at, p, n), ret, &e);

	if (r < 0)
		T_TRUE(strlen(e.msg) > 10);
	json_decref(ret->body);
	ret->body = NULL;
	return r;
}

static void start(struct attach *a, const char *json)
{
	struct attach_event ev;

	attach_up(a);
	T_INT(give(a, EXEC_STARTED, 0, json, strlen(json), &ev), 0);
	T_INT(ev.type, ATTACH_STARTED);
}

/* The next message's type, 0 for none; its payload is in *m. */
static uint8_t next(struct attach *a, struct buf *m)
{
	buf_clear(m);
	return attach_next(a, m) ? buf_data(m)[0] : 0;
}

TEST(output_is_handed_on_once_and_in_order)
{
	struct attach a;
	struct attach_event ev;

	attach_init(&a, 0, true, false);
	start(&a, "{\"stdin_offset\":0}");
	T_INT(give(&a, EXEC_STDOUT, 0, TEXT("abc"), &ev), 0);
	T_TRUE(ev.type == ATTACH_OUTPUT && ev.n == 3 && ev.stream == 1);
	T_INT(give(&a, EXEC_STDOUT, 0, TEXT("abc"), &ev), 0);
	T_INT(ev.type, ATTACH_NOTHING);
	T_INT(give(&a, EXEC_STDERR, 1, TEXT("bcde"), &ev), 0);
	T_TRUE(ev.type == ATTACH_OUTPUT && ev.n == 2 && ev.stream == 2);
	T_TRUE(!memcmp(ev.p, "de", 2));
	T_INT(a.next, 5);
	attach_fini(&a);
}

TEST(a_jump_is_a_gap_with_its_bytes_behind_it)
{
	struct attach a;
	struct attach_event ev;

	attach_init(&a, 0, true, false);
	start(&a, "{}");
	T_INT(give(&a, EXEC_PTY, 100, TEXT("xy"), &ev), 0);
	T_INT(ev.type, ATTACH_GAP);
	T_TRUE(ev.from == 0 && ev.to == 100 && ev.n == 2 && ev.stream == 3);
	T_INT(a.next, 102);
	attach_fini(&a);
}

TEST(a_told_gap_moves_on_and_an_old_one_does_not)
{
	struct attach a;
	struct attach_event ev;

	attach_init(&a, 50, true, false);
	start(&a, "{}");
	T_INT(give(&a, EXEC_GAP, 0, TEXT("{\"from\":0,\"to\":40}"), &ev), 0);
	T_INT(ev.type, ATTACH_NOTHING);
	T_INT(give(&a, EXEC_GAP, 0, TEXT("{\"from\":0,\"to\":90}"), &ev), 0);
	T_TRUE(ev.type == ATTACH_GAP && ev.from == 50 && ev.to == 90);
	attach_fini(&a);
}

TEST(nothing_counts_behind_the_exit)
{
	struct attach a;
	struct attach_event ev;

	attach_init(&a, 0, true, false);
	start(&a, "{}");
	T_INT(give(&a, EXEC_EXIT, 0, TEXT("{\"code\":3}"), &ev), 0);
	T_INT(ev.type, ATTACH_EXIT);
	T_INT(give(&a, EXEC_STDOUT, 0, TEXT("late"), &ev), 0);
	T_INT(ev.type, ATTACH_NOTHING);
	attach_fini(&a);
}

TEST(frames_of_no_honest_server_are_refused)
{
	static const struct {
		uint8_t type;
		uint64_t at;
		const char *body;
	} bad[] = {
		{ EXEC_STDOUT, UINT64_MAX, "x" },
		{ EXEC_GAP, 0, "{\"from\":1}" },
		{ EXEC_GAP, 0, "{\"to\":-1}" },
		{ EXEC_GAP, 0, "{\"to\":\"9\"}" },
		{ EXEC_EXIT, 0, "" },
		{ EXEC_EXIT, 0, "[]" },
		{ EXEC_EXIT, 0, "{" },
		{ EXEC_ALIVE, 0, "{\"stdin_offset\":1}" },
		{ EXEC_ALIVE, 0, "{\"stdin_offset\":-1}" },
		{ EXEC_ALIVE, 0, "{\"stdin_offset\":\"0\"}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct attach a;
		struct attach_event ev;

		attach_init(&a, 0, true, false);
		start(&a, "{\"stdin_offset\":0}");
		T_INT(give(&a, bad[i].type, bad[i].at, bad[i].body,
			   strlen(bad[i].body), &ev),
		      -EBADMSG);
		attach_fini(&a);
	}
}

TEST(a_short_message_is_refused)
{
	struct attach a;
	struct attach_event ev;
	struct err e = { 0 };

	attach_init(&a, 0, true, false);
	T_INT(attach_take(&a, (const uint8_t *)"\x01\0\0\0", 4, &ev, &e),
	      -EBADMSG);
	attach_fini(&a);
}

TEST(unknown_types_are_left_alone)
{
	struct attach a;
	struct attach_event ev;

	attach_init(&a, 0, true, false);
	start(&a, "{}");
	T_INT(give(&a, 0x7f, 0, TEXT("??"), &ev), 0);
	T_INT(ev.type, ATTACH_NOTHING);
	attach_fini(&a);
}

TEST(nothing_is_sent_before_started)
{
	struct attach a;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, true, false);
	attach_stdin(&a, "in", 2);
	attach_signal(&a, "INT");
	attach_size(&a, 80, 24);
	T_INT(next(&a, &m), 0);
	attach_up(&a);
	T_INT(next(&a, &m), 0);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(signals_come_first_then_sizes_then_input)
{
	struct attach a;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, true, false);
	attach_stdin(&a, "in", 2);
	attach_stdin_end(&a);
	attach_size(&a, 80, 24);
	T_TRUE(attach_signal(&a, "INT"));
	start(&a, "{\"stdin_offset\":0}");
	T_INT(next(&a, &m), EXEC_SIGNAL);
	T_TRUE(!memcmp(buf_data(&m) + 9, "{\"name\":\"INT\",", 14));
	T_INT(next(&a, &m), EXEC_SIZE);
	T_INT(next(&a, &m), EXEC_STDIN);
	T_INT(buf_len(&m), 11);
	T_INT(next(&a, &m), EXEC_STDIN_END);
	T_INT(offset_of(buf_data(&m)), 2);
	T_INT(next(&a, &m), 0);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(a_signal_is_never_repeated_a_size_is)
{
	struct attach a;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, true, false);
	attach_size(&a, 80, 24);
	attach_signal(&a, "TERM");
	start(&a, "{}");
	T_INT(next(&a, &m), EXEC_SIGNAL);
	T_INT(next(&a, &m), EXEC_SIZE);
	attach_down(&a);
	start(&a, "{}");
	T_INT(next(&a, &m), EXEC_SIZE);
	T_INT(next(&a, &m), 0);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(input_keeps_within_the_window)
{
	struct attach a;
	struct attach_event ev;
	static uint8_t zeros[EXEC_STDIN_WINDOW];

	attach_init(&a, 0, true, false);
	T_INT(attach_stdin_room(&a), EXEC_STDIN_WINDOW);
	attach_stdin(&a, zeros, sizeof(zeros));
	T_INT(attach_stdin_room(&a), 0);
	start(&a, "{\"stdin_offset\":0}");
	T_INT(give(&a, EXEC_ALIVE, 0, TEXT("{\"stdin_offset\":1000}"), &ev), 0);
	T_INT(attach_stdin_room(&a), 1000);
	attach_fini(&a);
}

TEST(stdin_of_others_begins_where_started_says)
{
	struct attach a;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, false, false);
	T_INT(attach_stdin_room(&a), 0);
	start(&a, "{\"stdin_offset\":700}");
	T_TRUE(attach_stdin_room(&a) > 0);
	attach_stdin(&a, "x", 1);
	T_INT(next(&a, &m), EXEC_STDIN);
	T_INT(offset_of(buf_data(&m)), 700);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(a_watcher_sends_nothing_at_all)
{
	struct attach a;
	struct attach_event ev;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, false, true);
	T_TRUE(!attach_signal(&a, "INT"));
	start(&a, "{\"stdin_offset\":9}");
	give(&a, EXEC_STDOUT, 0, TEXT("abc"), &ev);
	attach_done(&a, 3);
	attach_ack(&a);
	attach_size(&a, 80, 24);
	T_INT(attach_stdin_room(&a), 0);
	T_TRUE(!attach_ack_waits(&a));
	T_INT(next(&a, &m), 0);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(only_what_was_processed_is_acknowledged)
{
	static uint8_t zeros[EXEC_FRAME_MAX];
	struct attach a;
	struct attach_event ev;
	struct buf m;

	buf_init(&m, 0);
	attach_init(&a, 0, true, false);
	start(&a, "{}");
	give(&a, EXEC_STDOUT, 0, zeros, sizeof(zeros), &ev);
	T_INT(next(&a, &m), 0);
	attach_done(&a, 10);
	T_INT(next(&a, &m), 0); /* too few: the timer's */
	T_TRUE(attach_ack_waits(&a));
	attach_ack(&a);
	T_INT(next(&a, &m), EXEC_ACK);
	T_INT(offset_of(buf_data(&m)), 10);
	attach_done(&a, EXEC_FRAME_MAX);
	T_INT(next(&a, &m), 0);
	give(&a, EXEC_STDOUT, EXEC_FRAME_MAX, zeros, 10, &ev);
	attach_done(&a, EXEC_FRAME_MAX + 10);
	T_INT(next(&a, &m), EXEC_ACK); /* EXEC_ACK_EVERY at once */
	attach_fini(&a);
	buf_fini(&m);
}

/* ---- the law: cut anywhere, and both directions are exact ---- */

static uint32_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)(seed >> 8) * below) >> 24);
}

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

struct guest {
	uint64_t out_total, out_at; /* log, position of this connection */
	uint64_t in_total, taken, held_to;
	bool in_over, exited;
};

struct user {
	uint64_t in_at, out_at, out_wrong, in_wrong;
};

/* A server message: true if one was given. */
static bool guest_speaks(struct guest *g, struct attach *a, struct user *u)
{
	static uint8_t bytes[4096];
	struct attach_event ev;
	char text[64];
	size_t n;

	if (rnd(4) == 0) {
		snprintf(text, sizeof(text), "{\"stdin_offset\":%llu}",
			 (unsigned long long)g->taken);
		T_INT(give(a, EXEC_ALIVE, 0, text, strlen(text), &ev), 0);
		return true;
	}
	if (g->out_at < g->out_total) {
		n = 1 + rnd(sizeof(bytes) - 1);
		if (n > g->out_total - g->out_at)
			n = (size_t)(g->out_total - g->out_at);
		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(g->out_at + i);
		T_INT(give(a, EXEC_STDOUT, g->out_at, bytes, n, &ev), 0);
		T_INT(ev.type, ATTACH_OUTPUT);
		for (size_t i = 0; i < ev.n; i++)
			u->out_wrong += ev.p[i] != byte_at(u->out_at + i);
		u->out_at += ev.n;
		g->out_at += n;
		return true;
	}
	if (!g->in_over || g->exited)
		return false;
	g->exited = true;
	T_INT(give(a, EXEC_EXIT, 0, TEXT("{\"code\":0}"), &ev), 0);
	return true;
}

static void guest_hears(struct guest *g, struct buf *m, struct user *u)
{
	const uint8_t *p = buf_data(m);
	uint64_t at = offset_of(p);
	size_t n = buf_len(m) - ATTACH_HEADER;

	if (p[0] == EXEC_STDIN) {
		T_TRUE(at <= g->held_to); /* no hole */
		for (size_t i = 0; i < n; i++) {
			if (at + i < g->held_to)
				continue;
			u->in_wrong += p[ATTACH_HEADER + i] != byte_at(at + i);
			g->held_to = at + i + 1;
		}
	} else if (p[0] == EXEC_STDIN_END) {
		T_INT(at, g->in_total);
		g->in_over = g->held_to == g->in_total;
		T_TRUE(g->in_over);
	} else if (p[0] == EXEC_ACK) {
		T_TRUE(at <= u->out_at);
	}
	if (rnd(3) == 0) /* what a cut leaves in its pipe stays there */
		g->taken += rnd((uint32_t)(g->held_to - g->taken) + 1);
}

static void user_types(struct attach *a, struct guest *g, struct user *u)
{
	uint8_t bytes[2000];
	size_t n = rnd(sizeof(bytes)), room = attach_stdin_room(a);

	n = n > room ? room : n;
	if (n > g->in_total - u->in_at)
		n = (size_t)(g->in_total - u->in_at);
	for (size_t i = 0; i < n; i++)
		bytes[i] = byte_at(u->in_at + i);
	attach_stdin(a, bytes, n);
	u->in_at += n;
	if (u->in_at == g->in_total)
		attach_stdin_end(a);
}

static void one_life(uint32_t s)
{
	struct guest g = { 0 };
	struct user u = { 0 };
	struct attach a;
	struct buf m;
	unsigned cuts = 0;

	seed = s;
	g.out_total = rnd(300000);
	g.in_total = rnd(400000);
	buf_init(&m, 0);
	attach_init(&a, 0, true, false);
	while (!a.over) {
		char text[64];
		unsigned steps = 1 + rnd(60);

		snprintf(text, sizeof(text), "{\"stdin_offset\":%llu}",
			 (unsigned long long)g.taken);
		start(&a, text);
		g.out_at = a.next;
		g.exited = false;
		while (steps-- > 0 && !a.over) {
			if (rnd(2))
				user_types(&a, &g, &u);
			if (rnd(2) && next(&a, &m)) {
				if (steps == 0 && rnd(2))
					break; /* lost on the way */
				guest_hears(&g, &m, &u);
			}
			if (rnd(2))
				guest_speaks(&g, &a, &u);
			attach_done(
			    &a, a.done + rnd((uint32_t)(a.next - a.done) + 1));
		}
		attach_down(&a);
		T_TRUE(++cuts < 100000);
	}
	T_INT(u.out_at, g.out_total);
	T_INT(u.out_wrong, 0);
	T_INT(g.held_to, g.in_total);
	T_INT(u.in_wrong, 0);
	attach_fini(&a);
	buf_fini(&m);
}

TEST(cut_anywhere_both_directions_are_exact)
{
	for (uint32_t s = 1; s <= 60; s++)
		one_life(s * 7919);
}
