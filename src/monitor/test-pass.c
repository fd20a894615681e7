/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "monitor/test-pass-rig.h"

TEST(answers_are_written_anew)
{
	start();
	fake->extra_header = "x-evil";
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 200);
	T_STR(fake->body, "{\"a\":1}");
	T_STR(fake->got_type, "application/json");
	stop();
}

TEST(four_headers_pass_and_no_more)
{
	start();
	send_request("GET", "/v1/metrics", "application/json", false);
	finish();
	T_STR(fake->seen, "GET /v1/metrics\ntraceparent: 00-trace\n"
			  "accept: application/json\nidempotency-key: k1\n");
	stop();
}

TEST(answers_that_are_no_json_are_502)
{
	start();
	say("<html>", 6);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	stop();
}

TEST(statuses_are_from_a_list)
{
	static const int bad[] = { 206, 301, 302, 401, 418, 502, 599 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		start();
		fake->status = bad[i];
		ask("GET", "/v1/metrics");
		T_INT(fake->got_status, 502);
		T_HAS(fake->body, "guest_error");
		stop();
	}
}

TEST(a_guests_error_names_the_guest)
{
	static const char e[] = "{\"error\":{\"code\":\"not_found\","
				"\"cause\":\"policy\"}}";

	start();
	fake->status = 404;
	say(e, sizeof(e) - 1);
	ask("GET", "/v1/execs/" EX);
	T_INT(fake->got_status, 404);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	T_TRUE(!strstr(fake->body, "policy"));
	stop();
}

TEST(json_is_bounded)
{
	static char big[DATA_JSON_MAX + 100];

	start();
	memset(big, ' ', sizeof(big));
	say(big, sizeof(big));
	ask("GET", "/v1/execs");
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "too large");
	stop();
}

TEST(unknown_calls_never_reach_the_guest)
{
	start();
	ask("GET", "/g1/hello");
	T_INT(fake->got_status, 404);
	ask("PUT", "/v1/execs");
	T_INT(fake->got_status, 405);
	ask("GET", "/v1/files");
	T_INT(fake->got_status, 400);
	T_INT(fake->n_requests, 0);
	stop();
}

TEST(closed_means_409)
{
	start();
	data_open(fake->data, false);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 409);
	T_INT(fake->n_requests, 0);
	stop();
}

TEST(closing_cuts_what_runs)
{
	start();
	fake->guest_holds = true;
	fake->fields[0] = (struct pair){ "content-length", "10" };
	say("", 0);
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	data_open(fake->data, false);
	finish();
	T_TRUE(fake->was_cut);
	stop();
}

TEST(output_becomes_lines)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	n += frame(b + n, EXEC_EXIT, 2, "{\"code\":0}", 10);
	start();
	say(b, n);
	ask("GET", OUTPUT);
	T_INT(fake->got_status, 200);
	T_STR(fake->got_type, "application/x-ndjson");
	T_STR(fake->body, "{\"o\":0,\"s\":1,\"b64\":\"aGk=\"}\n"
			  "{\"o\":2,\"exit\":{\"code\":0}}\n");
	T_HAS(fake->seen, "accept: application/vnd.caisson.frames");
	stop();
}

TEST(output_stays_frames_if_asked)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	start();
	say(b, n);
	send_request("GET", OUTPUT, "application/vnd.caisson.frames", false);
	finish();
	T_STR(fake->got_type, "application/vnd.caisson.frames");
	T_INT(fake->body_n, n);
	T_TRUE(memcmp(fake->body, b, n) == 0);
	stop();
}

TEST(a_wrong_frame_cuts_the_output)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	n += frame(b + n, EXEC_STDOUT, 99, "hi", 2);
	start();
	say(b, n);
	ask("GET", OUTPUT);
	T_TRUE(fake->was_cut);
	T_TRUE(!strstr(fake->body, "99"));
	stop();
}

TEST(output_that_ends_in_a_frame_is_cut)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	start();
	say(b, n - 1);
	ask("GET", OUTPUT);
	T_TRUE(fake->was_cut);
	stop();
}

TEST(files_are_raw_bytes_of_our_type)
{
	start();
	fake->type = "text/html";
	fake->gives_length = true;
	say("<script>\0x", 10);
	ask("GET", "/v1/files?path=/a");
	T_INT(fake->got_status, 200);
	T_STR(fake->got_type, "application/octet-stream");
	T_INT(fake->body_n, 10);
	stop();
}

TEST(a_file_that_is_cut_is_not_whole)
{
	start();
	fake->fields[0] = (struct pair){ "content-length", "10" };
	fake->guest_cuts = true;
	say("half", 4);
	ask("GET", "/v1/files?path=/a");
	T_TRUE(fake->was_cut || fake->got_status == 502);
	stop();
}

TEST(a_client_that_does_not_read_stops_the_guest)
{
	static uint8_t big[BIG_MAX - 1];

	start();
	fake->gives_length = true;
	say(big, sizeof(big));
	fake->reads_nothing = true;
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(300);
	/* windows, stream queues and sockets in between, no more */
	T_TRUE(fake->reply_at < 2u << 20);
	T_TRUE(!fake->over);
	stop();
}

