/* SPDX-License-Identifier: Apache-2.0 */

/* Much output, slow and several readers, reconnects, standard input, keys. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-frames.h"

/* A sanitizer keeps freed memory for a while. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define RSS_MAX_KIB 1048576
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define RSS_MAX_KIB 1048576
#endif
#ifndef RSS_MAX_KIB
#define RSS_MAX_KIB 32768
#endif

static struct rig r;
static struct frames f;

/* Resident memory of the guestd under test, KiB. */
static long guestd_rss_kib(void)
{
	char path[64];
	owned_str text = NULL;
	size_t n = 0;
	struct err e = { 0 };
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)r.pid);
	T_TRUE(file_read(path, 65536, &text, &n, &e) >= 0);
	p = strstr(text, "VmRSS:");
	T_TRUE(p != NULL);
	return strtol(p + 6, NULL, 10);
}

static void follow(const char *id, uint64_t from, struct rig_reply *p)
{
	char path[128];

	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=%llu&follow=1",
		 id, (unsigned long long)from);
	rig_start(&r, p, "GET", path, NULL, NULL, 0);
}

/* Feed frames while bytes come, until the stream is over. */
static void read_on(struct rig_reply *p, bool keep)
{
	while (!p->closed) {
		rig_run(&r, 200, &p->closed);
		frames_feed(&f, &p->body, keep);
	}
	frames_feed(&f, &p->body, keep);
	T_TRUE(!p->cut);
}

/* A pipe that rests is read again, whoever holds its other end. */
TEST(much_and_then_little_arrives)
{
	struct rig_reply p;
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"shell\":\"head -c 20000 /dev/zero; head -c 20000 "
			 "/dev/zero >&2; sleep 0.2; echo end; (sleep 0.3; "
			 "head -c 9000 /dev/zero) &\"",
			 id),
	      201);
	frames_init(&f, 0);
	follow(id, 0, &p);
	read_on(&p, true);
	T_INT(buf_len(&f.out), 29004);
	T_INT(buf_len(&f.err), 20000);
	frames_fini(&f);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(hundred_mebibytes_in_order_and_in_bounded_memory)
{
	char id[40];
	struct rig_reply p;
	long rss;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"dd\",\"if=/dev/zero\",\"bs=64k\",\"count="
			 "1600\",\"status=none\"],\"overflow\":\"block\","
			 "\"keep_bytes\":1048576",
			 id),
	      201);
	frames_init(&f, 0);
	follow(id, 0, &p);
	read_on(&p, false);
	rss = guestd_rss_kib();
	T_INT(f.at, 1600 * 65536);
	T_INT(f.n_gap, 0);
	T_INT(exit_int(&f, "dropped_bytes"), 0);
	/* far below what went through */
	T_TRUE(rss < RSS_MAX_KIB);
	rig_reply_fini(&p);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(numbered_lines_arrive_in_order)
{
	const char *at;

	guest_up(&r);
	guest_run(&r,
		  "\"cmd\":[\"seq\",\"1\",\"200000\"],\"overflow\":\"block\"",
		  &f);
	at = buf_cstr(&f.out);
	for (long i = 1; i <= 200000; i++) {
		char *end;

		T_INT(strtol(at, &end, 10), i);
		at = end + 1;
	}
	T_TRUE(*at == '\0');
	frames_fini(&f);
	rig_fini(&r);
}

TEST(nobody_reads_and_block_waits)
{
	char id[40], path[96];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"dd\",\"if=/dev/zero\",\"bs=64k\",\"count="
			 "64\",\"status=none\"],\"overflow\":\"block\","
			 "\"keep_bytes\":65536",
			 id),
	      201);
	rig_run(&r, 700, NULL);
	snprintf(path, sizeof(path), "/v1/execs/%s", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	T_HAS(buf_cstr(&p.body), "\"state\":\"running\"");
	T_HAS(buf_cstr(&p.body), "\"end\":65536}");
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_INT(f.at, 64 * 65536);
	T_INT(exit_int(&f, "dropped_bytes"), 0);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(nobody_reads_and_roll_goes_on)
{
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"shell\":\"head -c 1000000 /dev/zero; echo end\","
			 "\"keep_bytes\":65536",
			 id),
	      201);
	rig_run(&r, 500, NULL);
	guest_output(&r, id, 0, &f);
	T_INT(f.at, 1000004);
	T_INT(f.n_gap, 1);
	T_INT(f.gap_from, 0);
	T_TRUE(f.gap_to >= 1000004 - 65536);
	T_INT(exit_int(&f, "dropped_bytes"), f.gap_to);
	T_TRUE(!memcmp(buf_data(&f.out) + buf_len(&f.out) - 4, "end\n", 4));
	frames_fini(&f);
	rig_fini(&r);
}

