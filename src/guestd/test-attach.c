/* SPDX-License-Identifier: Apache-2.0 */

/* Attached clients: who starts a program, who writes, what is kept for whom. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-frames.h"

#define ATTACH ",\"start\":\"attach\""
/* so many bytes that no queue on the way holds them */
#define TEN_MIB                                                                \
	"\"cmd\":[\"dd\",\"if=/dev/zero\",\"bs=64k\",\"count=160\","           \
	"\"status=none\"]"
#define TEN_MIB_BYTES (160 * 65536)

static struct rig r;
static struct session s;
static char id[40];

static void created(const char *fields)
{
	owned_str text = xasprintf("%s" ATTACH, fields);

	guest_up(&r);
	T_INT(guest_exec(&r, text, id), 201);
}

static int call(const char *method, const char *more, const char *body,
		const char *has)
{
	struct rig_reply p;
	char path[128];
	int status;

	snprintf(path, sizeof(path), "/v1/execs/%s%s", id, more);
	status = rig_call(&r, &p, method, path, body);
	if (has)
		T_HAS(buf_cstr(&p.body), has);
	rig_reply_fini(&p);
	return status;
}

static void over(void)
{
	session_close(&s);
	rig_fini(&r);
}

/* ---- the start ---- */

TEST(nothing_runs_before_the_first_attach)
{
	created("\"shell\":\"echo ran\"");
	rig_run(&r, 200, NULL);
	T_INT(call("GET", "", NULL, "\"state\":\"created\""), 200);
	T_INT(call("GET", "", NULL, "\"pid\":null"), 200);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_INT(s.p.status, 200);
	T_STR(buf_cstr(&s.f.out), "ran\n");
	T_INT(s.f.n_started, 1);
	T_INT(s.f.n_exit, 1);
	T_INT(exit_int(&s.f, "code"), 0);
	T_INT(call("GET", "", NULL, "\"state\":\"exited\""), 200);
	over();
}

TEST(two_first_attaches_start_one_process)
{
	struct session t;

	created("\"shell\":\"echo ran; sleep 1\"");
	session_open(&r, &s, id, "", 0);
	session_open(&r, &t, id, "", 0);
	session_finish(&t);
	session_finish(&s);
	T_INT(s.p.status, 200);
	T_INT(t.p.status, 200);
	T_INT(s.f.pid, t.f.pid);
	T_STR(buf_cstr(&t.f.out), "ran\n");
	T_INT(t.f.n_exit, 1);
	/* the newer one writes */
	T_STR(s.f.closing, "replaced");
	T_TRUE(!s.f.retry);
	T_INT(s.f.n_exit, 0);
	session_close(&t);
	over();
}

static void refused(const char *fields, int status, const char *code,
		    const char *field)
{
	created(fields);
	/* and again: a client that lost the answer is told the same */
	for (int i = 0; i < 2; i++) {
		session_open(&r, &s, id, "", 0);
		session_finish(&s);
		T_INT(s.p.status, status);
		T_STR(error_code(&s.p), code);
		T_HAS(buf_cstr(&s.p.body), field);
		session_close(&s);
	}
	T_INT(call("GET", "", NULL, "\"state\":\"expired\""), 200);
	T_INT(call("GET", "", NULL, "\"not_started\":\""), 200);
	T_INT(call("DELETE", "", NULL, NULL), 204);
	rig_fini(&r);
}

TEST(attach_hears_that_the_program_is_not_there)
{
	refused("\"cmd\":[\"no-such-program-x\"]", 404, "not_found",
		"\"field\":\"cmd\"");
}

TEST(attach_hears_that_the_program_may_not_be_run)
{
	refused("\"cmd\":[\"/etc/passwd\"]", 403, "policy_denied",
		"\"field\":\"cmd\"");
}

TEST(attach_hears_of_a_bad_folder)
{
	refused("\"cmd\":[\"true\"],\"cwd\":\"/no/such\"", 400, "invalid_field",
		"\"field\":\"cwd\"");
}

