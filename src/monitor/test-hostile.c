/* SPDX-License-Identifier: Apache-2.0 */

/* A guest that stands in for its daemon and says what hurts most. Whatever it
 * says: a typed error or a cut for that one client, and bounded memory. */

#include <malloc.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "monitor/pass.h"
#include "monitor/test-pass-rig.h"

#define FILE_A "/v1/files?path=/a"

static void expect_guest_error(void)
{
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "\"code\":\"guest_error\"");
	T_HAS(fake->body, "\"cause\":\"guest\"");
}

/* ---- more than was asked, or less ---- */

TEST(a_file_never_brings_more_than_it_promised)
{
	start();
	fake->fields[0] = (struct pair){ "content-length", "3" };
	say("abcdef", 6);
	ask("GET", FILE_A);
	T_TRUE(fake->was_cut || fake->got_status == 502);
	T_TRUE(fake->body_n <= 3 || fake->got_status == 502);
	stop();
}

TEST(a_file_that_brings_less_is_cut)
{
	start();
	fake->fields[0] = (struct pair){ "content-length", "9" };
	say("abcdef", 6);
	ask("GET", FILE_A);
	T_TRUE(fake->was_cut || fake->got_status == 502);
	stop();
}

TEST(a_file_without_a_length_is_refused)
{
	start();
	say("abcdef", 6);
	ask("GET", FILE_A);
	expect_guest_error();
	stop();
}

TEST(a_file_of_negative_length_is_refused)
{
	static const char *const bad[] = { "-1", "18446744073709551616", "0x9",
					   "9 9", "" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		start();
		fake->fields[0] = (struct pair){ "content-length", bad[i] };
		say("abcdef", 6);
		ask("GET", FILE_A);
		T_TRUE(fake->was_cut || fake->got_status == 502);
		T_TRUE(fake->got_status == 0 || fake->got_status == 502);
		stop();
	}
}

TEST(a_range_is_answered_by_its_part)
{
	start();
	fake->asks[0] = (struct pair){ "range", "bytes=2-4" };
	fake->status = 206;
	fake->fields[0] = (struct pair){ "content-range", "bytes 2-4/9" };
	fake->fields[1] = (struct pair){ "etag", "\"v1\"" };
	fake->gives_length = true;
	say("cde", 3);
	ask("GET", FILE_A);
	T_INT(fake->got_status, 206);
	T_STR(fake->body, "cde");
	T_HAS(fake->got_head, "content-range: bytes 2-4/9\n");
	T_HAS(fake->got_head, "etag: \"v1\"\n");
	T_HAS(fake->got_head, "content-length: 3\n");
	T_HAS(fake->seen, "range: bytes=2-4\n");
	stop();
}

TEST(a_part_that_was_not_asked_is_refused)
{
	start();
	fake->status = 206;
	fake->fields[0] = (struct pair){ "content-range", "bytes 2-4/9" };
	say("cde", 3);
	ask("GET", FILE_A);
	expect_guest_error();
	stop();
}

TEST(a_part_larger_than_asked_is_refused)
{
	start();
	fake->asks[0] = (struct pair){ "range", "bytes=2-3" };
	fake->status = 206;
	fake->fields[0] = (struct pair){ "content-range", "bytes 2-4/9" };
	say("cde", 3);
	ask("GET", FILE_A);
	expect_guest_error();
	stop();
}

TEST(not_modified_needs_its_question)
{
	start();
	fake->status = 304;
	ask("GET", FILE_A);
	expect_guest_error();
	stop();
	start();
	fake->asks[0] = (struct pair){ "if-none-match", "\"v1\"" };
	fake->status = 304;
	fake->fields[0] = (struct pair){ "etag", "\"v1\"" };
	ask("GET", FILE_A);
	T_INT(fake->got_status, 304);
	T_INT(fake->body_n, 0);
	T_HAS(fake->got_head, "etag: \"v1\"\n");
	T_TRUE(!strstr(fake->got_head, "content-type"));
	stop();
}

TEST(a_head_has_a_length_and_no_body)
{
	start();
	fake->fields[0] = (struct pair){ "content-length", "1234" };
	say("", 0);
	ask("HEAD", FILE_A);
	T_INT(fake->got_status, 200);
	T_HAS(fake->got_head, "content-length: 1234\n");
	T_INT(fake->body_n, 0);
	T_TRUE(!fake->was_cut);
	stop();
}

TEST(many_ranges_never_reach_the_guest)
{
	start();
	fake->asks[0] = (struct pair){ "range", "bytes=0-1,4-5" };
	ask("GET", FILE_A);
	T_INT(fake->got_status, 416);
	T_HAS(fake->body, "\"field\":\"range\"");
	T_INT(fake->n_requests, 0);
	stop();
}