TEST(slow_reader_holds_the_program_back)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"dd\",\"if=/dev/zero\",\"bs=64k\",\"count="
			 "200\",\"status=none\"],\"overflow\":\"block\","
			 "\"keep_bytes\":65536",
			 id),
	      201);
	frames_init(&f, 0);
	follow(id, 0, &p);
	/* read 64 KiB at a time, with pauses */
	for (int i = 0; i < 20; i++) {
		rig_take(&p, 65536);
		rig_run(&r, 20, &p.closed);
		frames_feed(&f, &p.body, false);
	}
	T_TRUE(!p.closed);
	T_TRUE(f.at < 200 * 65536);
	rig_take(&p, 0);
	read_on(&p, false);
	T_INT(f.at, 200 * 65536);
	T_INT(f.n_gap, 0);
	rig_reply_fini(&p);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(two_readers_both_get_everything)
{
	char id[40];
	struct rig_reply a, b;
	struct frames g;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"seq\",\"1\",\"100000\"],\"overflow\":"
			 "\"block\",\"keep_bytes\":65536",
			 id),
	      201);
	follow(id, 0, &a);
	follow(id, 0, &b);
	T_TRUE(rig_finish(&a));
	T_TRUE(rig_finish(&b));
	frames_init(&f, 0);
	frames_init(&g, 0);
	frames_feed(&f, &a.body, true);
	frames_feed(&g, &b.body, true);
	T_INT(f.at, 588895);
	T_INT(g.at, 588895);
	T_INT(f.n_gap + g.n_gap, 0);
	T_TRUE(!memcmp(buf_data(&f.out), buf_data(&g.out), 588895));
	frames_fini(&g);
	frames_fini(&f);
	rig_reply_fini(&a);
	rig_reply_fini(&b);
	rig_fini(&r);
}

TEST(reader_that_comes_later_gets_the_beginning)
{
	char id[40];
	struct rig_reply a;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"shell\":\"echo a; sleep 0.3; echo b\"", id),
	      201);
	follow(id, 0, &a);
	rig_run(&r, 100, NULL);
	guest_output(&r, id, 0, &f);
	T_STR(buf_cstr(&f.out), "a\nb\n");
	frames_fini(&f);
	rig_reply_fini(&a);
	rig_fini(&r);
}

TEST(reader_that_goes_away_harms_nobody)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"seq\",\"1\",\"100000\"],\"overflow\":"
			 "\"block\",\"keep_bytes\":65536",
			 id),
	      201);
	follow(id, 0, &p);
	p.body_max = 1000;
	rig_run(&r, 100, NULL);
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_INT(f.at, 588895);
	T_INT(exit_int(&f, "code"), 0);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(host_reconnects_in_the_middle_of_output)
{
	char id[40];
	struct rig_reply p;
	uint64_t half;

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"cmd\":[\"seq\",\"1\",\"300000\"],\"overflow\":"
			 "\"block\",\"keep_bytes\":1048576",
			 id),
	      201);
	frames_init(&f, 0);
	follow(id, 0, &p);
	while (f.at < 300000 && !p.closed) {
		rig_run(&r, 1, &p.closed);
		frames_feed(&f, &p.body, true);
	}
	half = f.at;
	T_TRUE(half >= 300000);
	T_TRUE(rig_reconnect(&r));
	T_TRUE(p.closed);
	rig_reply_fini(&p);
	/* go on where we were: no byte twice, none missing */
	follow(id, half, &p);
	read_on(&p, true);
	T_INT(f.at, 1988895);
	T_INT(buf_len(&f.out), 1988895);
	T_INT(f.n_gap, 0);
	rig_reply_fini(&p);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(ten_sessions_one_after_the_other)
{
	struct rig_reply p;

	guest_up(&r);
	for (int i = 0; i < 10; i++) {
		T_TRUE(rig_reconnect(&r));
		T_INT(rig_call(&r, &p, "GET", "/g1/hello", NULL), 200);
		rig_reply_fini(&p);
	}
	rig_fini(&r);
}

TEST(garbage_between_sessions_is_skipped)
{
	struct rig_reply p;
	uint8_t junk[10000];

	guest_up(&r);
	random_bytes(junk, sizeof(junk));
	T_INT(buf_put(record_out(r.record), junk, sizeof(junk)), 0);
	rig_run(&r, 50, NULL);
	T_TRUE(rig_reconnect(&r));
	T_INT(rig_call(&r, &p, "GET", "/g1/hello", NULL), 200);
	rig_reply_fini(&p);
	rig_fini(&r);
}

/* ---- standard input ---- */

static int feed(const char *id, const char *query, const void *p, size_t n,
		struct rig_reply *reply)
{
	char path[128];

	snprintf(path, sizeof(path), "/v1/execs/%s/stdin?%s", id, query);
	rig_start(&r, reply, "POST", path, NULL, p, n);
	T_TRUE(rig_finish(reply));
	return reply->status;
}

TEST(input_reaches_the_program)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"cat\"],\"stdin\":true", id), 201);
	T_INT(feed(id, "offset=0", "hello ", 6, &p), 200);
	T_HAS(buf_cstr(&p.body), "\"stdin_offset\":6");
	rig_reply_fini(&p);
	T_INT(feed(id, "offset=6&end=1", "world", 5, &p), 200);
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_STR(buf_cstr(&f.out), "hello world");
	frames_fini(&f);
	rig_fini(&r);
}