TEST(attach_hears_of_a_bad_user)
{
	refused("\"cmd\":[\"true\"],\"user\":\"nobody-here\"", 400,
		"invalid_field", "\"field\":\"user\"");
}

TEST(two_attaches_hear_the_same_refusal)
{
	struct session t;

	created("\"cmd\":[\"no-such-program-x\"]");
	session_open(&r, &s, id, "", 0);
	session_open(&r, &t, id, "", 0);
	session_finish(&s);
	session_finish(&t);
	T_INT(s.p.status, 404);
	T_INT(t.p.status, 404);
	session_close(&t);
	over();
}

TEST(attach_that_went_away_at_once_has_started_it)
{
	created("\"shell\":\"sleep 0.2; echo ran\"");
	session_open(&r, &s, id, "", 0);
	rig_run(&r, 50, NULL);
	session_close(&s);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "ran\n");
	over();
}

TEST(attach_after_the_end_gets_everything)
{
	guest_up(&r);
	T_INT(guest_exec(&r, "\"shell\":\"echo one; exit 3\"", id), 201);
	rig_run(&r, 300, NULL);
	for (int i = 0; i < 2; i++) {
		session_open(&r, &s, id, "?from=2", 2);
		session_finish(&s);
		T_STR(buf_cstr(&s.f.out), "e\n");
		T_INT(s.f.n_started, 1);
		T_INT(exit_int(&s.f, "code"), 3);
		session_close(&s);
	}
	rig_fini(&r);
}

TEST(offsets_that_are_not_there)
{
	created("\"cmd\":[\"true\"]");
	session_open(&r, &s, id, "?from=1", 0);
	session_finish(&s);
	T_INT(s.p.status, 416);
	T_STR(error_code(&s.p), "offset_gone");
	session_close(&s);
	/* and it was not started by that */
	T_INT(call("GET", "", NULL, "\"state\":\"created\""), 200);
	session_open(&r, &s, id, "?from=-1", 0);
	session_finish(&s);
	T_INT(s.p.status, 400);
	over();
}

TEST(created_one_is_deleted_and_its_watcher_told)
{
	created("\"cmd\":[\"true\"]");
	session_open(&r, &s, id, "?watch=1", 0);
	session_run(&s, 100, false);
	T_INT(call("DELETE", "", NULL, NULL), 204);
	session_finish(&s);
	T_STR(s.f.closing, "deleted");
	T_INT(call("GET", "", NULL, NULL), 404);
	over();
}

TEST(calls_on_one_that_was_not_started)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	T_INT(call("POST", "/signal", "{\"name\":\"TERM\"}", "attach"), 409);
	T_INT(call("POST", "/stdin?offset=0", "x", "attach"), 409);
	T_INT(call("GET", "/output?from=0&follow=0", NULL, NULL), 200);
	T_INT(call("GET", "", NULL, "\"state\":\"created\""), 200);
	rig_fini(&r);
}

/* ---- watchers ---- */

TEST(watcher_starts_nothing_and_sees_all)
{
	struct session w;

	created("\"shell\":\"echo ran\"");
	session_open(&r, &w, id, "?watch=1", 0);
	session_run(&w, 200, false);
	T_INT(w.p.status, 200);
	T_INT(w.f.n_started, 0);
	T_INT(call("GET", "", NULL, "\"writer\":false,\"watchers\":1"), 200);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	session_finish(&w);
	T_STR(buf_cstr(&w.f.out), "ran\n");
	T_INT(w.f.n_exit, 1);
	session_close(&w);
	over();
}

TEST(watcher_may_not_write)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 100, true);
	{
		struct session w;

		session_open(&r, &w, id, "?watch=1", 0);
		session_input(&w, 0, "x");
		session_finish(&w);
		T_STR(w.f.closing, "protocol");
		session_close(&w);
	}
	session_input(&s, 0, "hello");
	session_send(&s, EXEC_STDIN_END, 5, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "hello");
	over();
}

