/* SPDX-License-Identifier: Apache-2.0 */

/* What streams and answers of a guest become: events, files, whole runs. */

#include <stdio.h>
#include <string.h>

#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"

static char *sb;

static void up(void)
{
	rig_up();
	sb = rig_create(BASE);
}

static void down(void)
{
	free(sb);
	sb = NULL;
	rig_down();
}

/* ---- server-sent events ---- */

static int output(const char *query, const char *name, const char *value)
{
	owned_str path =
	    xasprintf("/v1/execs/ex_%.20sabcdefgh/output%s", sb + 2, query);

	return ASK("GET", path, VIEWER, .name = "accept",
		   .value = "text/event-stream", .name2 = name, .value2 = value,
		   .data = true);
}

TEST(output_becomes_events_whose_id_is_the_next_byte)
{
	const char *t;

	up();
	T_INT(output("?follow=1", NULL, NULL), 200);
	T_STR(rig_last.type, "text/event-stream");
	t = buf_cstr(&rig_last.body);
	T_HAS(t, "event: started\nid: 0\ndata: {\"pid\":7,");
	T_HAS(t, "event: stdout\nid: 6\ndata: "
		 "{\"o\":0,\"b64\":\"aGVsbG8K\"}\n\n");
	T_HAS(t, "event: alive\ndata: ");
	T_HAS(t, "event: gap\nid: 10\n");
	T_HAS(t, "event: stderr\nid: 13\n");
	T_HAS(t, "event: exit\nid: 13\ndata: {\"reason\":\"exited\","
		 "\"code\":3}\n\n");
	T_TRUE(!strstr(t, "closing"));
	down();
}

TEST(the_last_event_id_counts_more_than_from)
{
	up();
	T_INT(output("?from=2&follow=1", "last-event-id", "13"), 200);
	T_HAS(rig_fake.last_path, "/output?from=13&follow=1");
	T_INT(output("?from=2", NULL, NULL), 200);
	T_HAS(rig_fake.last_path, "/output?from=2&follow=0");
	T_INT(output("", "last-event-id", "-1"), 400);
	T_INT(output("", "last-event-id", "12x"), 400);
	down();
}

TEST(a_broken_stream_of_events_says_interrupted)
{
	const char *t;

	up();
	rig_fake.guest = GUEST_CUTS;
	T_INT(output("?follow=1", NULL, NULL), 200);
	t = buf_cstr(&rig_last.body);
	T_HAS(t, "event: closing\ndata: {\"reason\":\"interrupted\","
		 "\"retry\":true}\n\n");
	T_TRUE(!strstr(t, "event: exit"));
	down();
}

TEST(the_console_comes_as_lines_or_as_events)
{
	owned_str path = NULL;
	const char *t;

	up();
	path = xasprintf("/v1/sandboxes/%s/logs?from=3", sb);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_STR(rig_last.type, "application/x-ndjson");
	T_HAS(rig_fake.last_path, "/v1/console?from=3&follow=0");
	T_INT(ASK("GET", path, VIEWER, .name = "accept",
		  .value = "text/event-stream"),
	      200);
	t = buf_cstr(&rig_last.body);
	T_HAS(t, "event: console\nid: 9\ndata: {\"o\":5,\"b64\":\"Ym9vdA==\"}");
	T_HAS(t, "event: gap\nid: 12\n");
	T_INT(ASK("GET", path, STRANGER), 404);
	T_INT(ASK("GET", path, NULL), 401);
	down();
}

TEST(changes_come_as_events_and_overflow_is_one)
{
	owned_str path = NULL;
	const char *t;

	up();
	path = xasprintf("/v1/sandboxes/%s/watch?path=/w&recursive=1", sb);
	T_INT(ASK("GET", path, VIEWER, .data = true), 200);
	T_STR(rig_last.type, "text/event-stream");
	T_HAS(rig_fake.last_path, "/v1/watch?path=/w&recursive=1");
	t = buf_cstr(&rig_last.body);
	T_HAS(t, "event: ready\n");
	T_HAS(t, "event: create\ndata: {\"type\":\"create\",\"path\":\"/a\"");
	T_HAS(t, "event: overflow\n");
	T_HAS(t, "event: closing\n"); /* the guest never ends it */
	T_TRUE(!strstr(t, "id: "));
	T_INT(ASK("GET", path, STRANGER, .data = true), 404);
	down();
}