TEST(an_unsatisfied_range_names_the_size)
{
	static const char e[] = "{\"error\":{\"code\":\"offset_gone\"}}";

	start();
	fake->asks[0] = (struct pair){ "range", "bytes=9-" };
	fake->status = 416;
	fake->fields[0] = (struct pair){ "content-range", "bytes */5" };
	say(e, sizeof(e) - 1);
	ask("GET", FILE_A);
	T_INT(fake->got_status, 416);
	T_HAS(fake->got_head, "content-range: bytes */5\n");
	T_HAS(fake->body, "offset_gone");
	stop();
}

TEST(a_wrong_condition_is_400_and_names_its_field)
{
	start();
	fake->asks[0] = (struct pair){ "if-match", "v1" };
	fake->put_n = 10;
	client_writable(send_request("PUT", FILE_A, NULL, true));
	T_UNTIL(fake->got_eof);
	T_INT(fake->got_status, 400);
	T_HAS(fake->body, "\"field\":\"if-match\"");
	T_INT(fake->n_requests, 0);
	stop();
}

/* ---- names and words ---- */

TEST(no_name_is_taken_from_the_guest)
{
	start();
	fake->gives_length = true;
	fake->fields[0] = (struct pair){ "content-disposition",
					 "attachment; filename=../../x" };
	fake->fields[1] = (struct pair){ "location", "http://host/" };
	fake->fields[2] = (struct pair){ "set-cookie", "a=b" };
	fake->fields[3] = (struct pair){ "alt-svc", "h2=\"evil:443\"" };
	fake->fields[4] = (struct pair){ "content-encoding", "gzip" };
	say("x", 1);
	ask("GET", FILE_A);
	T_STR(fake->got_head, "accept-ranges: bytes\n"
			      "content-type: application/octet-stream\n"
			      "content-length: 1\n");
	stop();
}

TEST(statuses_of_the_host_cannot_be_said)
{
	static const int bad[] = { 206, 302, 304, 401, 407, 410, 502, 511 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		start();
		fake->status = bad[i];
		say("{\"error\":{\"code\":\"sandbox_ended\"}}", 35);
		ask("GET", "/v1/metrics");
		expect_guest_error();
		stop();
	}
}

TEST(a_stream_is_answered_200_or_not)
{
	start();
	fake->status = 201;
	say("{}", 2);
	ask("GET", OUTPUT);
	expect_guest_error();
	stop();
}

TEST(numbers_ids_and_names_have_their_forms)
{
	static const char *const bad[] = {
		"{\"mem_total_bytes\":-5}",
		"{\"disk_used_bytes\":1e308}",
		"{\"cpu_count\":\"../../x\"}",
		"{\"items\":[{\"id\":\"../../x\"}]}",
		"{\"items\":[{\"name\":\"../../etc/shadow\"}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		start();
		say(bad[i], strlen(bad[i]));
		ask("GET", "/v1/metrics");
		expect_guest_error();
		stop();
	}
}

/* ---- bytes instead of HTTP ---- */

/* The channel speaks noise: everything of it ends, a client gets an error. */
static void noise(const void *p, size_t n, bool ends_there)
{
	int ends[2];

	start();
	http_conn_free(fake->to_guest);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 ends),
	      0);
	fake_to_guest(ends[1]);
	send_request("GET", "/v1/metrics", NULL, false);
	spin(10);
	T_INT(write_all(ends[0], p, n), 0);
	if (ends_there)
		shutdown(ends[0], SHUT_RDWR);
	finish();
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	close(ends[0]);
	stop();
}

TEST(noise_is_an_error_for_who_asked)
{
	noise("HTTP/1.1 200 OK\r\n\r\n", 19, false);
	noise("SSH-2.0-OpenSSH_9.2\r\n", 21, false);
	noise("\xff\xff\xff\4\0\0\0\0\0", 9, false);
	noise("\x80\0\0\0\0\0\0\0\1", 9, false);
	/* DATA for a stream that has no head; then a frame cut short */
	noise("\0\0\1\0\0\0\0\0\1x", 10, true);
	noise("\0\0\4", 3, true);
}

TEST(half_an_answer_and_silence_is_an_error)
{
	int ends[2];

	start();
	http_conn_free(fake->to_guest);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 ends),
	      0);
	fake_to_guest(ends[1]);
	pass_silence_divisor = 5000; /* 90 s are 18 ms */
	send_request("GET", "/v1/metrics", NULL, false);
	finish();
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "in time");
	pass_silence_divisor = 1;
	close(ends[0]);
	stop();
}

/* ---- frames ---- */

TEST(huge_frames_end_at_their_header)
{
	static const uint32_t lengths[] = { 0x80000000u, 0xffffffffu, 65537u };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint8_t b[EXEC_FRAME_HEADER];
		size_t before, after;

		frame(b, EXEC_STDOUT, 0, "", 0);
		for (int k = 0; k < 4; k++)
			b[4 + k] = (uint8_t)(lengths[i] >> (24 - 8 * k));
		start();
		before = mallinfo2().uordblks;
		say(b, sizeof(b));
		fake->guest_holds = true;
		send_request("GET", OUTPUT, NULL, false);
		finish();
		after = mallinfo2().uordblks;
		T_TRUE(fake->was_cut);
		T_TRUE(after < before + (1u << 20));
		stop();
	}
}

