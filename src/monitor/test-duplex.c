/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "monitor/pass.h"
#include "monitor/test-pass-rig.h"

#define TUNNEL "/v1/tunnel?port=80"
#define WATCH  "/v1/watch?path=/a"

/* A stream whose guest answers at once and keeps its side open. */
static struct http_stream *open_stream(const char *path, const void *reply,
				       size_t n)
{
	struct http_stream *s;

	fake->answers_first = fake->guest_holds = true;
	say(reply, n);
	s = send_request("POST", path, NULL, true);
	T_UNTIL(fake->got_status);
	return s;
}

static void send_bytes(struct http_stream *s, const void *p, size_t n)
{
	T_INT(http_stream_write(s, p, n), n);
}

/* ---- attach ---- */

TEST(attach_carries_frames_both_ways_at_once)
{
	uint8_t out[256], in[256];
	size_t n = frame(out, EXEC_STARTED, 0, "{\"pid\":7}", 9);
	size_t m = frame(in, EXEC_STDIN, 0, "ab", 2);
	struct http_stream *s;

	m += frame(in + m, EXEC_SIZE, 0, "{\"cols\":80,\"rows\":24}", 21);
	m += frame(in + m, EXEC_SIGNAL, 0, "{\"name\":\"TERM\"}", 15);
	m += frame(in + m, EXEC_ACK, 0, "", 0);
	m += frame(in + m, EXEC_STDIN_END, 2, "", 0);
	start();
	s = open_stream(ATTACH, out, n);
	T_UNTIL(fake->body_n == n);
	T_INT(fake->got_status, 200);
	T_STR(fake->got_type, PASS_FRAMES_TYPE);
	T_TRUE(memcmp(fake->body, out, n) == 0);
	send_bytes(s, in, m);
	T_UNTIL(fake->got_n == m);
	T_TRUE(memcmp(fake->got, in, m) == 0);
	stop();
}

TEST(attach_ends_with_the_guests_end)
{
	uint8_t out[256];
	size_t n = frame(out, EXEC_EXIT, 0, "{\"code\":3}", 10);

	start();
	fake->answers_first = true;
	say(out, n);
	send_request("POST", ATTACH, NULL, true);
	finish();
	T_TRUE(!fake->was_cut);
	T_INT(fake->body_n, n);
	stop();
}

TEST(a_clients_end_of_input_is_no_end_of_the_output)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "x", 1);
	struct http_stream *s;

	start();
	s = open_stream(ATTACH, "", 0);
	http_stream_end(s);
	T_UNTIL(fake->got_end);
	http_stream_write(fake->guest, b, n);
	T_UNTIL(fake->body_n == n);
	T_TRUE(!fake->over);
	stop();
}

/* What the client got last is CLOSING {"reason":"protocol"}. */
static bool is_closed_for_protocol(void)
{
	return fake->body_n > EXEC_FRAME_HEADER &&
	       memmem(fake->body, fake->body_n, "\"protocol\"", 10) != NULL;
}

TEST(a_wrong_client_frame_ends_the_attach_alone)
{
	static const struct {
		uint8_t type;
		const char *p;
	} bad[] = { { EXEC_STDOUT, "x" },	   { EXEC_STDIN, "" },
		    { EXEC_SIZE, "{\"cols\":0}" }, { EXEC_ACK, "x" },
		    { EXEC_SIGNAL, "{}" },	   { 0x15, "" },
		    { EXEC_STDIN_END, "x" } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint8_t b[256];
		size_t n = frame(b, bad[i].type, 0, bad[i].p,
				 (uint32_t)strlen(bad[i].p));
		struct http_stream *s;

		start();
		s = open_stream(ATTACH, "", 0);
		send_bytes(s, b, n);
		finish();
		T_TRUE(!fake->was_cut);
		T_TRUE(is_closed_for_protocol());
		T_INT(fake->got_n, 0);
		T_UNTIL(fake->n_cut == 1);
		stop();
	}
}

TEST(client_input_that_ends_within_a_frame_is_wrong)
{
	uint8_t b[64];
	struct http_stream *s;

	frame(b, EXEC_STDIN, 0, "abc", 3);
	start();
	s = open_stream(ATTACH, "", 0);
	send_bytes(s, b, 10);
	http_stream_end(s);
	finish();
	T_TRUE(is_closed_for_protocol());
	stop();
}