TEST(slow_watcher_gets_a_gap_and_holds_nobody)
{
	struct session w;

	created(TEN_MIB ",\"keep_bytes\":65536");
	session_open(&r, &w, id, "?watch=1", 0);
	w.p.body_max = 1000;
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_INT(s.f.at, TEN_MIB_BYTES);
	T_INT(s.f.n_gap, 0);
	rig_take(&w.p, 0);
	session_finish(&w);
	T_INT(w.f.at, TEN_MIB_BYTES);
	T_INT(w.f.n_gap, 1);
	T_INT(w.f.n_exit, 1);
	session_close(&w);
	over();
}

/* ---- acknowledgements ---- */

static long long output_end(void)
{
	struct rig_reply p;
	char path[96];
	owned_json v = NULL;
	struct err e = { 0 };
	long long n;

	snprintf(path, sizeof(path), "/v1/execs/%s", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	T_INT(json_parse(buf_data(&p.body), buf_len(&p.body), &v, &e), 0);
	rig_reply_fini(&p);
	n = json_integer_value(
	    json_object_get(json_object_get(v, "output"), "end"));
	return n;
}

TEST(program_waits_for_acknowledgements)
{
	created(TEN_MIB ",\"keep_bytes\":65536,\"overflow\":\"roll\"");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 500, false);
	/* all was read, none of it acknowledged */
	T_INT(s.f.at, 65536);
	T_INT(output_end(), 65536);
	session_ack(&s);
	session_run(&s, 300, false);
	T_INT(s.f.at, 2 * 65536);
	session_ack(&s);
	session_finish(&s);
	T_INT(s.f.at, TEN_MIB_BYTES);
	T_INT(s.f.n_gap, 0);
	T_INT(exit_int(&s.f, "dropped_bytes"), 0);
	over();
}

TEST(writer_that_left_lets_it_roll)
{
	created(TEN_MIB ",\"keep_bytes\":65536");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 300, false);
	T_INT(s.f.at, 65536);
	session_close(&s);
	for (int i = 0; i < 300 && output_end() < TEN_MIB_BYTES; i++)
		rig_run(&r, 20, NULL);
	T_INT(output_end(), TEN_MIB_BYTES);
	session_open(&r, &s, id, "?from=65536", 65536);
	session_finish(&s);
	T_INT(s.f.n_gap, 1);
	T_INT(s.f.at, TEN_MIB_BYTES);
	over();
}

TEST(writer_that_left_keeps_it_waiting_with_block)
{
	created(TEN_MIB ",\"keep_bytes\":65536,\"overflow\":\"block\"");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 300, false);
	session_close(&s);
	rig_run(&r, 300, NULL);
	T_INT(output_end(), 65536);
	/* what was not acknowledged is still there */
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_INT(s.f.n_gap, 0);
	T_INT(s.f.at, TEN_MIB_BYTES);
	over();
}

TEST(output_is_a_reader_when_the_writer_left)
{
	struct frames f;

	created(TEN_MIB ",\"keep_bytes\":65536,\"overflow\":\"block\"");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 200, false);
	session_close(&s);
	guest_output(&r, id, 0, &f);
	T_INT(f.at, TEN_MIB_BYTES);
	T_INT(f.n_gap, 0);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(acknowledging_what_was_not_sent)
{
	created("\"cmd\":[\"sleep\",\"100\"]");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 100, false);
	session_send(&s, EXEC_ACK, 1, NULL, 0);
	session_finish(&s);
	T_STR(s.f.closing, "protocol");
	T_TRUE(!s.f.retry);
	/* that ended the stream, not the program */
	T_INT(call("GET", "", NULL, "\"state\":\"running\""), 200);
	over();
}