TEST(half_a_header_and_silence_is_cut)
{
	uint8_t b[EXEC_FRAME_HEADER];

	frame(b, EXEC_STDOUT, 0, "", 0);
	start();
	pass_silence_divisor = 5000;
	fake->guest_holds = true;
	say(b, 7);
	send_request("GET", OUTPUT, NULL, false);
	finish();
	T_TRUE(fake->was_cut);
	pass_silence_divisor = 1;
	stop();
}

TEST(a_thousand_halves_leave_nothing)
{
	uint8_t b[EXEC_FRAME_HEADER];
	size_t before = 0;

	frame(b, EXEC_STDOUT, 0, "", 0);
	start();
	say(b, 7);
	for (int i = 0; i < 1000; i++) {
		ask("GET", OUTPUT); /* ends within a frame */
		T_TRUE(fake->was_cut);
		if (i == 100)
			before = mallinfo2().uordblks;
	}
	T_TRUE(mallinfo2().uordblks < before + (1u << 20));
	stop();
}

TEST(output_nobody_reads_stops_the_guest)
{
	static uint8_t flood[4u << 20];
	static const uint8_t zeros[4096];
	size_t before, n = 0;

	while (n + EXEC_FRAME_HEADER + 4096 <= sizeof(flood))
		n += frame(flood + n, EXEC_STDOUT,
			   n / (EXEC_FRAME_HEADER + 4096) * 4096, zeros, 4096);
	start();
	fake->reads_nothing = true;
	say(flood, n);
	before = mallinfo2().uordblks;
	send_request("GET", OUTPUT, "application/vnd.caisson.frames", false);
	spin(300);
	T_TRUE(!fake->over);
	T_TRUE(fake->reply_at < 2u << 20);
	T_TRUE(mallinfo2().uordblks < before + (2u << 20));
	/* and a signal goes through at once */
	fake->reads_nothing = false;
	say("{}", 2);
	fake->put_n = 2;
	client_writable(
	    send_request("POST", "/v1/execs/" EX "/signal", NULL, true));
	T_UNTIL(fake->got_status == 200 && fake->got_eof);
	stop();
}

TEST(facts_have_their_types)
{
	static const char *const bad[] = {
		"{\"code\":-1}",
		"{\"code\":4294967296}",
		"{\"wall_ms\":-5}",
		"{\"max_rss_bytes\":9223372036854775808}",
		"{\"reason\":\"../../x\"}",
		"{\"reason\":7}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint8_t b[128];
		size_t n =
		    frame(b, EXEC_EXIT, 0, bad[i], (uint32_t)strlen(bad[i]));

		start();
		say(b, n);
		ask("GET", OUTPUT);
		T_TRUE(fake->was_cut);
		T_INT(fake->body_n, 0);
		stop();
	}
}

/* ---- clients that do not move ---- */

TEST(a_client_that_never_reads_is_given_up)
{
	static uint8_t big[BIG_MAX - 1];

	start();
	pass_silence_divisor = 30000; /* 15 min are 30 ms */
	fake->gives_length = true;
	fake->reads_nothing = true;
	say(big, sizeof(big));
	send_request("GET", FILE_A, NULL, false);
	T_UNTIL(fake->over);
	T_TRUE(fake->was_cut);
	T_UNTIL(fake->n_cut == 1);
	pass_silence_divisor = 1;
	stop();
}

TEST(a_client_that_never_sends_is_given_up)
{
	start();
	pass_silence_divisor = 30000;
	fake->put_n = 100;
	fake->put_holds = true;
	client_writable(send_request("PUT", FILE_A, NULL, true));
	T_UNTIL(fake->over);
	T_TRUE(fake->was_cut);
	pass_silence_divisor = 1;
	stop();
}

TEST(a_guest_that_never_takes_an_upload_is_an_error)
{
	start();
	pass_silence_divisor = 5000;
	fake->guest_holds = true;
	say("", 0);
	fake->put_n = 4u << 20;
	client_writable(send_request("PUT", FILE_A, NULL, true));
	T_UNTIL(fake->got_status);
	T_INT(fake->got_status, 502);
	pass_silence_divisor = 1;
	stop();
}

TEST(input_may_wait_for_its_program)
{
	start();
	pass_silence_divisor = 5000;
	fake->guest_holds = true;
	say("", 0);
	fake->put_n = 4u << 20;
	client_writable(
	    send_request("POST", "/v1/execs/" EX "/stdin", NULL, true));
	spin(300);
	T_TRUE(!fake->over && !fake->got_status);
	pass_silence_divisor = 1;
	stop();
}

TEST(the_host_never_asks_what_the_guest_names)
{
	start();
	fake->status = 307;
	fake->fields[0] = (struct pair){ "location", "/v1/execs" };
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 502);
	T_INT(fake->n_requests, 1);
	stop();
}
