/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/escape.h"

#include "base/own.h"
#include "base/test.h"

struct typed {
	char text[256]; /* the guest's */
	enum escape_event events[8];
	size_t n_events;
};

static void type(const char *keys, bool tilde, const char *in, size_t n,
		 struct typed *ret)
{
	struct escape s;
	struct err e = { 0 };
	struct buf out;

	*ret = (struct typed){ 0 };
	buf_init(&out, 0);
	T_INT(escape_init(&s, keys, tilde, &e), 0);
	while (n > 0) {
		enum escape_event ev;
		size_t eaten =
		    escape_feed(&s, (const uint8_t *)in, n, &out, &ev);

		T_TRUE(eaten > 0 && eaten <= n);
		in += eaten;
		n -= eaten;
		if (ev != ESCAPE_NONE)
			ret->events[ret->n_events++] = ev;
	}
	T_TRUE(buf_len(&out) < sizeof(ret->text));
	if (buf_len(&out) > 0)
		memcpy(ret->text, buf_data(&out), buf_len(&out));
	buf_fini(&out);
}

#define TYPE(in, ret) type("ctrl-p,ctrl-q", true, in, sizeof(in) - 1, ret)

TEST(ordinary_keys_pass)
{
	struct typed t;

	TYPE("ls -l ~/x\r", &t);
	T_STR(t.text, "ls -l ~/x\r");
	T_INT(t.n_events, 0);
}

TEST(control_keys_are_the_guests)
{
	struct typed t;

	TYPE("\x03\x1a\x1c\x04", &t);
	T_STR(t.text, "\x03\x1a\x1c\x04");
}

TEST(detach_keys_detach_anywhere)
{
	struct typed t;

	TYPE("abc\x10\x11", &t);
	T_STR(t.text, "abc");
	T_INT(t.n_events, 1);
	T_INT(t.events[0], ESCAPE_DETACH);
}

TEST(half_of_the_detach_keys_is_given_back)
{
	struct typed t;

	TYPE("\x10x\x10\x10y", &t);
	T_STR(t.text, "\x10x\x10\x10y");
	T_INT(t.n_events, 0);
}

TEST(the_first_key_twice_still_detaches)
{
	struct typed t;

	TYPE("\x10\x10\x11", &t);
	T_STR(t.text, "\x10");
	T_INT(t.events[0], ESCAPE_DETACH);
}

TEST(keys_that_overlap_themselves)
{
	struct typed t;

	type("a,a,b", false, "aaab", 4, &t);
	T_STR(t.text, "a");
	T_INT(t.events[0], ESCAPE_DETACH);
	type("a,b,a,c", false, "ababac", 6, &t);
	T_STR(t.text, "ab");
	T_INT(t.n_events, 1);
}

TEST(tilde_dot_at_a_line_start_detaches)
{
	struct typed t;

	TYPE("~.", &t);
	T_INT(t.events[0], ESCAPE_DETACH);
	TYPE("x\r~.", &t);
	T_STR(t.text, "x\r");
	T_INT(t.events[0], ESCAPE_DETACH);
}

TEST(tilde_within_a_line_is_a_tilde)
{
	struct typed t;

	TYPE("x~.", &t);
	T_STR(t.text, "x~.");
	T_INT(t.n_events, 0);
}

TEST(tilde_suspend_and_help)
{
	struct typed t;

	TYPE("~\x1a~?\rab", &t);
	T_INT(t.n_events, 2);
	T_INT(t.events[0], ESCAPE_SUSPEND);
	T_INT(t.events[1], ESCAPE_HELP);
	T_STR(t.text, "\rab");
}

TEST(two_tildes_are_one)
{
	struct typed t;

	TYPE("~~.", &t);
	T_STR(t.text, "~.");
	T_INT(t.n_events, 0);
}

TEST(tilde_and_another_key_are_both_the_guests)
{
	struct typed t;

	TYPE("~/bin\r", &t);
	T_STR(t.text, "~/bin\r");
}

TEST(detach_keys_behind_a_tilde)
{
	struct typed t;

	TYPE("~\x10\x11", &t);
	T_STR(t.text, "~");
	T_INT(t.events[0], ESCAPE_DETACH);
}

TEST(none_and_no_escapes_leave_every_byte)
{
	struct typed t;

	type("none", false, "~.\x10\x11", 4, &t);
	T_STR(t.text, "~.\x10\x11");
	T_INT(t.n_events, 0);
}

TEST(forms_of_keys)
{
	static const char *const good[] = { "x", "ctrl-a", "ctrl-@", "ctrl-[",
					    "ctrl-a,b,ctrl-_" };
	static const char *const bad[] = {
		"",	  ",",
		"ctrl-",  "ctrl-ab",
		"ctrl-1", "ctrl-a,",
		"xy",	  "\xc3\xa4",
		"x,,y",	  "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"
	};
	struct escape s;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		T_INT(escape_init(&s, good[i], true, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		T_INT(escape_init(&s, bad[i], true, &e), -EINVAL);
		T_HAS(e.msg, "--detach-keys");
	}
}