/* ---- files ---- */

static int file(const char *method, const char *what, const char *key)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/%s", sb, what);

	return ASK(method, path, key, .data = true);
}

TEST(every_call_of_files_reaches_the_guest_as_it_is_meant)
{
	up();
	T_INT(file("GET", "files/list?path=/a&depth=2&limit=9&after=x", VIEWER),
	      200);
	T_STR(rig_fake.last_path,
	      "/v1/files/list?path=/a&depth=2&limit=9&after=x");
	T_INT(file("GET", "files/stat?path=/a&follow=0", VIEWER), 200);
	T_STR(rig_fake.last_path, "/v1/files/stat?path=/a&follow=0");
	T_INT(file("POST", "files/mkdir?path=/a/b&parents=1&mode=0700", DEV),
	      200);
	T_STR(rig_fake.last_path,
	      "/v1/files/mkdir?path=/a/b&mode=0700&parents=1");
	T_INT(file("POST", "files/move?path=/a&to=/b%20c&replace=1", DEV), 200);
	T_STR(rig_fake.last_path, "/v1/files/move?path=/a&to=/b%20c&replace=1");
	T_INT(file("DELETE", "files?path=/a&recursive=1", DEV), 200);
	T_STR(rig_fake.last_path, "/v1/files?path=/a&recursive=1");
	T_INT(file("GET", "archive?path=/a&format=tar.zst", VIEWER), 200);
	T_STR(rig_fake.last_path, "/v1/archive?path=/a&format=tar.zst");
	down();
}

TEST(malformed_calls_of_files_never_reach_the_guest)
{
	static const char *const bad[] = {
		"files/list",
		"files/list?path=",
		"files/list?path=/a&depth=0",
		"files/list?path=/a&depth=65",
		"files/list?path=/a&limit=1001",
		"files/stat?path=/a&follow=2",
		"files/stat?path=%00",
		"files/stat?path=%2",
		"archive?path=/a&format=zip",
	};

	up();
	rig_fake.last_path[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_INT(file("GET", bad[i], DEV), 400);
	T_INT(file("POST", "files/move?path=/a", DEV), 400);
	T_STR(rig_fake.last_path, "");
	down();
}

TEST(who_may_only_read_changes_nothing_and_strangers_see_nothing)
{
	static const char *const writes[][2] = {
		{ "PUT", "files?path=/a" },
		{ "DELETE", "files?path=/a" },
		{ "POST", "files/mkdir?path=/a" },
		{ "POST", "files/move?path=/a&to=/b" },
		{ "PUT", "archive?path=/a" },
	};
	static const char *const reads[] = {
		"files?path=/a", "files/list?path=/a", "files/stat?path=/a",
		"archive?path=/a", "watch?path=/a"
	};

	up();
	rig_fake.last_path[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		T_INT(file(writes[i][0], writes[i][1], VIEWER), 403);
		T_INT(file(writes[i][0], writes[i][1], STRANGER), 404);
		T_INT(file(writes[i][0], writes[i][1], NULL), 401);
	}
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		T_INT(file("GET", reads[i], STRANGER), 404);
		T_INT(file("GET", reads[i], NULL), 401);
	}
	T_STR(rig_fake.last_path, "");
	down();
}

TEST(a_full_disk_is_said_before_the_upload_ends)
{
	owned_str path = NULL;

	up();
	path = xasprintf("/v1/sandboxes/%s/files?path=/big", sb);
	rig_fake.guest = GUEST_FULL;
	T_INT(
	    ASK("PUT", path, DEV, .data = true, .h2 = true, .upload = 64 << 20),
	    507);
	T_STR(rig_field("error.code"), "no_space");
	T_INT(ASK("PUT", path, DEV, .data = true, .upload = 64 << 20), 507);
	down();
}

TEST(an_archive_goes_up_as_a_stream)
{
	owned_str path = NULL;

	up();
	path = xasprintf("/v1/sandboxes/%s/archive?path=/a&format=tar", sb);
	T_INT(ASK("PUT", path, DEV, .data = true, .upload = 8 << 20), 200);
	T_INT(rig_fake.uploaded, 8 << 20);
	T_STR(rig_fake.last_path, "/v1/archive?path=/a&format=tar");
	down();
}

/* ---- execs ---- */