TEST(a_guest_that_does_not_read_stops_the_client)
{
	struct http_stream *s;

	start();
	fake->guest_holds = true;
	say("", 0);
	fake->put_n = 64u << 20;
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	spin(300);
	T_TRUE(fake->put_n > 60u << 20);
	stop();
}

TEST(uploads_arrive_whole)
{
	struct http_stream *s;

	start();
	fake->status = 201;
	fake->put_n = 3000000;
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	finish();
	T_INT(fake->got_status, 201);
	T_INT(fake->got_n, 3000000);
	stop();
}

/* ---- the digest of an upload ---- */

/* Of so many zeros, as client_writable() sends. */
#define ZEROS_10 "AdRIr9koBlRYz2cLYPWllNc1rwFyyNZ/IqgWgBMmgco="
#define HEX_10                                                                 \
	"01d448afd928065458cf670b60f5a594d735af0172c8d67f22a81680132681ca"
#define HEX_3000000                                                            \
	"35bce4eae54ec8e6cc2868baa8d157914d6ae2858811b4cc0c078c94460fa26f"

static void put_zeros(size_t n, const char *digest)
{
	struct http_stream *s;

	fake->status = 201;
	fake->put_n = n;
	if (digest)
		fake->asks[0] = (struct pair){ "content-digest", digest };
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	finish();
}

TEST(an_uploads_sum_is_the_monitors)
{
	static const char lie[] = "{\"size\":3000000,\"sha256\":\"00\"}";

	start();
	say(lie, sizeof(lie) - 1);
	put_zeros(3000000, NULL);
	T_INT(fake->got_status, 201);
	T_HAS(fake->body, "\"sha256\":\"" HEX_3000000 "\"");
	T_HAS(fake->body, "\"size\":3000000");
	T_HAS(fake->seen, "sum-by: host\n");
	stop();
}

TEST(a_right_digest_ends_the_upload)
{
	start();
	put_zeros(10, "sha-256=:" ZEROS_10 ":");
	T_INT(fake->got_status, 201);
	T_TRUE(fake->got_end);
	T_HAS(fake->body, HEX_10);
	stop();
}

TEST(a_wrong_digest_never_ends_the_upload)
{
	struct http_stream *s;

	start();
	fake->put_n = 11;
	fake->put_holds = true;
	fake->asks[0] =
	    (struct pair){ "content-digest", "sha-256=:" ZEROS_10 ":" };
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	T_UNTIL(fake->got_n == 11);
	http_stream_end(s);
	finish();
	T_INT(fake->got_status, 400);
	T_HAS(fake->body, "\"field\":\"content-digest\"");
	T_HAS(fake->body, "the 11 bytes that arrived");
	T_UNTIL(fake->n_cut == 1);
	T_TRUE(!fake->got_end);
	stop();
}

TEST(an_empty_upload_has_a_digest_too)
{
	struct http_stream *s;

	start();
	fake->asks[0] =
	    (struct pair){ "content-digest", "sha-256=:" ZEROS_10 ":" };
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	http_stream_end(s);
	finish();
	T_INT(fake->got_status, 400);
	T_TRUE(!fake->got_end);
	stop();
}

TEST(a_guest_that_has_the_file_too_early_lies)
{
	struct http_stream *s;

	start();
	fake->status = 201;
	fake->answers_first = true;
	fake->put_n = 10;
	fake->put_holds = true;
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	T_UNTIL(fake->got_status);
	T_INT(fake->got_status, 502);
	stop();
}

TEST(a_refusal_needs_no_upload)
{
	static const char full[] = "{\"error\":{\"code\":\"no_space\"}}";
	struct http_stream *s;

	start();
	fake->status = 507;
	fake->answers_first = true;
	say(full, sizeof(full) - 1);
	fake->put_n = 10;
	fake->put_holds = true;
	fake->asks[0] = (struct pair){ "content-length", "1000" };
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	T_UNTIL(fake->got_status);
	T_INT(fake->got_status, 507);
	T_HAS(fake->seen, "content-length: 1000\n");
	stop();
}

TEST(json_requests_are_bounded)
{
	struct http_stream *s;

	start();
	fake->put_n = (1 << 20) + 1;
	s = send_request("POST", "/v1/execs", NULL, true);
	client_writable(s);
	for (int i = 0; i < 500 && !fake->got_status; i++)
		loop_once(fake->loop, 5);
	T_INT(fake->got_status, 413);
	stop();
}

TEST(a_client_that_goes_cuts_the_guests_stream)
{
	struct http_stream *s;

	start();
	fake->guest_holds = true;
	fake->fields[0] = (struct pair){ "content-length", "10" };
	say("x", 1);
	s = send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	http_stream_reset(s);
	for (int i = 0; i < 500 && !fake->n_cut; i++)
		loop_once(fake->loop, 5);
	T_INT(fake->n_cut, 1);
	stop();
}

TEST(the_guests_end_is_the_clients)
{
	start();
	fake->guest_holds = true;
	fake->fields[0] = (struct pair){ "content-length", "10" };
	say("x", 1);
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	fake->to_guest = http_conn_free(fake->to_guest);
	finish();
	T_TRUE(fake->was_cut);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 503);
	stop();
}