/* Who does not read holds a program back, but not its end. */
TEST(killed_while_nobody_acknowledges)
{
	created("\"cmd\":[\"yes\"],\"keep_bytes\":65536");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 300, false);
	T_INT(call("POST", "/signal", "{\"name\":\"KILL\"}", NULL), 204);
	for (int i = 0; i < 500; i++) {
		rig_run(&r, 20, NULL);
		if (s.p.closed)
			break;
	}
	T_INT(call("GET", "", NULL, "\"reason\":\"signaled\""), 200);
	session_finish(&s);
	T_INT(s.f.n_gap, 0);
	T_INT(s.f.n_exit, 1);
	/* what the pipe still held came too */
	T_TRUE(s.f.at > 65536);
	T_INT(exit_int(&s.f, "dropped_bytes"), 0);
	over();
}

TEST(killed_while_nobody_reads_with_block)
{
	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"yes\"],\"keep_bytes\":65536,\"overflow\":"
			 "\"block\"",
			 id),
	      201);
	rig_run(&r, 300, NULL);
	T_INT(call("POST", "/signal", "{\"name\":\"KILL\"}", NULL), 204);
	rig_run(&r, 300, NULL);
	T_INT(call("GET", "", NULL, "\"state\":\"exited\""), 200);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_INT(s.f.n_gap, 0);
	over();
}

/* An attached client that says nothing must not keep the loop turning. */
TEST(idle_session_costs_nothing)
{
	struct rig_reply p;
	char path[64];
	owned_str before = NULL;
	owned_str after = NULL;
	unsigned long long a = 0, b = 0;
	size_t n = 0;
	struct err e = { 0 };

	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "x");
	session_run(&s, 300, true);
	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)r.pid);
	T_TRUE(file_read(path, 256, &before, &n, &e) >= 0);
	session_run(&s, 1000, true);
	T_TRUE(file_read(path, 256, &after, &n, &e) >= 0);
	a = strtoull(before, NULL, 10);
	b = strtoull(after, NULL, 10);
	/* of a second, in nanoseconds */
	T_TRUE(b - a < 200000000);
	T_INT(rig_call(&r, &p, "GET", "/g1/hello", NULL), 200);
	rig_reply_fini(&p);
	over();
}

TEST(one_who_does_not_read_does_not_stall_others)
{
	char stalled[40];

	created(TEN_MIB);
	memcpy(stalled, id, sizeof(stalled));
	session_open(&r, &s, id, "", 0);
	s.p.body_max = 1;
	rig_run(&r, 200, NULL);
	for (int i = 0; i < 20; i++) {
		struct frames f;

		guest_run(&r, "\"shell\":\"echo hi\"", &f);
		T_STR(buf_cstr(&f.out), "hi\n");
		frames_fini(&f);
	}
	rig_take(&s.p, 0);
	session_finish(&s);
	T_INT(s.f.at, TEN_MIB_BYTES);
	over();
}

/* ---- standard input ---- */

TEST(input_by_position)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "abcdef");
	session_input(&s, 3, "defghi"); /* half of it again */
	session_input(&s, 0, "abc");	/* all of it again */
	session_send(&s, EXEC_STDIN_END, 9, NULL, 0);
	session_send(&s, EXEC_STDIN_END, 9, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "abcdefghi");
	T_INT(s.f.stdin_offset, 9);
	T_INT(s.f.n_exit, 1);
	over();
}

TEST(hole_in_the_input)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "ab");
	session_input(&s, 5, "x");
	session_finish(&s);
	T_STR(s.f.closing, "stdin_gap");
	T_TRUE(s.f.retry);
	session_close(&s);
	session_open(&r, &s, id, "?from=0", 0);
	session_run(&s, 200, true);
	T_INT(s.f.stdin_offset, 2);
	session_input(&s, 2, "c");
	session_send(&s, EXEC_STDIN_END, 3, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "abc");
	over();
}