TEST(repeated_input_is_not_written_twice)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"cat\"],\"stdin\":true", id), 201);
	T_INT(feed(id, "offset=0", "abcdef", 6, &p), 200);
	rig_reply_fini(&p);
	T_INT(feed(id, "offset=3&end=1", "defghi", 6, &p), 200);
	T_HAS(buf_cstr(&p.body), "\"stdin_offset\":9");
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_STR(buf_cstr(&f.out), "abcdefghi");
	frames_fini(&f);
	rig_fini(&r);
}

TEST(input_with_a_hole_is_refused)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"cat\"],\"stdin\":true", id), 201);
	T_INT(feed(id, "offset=10", "x", 1, &p), 416);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(input_of_an_exec_without)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"cat\"]", id), 201);
	T_INT(feed(id, "offset=0", "x", 1, &p), 409);
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_INT(f.at, 0);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(much_input_through_a_slow_program)
{
	char id[40];
	struct rig_reply p;
	size_t n = 2u << 20;
	owned_str text = malloc(n);

	memset(text, 'x', n);
	guest_up(&r);
	T_INT(
	    guest_exec(&r, "\"shell\":\"sleep 0.2; wc -c\",\"stdin\":true", id),
	    201);
	T_INT(feed(id, "end=1", text, n, &p), 200);
	rig_reply_fini(&p);
	guest_output(&r, id, 0, &f);
	T_STR(buf_cstr(&f.out), "2097152\n");
	frames_fini(&f);
	rig_fini(&r);
}

TEST(input_after_the_program_closed_it)
{
	char id[40];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"shell\":\"exec <&-; sleep 100\",\"stdin\":true",
			 id),
	      201);
	rig_run(&r, 200, NULL);
	T_INT(feed(id, "offset=0", "x", 1, &p), 409);
	rig_reply_fini(&p);
	rig_fini(&r);
}

/* ---- idempotency ---- */

static int keyed(const char *key, const char *id, const char *fields,
		 struct rig_reply *p)
{
	const char *head[] = { "idempotency-key", key, NULL };
	owned_str body =
	    xasprintf("{\"id\":\"%s\",\"start\":\"now\",%s}", id, fields);

	rig_start(&r, p, "POST", "/v1/execs", head, body, strlen(body));
	T_TRUE(rig_finish(p));
	return p->status;
}

TEST(same_key_joins_the_same_process)
{
	struct rig_reply p;

	guest_up(&r);
	T_INT(keyed("k", "ex_aaaaaaaa", "\"cmd\":[\"true\"]", &p), 201);
	rig_reply_fini(&p);
	T_INT(keyed("k", "ex_bbbbbbbb", "\"cmd\":[\"true\"]", &p), 200);
	T_HAS(buf_cstr(&p.body), "ex_aaaaaaaa");
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "GET", "/v1/execs/ex_bbbbbbbb", NULL), 404);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(same_key_with_another_body)
{
	struct rig_reply p;

	guest_up(&r);
	T_INT(keyed("k", "ex_aaaaaaaa", "\"cmd\":[\"true\"]", &p), 201);
	rig_reply_fini(&p);
	T_INT(keyed("k", "ex_bbbbbbbb", "\"cmd\":[\"false\"]", &p), 409);
	T_STR(error_code(&p), "idempotency_mismatch");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(key_of_a_program_that_did_not_start_is_free)
{
	struct rig_reply p;

	guest_up(&r);
	T_INT(keyed("k", "ex_aaaaaaaa", "\"cmd\":[\"no-such-x\"]", &p), 404);
	rig_reply_fini(&p);
	T_INT(keyed("k", "ex_aaaaaaaa", "\"cmd\":[\"true\"]", &p), 201);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(two_at_once_with_one_key)
{
	const char *head[] = { "idempotency-key", "k", NULL };
	static const char a[] =
	    "{\"id\":\"ex_aaaaaaaa\",\"start\":\"now\",\"cmd\":[\"true\"]}";
	static const char b[] =
	    "{\"id\":\"ex_bbbbbbbb\",\"start\":\"now\",\"cmd\":[\"true\"]}";
	struct rig_reply p, q;

	guest_up(&r);
	rig_start(&r, &p, "POST", "/v1/execs", head, a, sizeof(a) - 1);
	rig_start(&r, &q, "POST", "/v1/execs", head, b, sizeof(b) - 1);
	T_TRUE(rig_finish(&p));
	T_TRUE(rig_finish(&q));
	T_INT(p.status, 201);
	T_INT(q.status, 200);
	T_HAS(buf_cstr(&q.body), "ex_aaaaaaaa");
	rig_reply_fini(&p);
	rig_reply_fini(&q);
	rig_fini(&r);
}

TEST(key_that_is_too_long)
{
	struct rig_reply p;
	char key[200];

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	guest_up(&r);
	T_INT(keyed(key, "ex_aaaaaaaa", "\"cmd\":[\"true\"]", &p), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}