TEST(closing_comes_after_whole_frames)
{
	uint8_t out[64], b[64];
	size_t n = frame(out, EXEC_STDOUT, 0, "abc", 3), m;
	struct http_stream *s;

	start();
	s = open_stream(ATTACH, out, n - 1); /* the guest is within a frame */
	m = frame(b, EXEC_ACK, 0, "x", 1);
	send_bytes(s, b, m);
	finish();
	T_INT(fake->body[0], EXEC_CLOSING);
	T_INT(fake->body[15], 0);
	stop();
}

TEST(a_wrong_frame_of_the_guest_cuts_the_attach)
{
	uint8_t b[64];
	size_t n = frame(b, EXEC_STDIN, 0, "abc", 3);

	start();
	fake->answers_first = true;
	say(b, n);
	send_request("POST", ATTACH, NULL, true);
	finish();
	T_TRUE(fake->was_cut);
	T_INT(fake->body_n, 0);
	stop();
}

TEST(a_broken_way_to_the_guest_may_be_tried_again)
{
	uint8_t out[64];
	size_t n = frame(out, EXEC_STDOUT, 0, "abc", 3);

	start();
	open_stream(ATTACH, out, n + 5); /* and a piece of the next one */
	T_UNTIL(fake->body_n == n);
	fake->to_guest = http_conn_free(fake->to_guest);
	finish();
	T_TRUE(!fake->was_cut);
	T_INT(fake->body[n], EXEC_CLOSING);
	T_INT(fake->body[n + 15], 3); /* where to go on */
	T_TRUE(memmem(fake->body, fake->body_n, "\"retry\":true", 12) != NULL);
	stop();
}

TEST(attach_may_be_refused)
{
	start();
	fake->status = 404;
	fake->answers_first = true;
	say("{\"error\":{\"code\":\"not_found\"}}", 30);
	send_request("POST", ATTACH, NULL, true);
	T_UNTIL(fake->got_status == 404 && fake->got_eof);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	stop();
}

/* ---- tunnel ---- */

TEST(a_tunnel_carries_bytes_both_ways)
{
	struct http_stream *s;

	start();
	fake->is_duplex = true;
	s = open_stream(TUNNEL, "\0\1hello", 7);
	T_UNTIL(fake->body_n == 7);
	send_bytes(s, "GET\n", 4);
	T_UNTIL(fake->got_n == 4);
	T_TRUE(memcmp(fake->got, "GET\n", 4) == 0);
	http_stream_write(fake->guest, "more", 4);
	T_UNTIL(fake->body_n == 11);
	T_HAS(fake->seen, "POST " TUNNEL);
	stop();
}

TEST(a_tunnels_client_may_end_first)
{
	struct http_stream *s;

	start();
	fake->is_duplex = true;
	s = open_stream(TUNNEL, "", 0);
	send_bytes(s, "q", 1);
	http_stream_end(s);
	T_UNTIL(fake->got_end);
	http_stream_write(fake->guest, "answer", 6);
	http_stream_end(fake->guest);
	finish();
	T_TRUE(!fake->was_cut);
	T_STR(fake->body, "answer");
	stop();
}

TEST(a_tunnels_guest_may_end_first)
{
	struct http_stream *s;

	start();
	fake->is_duplex = true;
	fake->answers_first = true;
	say("bye", 3);
	s = send_request("POST", TUNNEL, NULL, true);
	T_UNTIL(fake->got_eof);
	T_STR(fake->body, "bye");
	T_TRUE(!fake->over);
	send_bytes(s, "still here", 10);
	T_UNTIL(fake->got_n == 10);
	T_INT(fake->n_cut, 0);
	http_stream_end(s);
	T_UNTIL(fake->got_end);
	finish();
	T_TRUE(!fake->was_cut);
	stop();
}

TEST(a_tunnel_that_breaks_is_cut)
{
	start();
	fake->is_duplex = true;
	open_stream(TUNNEL, "x", 1);
	http_stream_reset(fake->guest);
	finish();
	T_TRUE(fake->was_cut);
	stop();
}

TEST(a_broken_tunnel_is_cut_though_the_guest_had_ended)
{
	start();
	fake->is_duplex = true;
	fake->answers_first = true;
	say("bye", 3);
	send_request("POST", TUNNEL, NULL, true);
	T_UNTIL(fake->got_eof);
	http_stream_reset(fake->guest);
	finish();
	T_TRUE(fake->was_cut);
	stop();
}