TEST(end_before_everything_came)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_send(&s, EXEC_STDIN_END, 4, NULL, 0);
	session_finish(&s);
	T_STR(s.f.closing, "stdin_gap");
	over();
}

TEST(input_beyond_its_end)
{
	created("\"shell\":\"cat; sleep 100\",\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "ab");
	session_send(&s, EXEC_STDIN_END, 2, NULL, 0);
	session_input(&s, 2, "c");
	session_finish(&s);
	T_STR(s.f.closing, "protocol");
	over();
}

TEST(leaving_is_no_end_of_file)
{
	created("\"shell\":\"cat; echo eof\",\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "one ");
	session_expect(&s, "one ");
	session_close(&s);
	rig_run(&r, 200, NULL);
	T_INT(call("GET", "", NULL, "\"state\":\"running\""), 200);
	session_open(&r, &s, id, "?from=4", 4);
	session_input(&s, 4, "two ");
	session_send(&s, EXEC_STDIN_END, 8, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "two eof\n");
	over();
}

TEST(input_of_an_exec_without_one)
{
	created("\"cmd\":[\"sleep\",\"100\"]");
	session_open(&r, &s, id, "", 0);
	session_send(&s, EXEC_STDIN_END, 0, NULL, 0); /* says nothing new */
	session_run(&s, 100, true);
	T_TRUE(!s.p.closed);
	session_input(&s, 0, "x");
	session_finish(&s);
	T_STR(s.f.closing, "protocol");
	over();
}

/* The window of an honest client, unread by the program: what comes behind it
 * is heard all the same. */
TEST(frames_behind_unread_input_are_heard)
{
	static uint8_t text[EXEC_STDIN_WINDOW / 4];

	created("\"cmd\":[\"sleep\",\"100\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	for (uint64_t i = 0; i < 4; i++)
		session_send(&s, EXEC_STDIN, i * sizeof(text), text,
			     sizeof(text));
	session_send(&s, EXEC_SIGNAL, 0, "{\"name\":\"INT\"}", 14);
	session_finish(&s);
	T_STR(exit_str(&s.f, "signal"), "SIGINT");
	over();
}

TEST(much_input_both_ways_at_once)
{
	static uint8_t text[65536];
	uint64_t at = 0, n = 32 * sizeof(text);

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7 + i / 256);
	created("\"cmd\":[\"cat\"],\"stdin\":true,\"keep_bytes\":65536");
	session_open(&r, &s, id, "", 0);
	while (at < n && !s.p.closed) {
		session_run(&s, 1, true);
		if (at - (uint64_t)s.f.stdin_offset + sizeof(text) >
		    EXEC_STDIN_WINDOW)
			continue;
		session_send(&s, EXEC_STDIN, at, text, sizeof(text));
		at += sizeof(text);
	}
	session_send(&s, EXEC_STDIN_END, at, NULL, 0);
	session_finish(&s);
	T_INT(s.f.at, n);
	T_INT(s.f.n_gap, 0);
	for (size_t i = 0; i < n; i += sizeof(text))
		T_TRUE(!memcmp(buf_data(&s.f.out) + i, text, sizeof(text)));
	over();
}

/* What the program has not taken is the new writer's to say. */
TEST(new_writer_replaces_what_is_held)
{
	static char text[65536];
	long long taken;

	memset(text, 'a', sizeof(text) - 1);
	created("\"shell\":\"trap 'exec cat' USR1; while :; do sleep 0.05; "
		"done\",\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, text);
	session_input(&s, sizeof(text) - 1, text);
	session_run(&s, 300, true);
	session_close(&s);
	session_open(&r, &s, id, "", 0);
	session_run(&s, 200, true);
	taken = s.f.stdin_offset;
	T_TRUE(taken > 0 && taken < 2 * (long long)sizeof(text) - 2);
	session_input(&s, (uint64_t)taken, "other");
	session_send(&s, EXEC_STDIN_END, (uint64_t)taken + 5, NULL, 0);
	session_send(&s, EXEC_SIGNAL, 0,
		     "{\"name\":\"USR1\",\"scope\":\"leader\"}", 32);
	session_finish(&s);
	T_INT(s.f.at, taken + 5);
	T_STR(buf_cstr(&s.f.out) + taken, "other");
	over();
}

TEST(one_writer_at_a_time)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_run(&s, 100, true);
	T_INT(call("POST", "/stdin?offset=0", "x", "in_use"), 409);
	session_close(&s);
	rig_run(&r, 100, NULL);
	T_INT(call("POST", "/stdin?offset=0&end=1", "x", "\"stdin_offset\":1"),
	      200);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "x");
	over();
}

TEST(replaced_writer_is_not_listened_to)
{
	struct session old;

	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &old, id, "", 0);
	session_run(&old, 100, true);
	session_open(&r, &s, id, "", 0);
	session_run(&s, 100, true);
	session_input(&old, 0, "old");
	session_input(&s, 0, "new");
	session_send(&s, EXEC_STDIN_END, 3, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "new");
	session_finish(&old);
	T_STR(old.f.closing, "replaced");
	session_close(&old);
	over();
}