TEST(a_terminals_size_is_checked_and_passed)
{
	owned_str path = NULL;

	up();
	path = xasprintf("/v1/execs/ex_%.20sabcdefgh/size", sb + 2);
	T_INT(ASK("POST", path, DEV, "{\"cols\":80,\"rows\":24}"), 200);
	T_HAS(rig_fake.last_path, "/size");
	T_INT(ASK("POST", path, DEV, "{\"cols\":80}"), 400);
	T_INT(ASK("POST", path, DEV, "{\"cols\":0,\"rows\":1}"), 400);
	T_INT(ASK("POST", path, VIEWER, "{\"cols\":80,\"rows\":24}"), 403);
	T_INT(ASK("POST", path, STRANGER, "{\"cols\":80,\"rows\":24}"), 404);
	down();
}

static int run(const char *key, const char *body, const char *query)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/run%s", sb, query);

	return ASK("POST", path, key, body);
}

TEST(a_run_answers_with_output_and_exit)
{
	up();
	T_INT(run(DEV, "{\"cmd\":[\"a\"]}", ""), 200);
	T_STR(rig_field("state"), "exited");
	T_STR(rig_field("exit.reason"), "exited");
	T_STR(rig_field("stdout.head"), "hello\n");
	T_STR(rig_field("stdout.encoding"), "utf-8");
	T_STR(rig_field("stderr.head"), "no\n");
	T_HAS(buf_cstr(&rig_last.body), "\"gap_bytes\":4");
	T_HAS(buf_cstr(&rig_last.body), "\"code\":3");
	T_HAS(rig_fake.last_exec, "\"start\":\"now\"");
	T_TRUE(strncmp(rig_field("id"), "ex_", 3) == 0);
	T_TRUE(strncmp(rig_last.timing, "guest;dur=", 10) == 0);
	T_TRUE(strtod(rig_last.timing + 10, NULL) > 0);
	down();
}

TEST(a_run_that_takes_longer_answers_with_what_there_is)
{
	up();
	rig_fake.guest = GUEST_RUNS;
	T_INT(run(DEV, "{\"cmd\":[\"a\"]}", "?wait_s=1"), 202);
	T_STR(rig_field("state"), "running");
	T_STR(rig_field("stdout.head"), "hello\n");
	T_HAS(rig_last.location, rig_field("id"));
	/* a second of waiting is the sandbox's */
	T_TRUE(strtod(rig_last.timing + 10, NULL) > 900);
	down();
}

TEST(a_run_that_breaks_names_its_exec)
{
	up();
	rig_fake.guest = GUEST_CUTS;
	T_INT(run(DEV, "{\"cmd\":[\"a\"]}", ""), 503);
	T_HAS(rig_field("error.message"), "ex_");
	down();
}

TEST(a_run_cannot_be_attached_to)
{
	up();
	T_INT(run(DEV, "{\"cmd\":[\"a\"],\"stdin\":true}", ""), 400);
	T_STR(rig_field("error.field"), "stdin");
	T_INT(run(DEV, "{\"cmd\":[\"a\"],\"start\":\"attach\"}", ""), 400);
	T_INT(run(DEV, "{}", ""), 400);
	T_INT(run(DEV, "{\"cmd\":[\"a\"]}", "?wait_s=61"), 400);
	T_INT(run(VIEWER, "{\"cmd\":[\"a\"]}", ""), 403);
	T_INT(run(STRANGER, "{\"cmd\":[\"a\"]}", ""), 404);
	down();
}

TEST(a_client_that_leaves_a_run_leaves_it_running)
{
	owned_str path = NULL;
	struct call c;

	up();
	rig_fake.guest = GUEST_RUNS;
	path = xasprintf("/v1/sandboxes/%s/run", sb);
	rig_fake.last_path[0] = '\0';
	rig_send(&c, &(struct ask){ "POST", path, DEV, "{\"cmd\":[\"a\"]}" });
	for (int i = 0; i < 500 && !strstr(rig_fake.last_path, "/output"); i++)
		loop_once(rig_loop, 10);
	T_HAS(rig_fake.last_path, "/output");
	rig_end(&c);
	rig_spin(100);
	rig_fake.guest = GUEST_GOOD;
	T_INT(run(DEV, "{\"cmd\":[\"a\"]}", ""), 200);
	down();
}