TEST(a_closed_port_is_502)
{
	static const char away[] = "{\"error\":{\"code\":"
				   "\"node_unavailable\",\"cause\":\"node\"}}";

	start();
	fake->status = 502;
	fake->answers_first = true;
	say(away, strlen(away));
	send_request("POST", TUNNEL, NULL, true);
	T_UNTIL(fake->got_eof);
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "\"code\":\"port_closed\"");
	T_HAS(fake->body, "\"cause\":\"guest\"");
	stop();
}

TEST(a_silent_tunnel_stays)
{
	start();
	fake->is_duplex = true;
	pass_silence_divisor = 5000; /* 90 s are 18 ms */
	open_stream(TUNNEL, "x", 1);
	spin(300);
	T_TRUE(!fake->over);
	pass_silence_divisor = 1;
	stop();
}

/* ---- watch ---- */

TEST(a_watch_is_lines_written_anew)
{
	static const char lines[] =
	    "{ \"type\":\"ready\" }\n"
	    "{\"type\":\"create\",\"path\":\"/a/\\u00e9\",\"evil\":1}\n"
	    "{\"type\":\"alive\"}\n";

	start();
	say(lines, sizeof(lines) - 1);
	ask("GET", WATCH);
	T_STR(fake->got_type, "application/x-ndjson");
	T_STR(fake->body, "{\"type\":\"ready\"}\n"
			  "{\"type\":\"create\",\"path\":\"/a/é\"}\n"
			  "{\"type\":\"alive\"}\n");
	T_TRUE(!fake->was_cut);
	stop();
}

TEST(a_wrong_line_cuts_the_watch)
{
	static const char lines[] = "{\"type\":\"ready\"}\n[]\n";

	start();
	say(lines, sizeof(lines) - 1);
	ask("GET", WATCH);
	T_TRUE(fake->was_cut);
	T_TRUE(!strchr(fake->body, '['));
	stop();
}

TEST(a_watch_that_ends_within_a_line_is_cut)
{
	start();
	say("{\"type\":\"ready\"}\n{", 18);
	ask("GET", WATCH);
	T_TRUE(fake->was_cut);
	stop();
}

/* ---- archives ---- */

TEST(archives_have_the_type_that_was_asked)
{
	start();
	say("tar", 3);
	ask("GET", "/v1/archive?path=/a");
	T_STR(fake->got_type, "application/x-tar");
	T_STR(fake->body, "tar");
	stop();
	start();
	fake->type = "text/html";
	say("zst", 3);
	ask("GET", "/v1/archive?path=/a&format=tar.zst");
	T_STR(fake->got_type, "application/zstd");
	stop();
}

TEST(an_archive_that_is_cut_is_cut)
{
	start();
	fake->guest_cuts = true;
	say("half", 4);
	ask("GET", "/v1/archive?path=/a");
	T_TRUE(fake->was_cut || fake->got_status == 502);
	stop();
}

/* ---- who does not read stops nobody else ---- */

TEST(a_slow_client_does_not_stop_the_others)
{
	static uint8_t big[BIG_MAX - 1];

	start();
	fake->gives_length = true;
	fake->reads_nothing = true;
	say(big, sizeof(big));
	send_request("GET", "/v1/files?path=/slow", NULL, false);
	spin(200);
	T_INT(fake->body_n, 0);
	fake->reads_nothing = false;
	fake->gives_length = false;
	fake->guest = NULL;
	say("{}", 2);
	send_request("GET", "/v1/metrics", NULL, false);
	T_UNTIL(fake->got_status == 200 && fake->body_n == 2);
	stop();
}

TEST(a_guest_that_reads_one_stream_slowly_takes_the_others)
{
	struct http_stream *s;

	start();
	fake->guest_holds = true;
	say("", 0);
	fake->put_n = 64u << 20;
	s = send_request("PUT", "/v1/files?path=/slow", NULL, true);
	client_writable(s);
	spin(200);
	T_TRUE(fake->put_n > 60u << 20);
	fake->guest_holds = false;
	say("{}", 2);
	send_request("GET", "/v1/metrics", NULL, false);
	T_UNTIL(fake->got_status == 200 && fake->body_n == 2);
	stop();
}