/* ---- other frames ---- */

TEST(signals_reach_the_tree_or_the_leader)
{
	created("\"shell\":\"trap 'echo got' USR1; echo up; while :; do sleep "
		"0.05; done\"");
	session_open(&r, &s, id, "", 0);
	session_expect(&s, "up\n");
	session_send(&s, EXEC_SIGNAL, 0,
		     "{\"name\":\"USR1\",\"scope\":\"leader\"}", 32);
	session_expect(&s, "got\n");
	session_send(&s, EXEC_SIGNAL, 0, "{\"name\":\"KILL\"}", 15);
	session_finish(&s);
	T_STR(exit_str(&s.f, "signal"), "SIGKILL");
	over();
}

static void broken(uint8_t type, uint64_t offset, const char *text)
{
	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_send(&s, type, offset, text, strlen(text));
	session_finish(&s);
	T_STR(s.f.closing, "protocol");
	T_TRUE(!s.f.retry);
	T_INT(call("GET", "", NULL, "\"state\":\"running\""), 200);
	over();
}

TEST(frame_of_an_unknown_type)
{
	broken(0x77, 0, "");
}

TEST(frame_that_only_the_guest_sends)
{
	broken(EXEC_STDOUT, 0, "x");
}

TEST(signal_that_is_none)
{
	broken(EXEC_SIGNAL, 0, "{\"name\":\"FOO\"}");
}

TEST(size_without_a_terminal)
{
	broken(EXEC_SIZE, 0, "{\"cols\":80,\"rows\":24}");
}

TEST(acknowledgement_with_a_payload)
{
	broken(EXEC_ACK, 0, "x");
}

TEST(request_that_ends_goes_on_reading)
{
	created(TEN_MIB ",\"keep_bytes\":65536,\"overflow\":\"block\"");
	session_open(&r, &s, id, "", 0);
	http_stream_end(s.p.stream);
	session_run(&s, RIG_WAIT_MS, false);
	T_INT(s.f.at, TEN_MIB_BYTES);
	T_INT(s.f.n_gap, 0);
	T_INT(s.f.n_exit, 1);
	over();
}

TEST(host_reconnects_and_resumes_both_ways)
{
	uint64_t at;

	created("\"cmd\":[\"cat\"],\"stdin\":true");
	session_open(&r, &s, id, "", 0);
	session_input(&s, 0, "before ");
	session_expect(&s, "before ");
	at = s.f.at;
	T_TRUE(rig_reconnect(&r));
	session_close(&s);
	session_open(&r, &s, id, "?from=7", at);
	session_run(&s, 200, true);
	T_INT(s.f.stdin_offset, 7);
	session_input(&s, 0, "before after");
	session_send(&s, EXEC_STDIN_END, 12, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "after");
	over();
}
