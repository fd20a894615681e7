/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP/1.1 connections, byte by byte. */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/http_int.h"
#include "net/test-peer.h"

#define HOST "Host: a.test\r\n"
#define GET  "GET /hello HTTP/1.1\r\n" HOST "\r\n"

static struct raw raw;

static void start(struct peer *p, enum http_version v,
		  const struct http_limits *lim)
{
	memset(&raw, 0, sizeof(raw));
	raw.fd = peer_init_raw(p, v, lim);
}

static void stop(struct peer *p)
{
	raw_close(&raw);
	peer_fini(p);
}

TEST(pipelined_requests_are_answered_in_order)
{
	struct peer p;
	const char *first;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "GET /big?n=5 HTTP/1.1\r\n" HOST "\r\n" GET
		       "GET /nowhere HTTP/1.1\r\n" HOST "\r\n");
	T_TRUE(raw_wait(&p, &raw, "404"));
	first = strstr(raw.text, "chunked");
	T_TRUE(first && first < strstr(raw.text, "hello"));
	T_TRUE(strstr(raw.text, "hello") < strstr(raw.text, "404"));
	T_INT(p.app.requests, 3);
	stop(&p);
}

TEST(pipelined_requests_are_served_one_at_a_time)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "GET /stuck HTTP/1.1\r\n" HOST "\r\n" GET GET GET);
	T_WAIT(&p, p.app.stuck);
	peer_spin(&p, 10);
	T_INT(p.app.requests, 1);
	app_unstick(&p);
	T_WAIT(&p, p.app.requests == 4 && p.app.closed_ok == 4);
	stop(&p);
}

TEST(a_flood_of_pipelined_requests_waits_in_the_socket)
{
	struct peer p;
	size_t sent = 0;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "GET /stuck HTTP/1.1\r\n" HOST "\r\n");
	T_WAIT(&p, p.app.stuck);
	/* 8 MiB would be held if nothing said stop */
	while (sent < 8u << 20) {
		ssize_t n = send(raw.fd, GET, strlen(GET), MSG_DONTWAIT);

		if (n < 0)
			break;
		sent += (size_t)n;
		loop_once(p.l, 0);
	}
	T_TRUE(sent < 4u << 20);
	stop(&p);
}

TEST(a_request_may_come_byte_by_byte)
{
	struct peer p;
	const char *text =
	    "POST /sink HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	    "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";

	start(&p, HTTP_1_1, NULL);
	for (size_t i = 0; i < strlen(text); i++) {
		raw_send_n(&raw, text + i, 1);
		loop_once(p.l, 0);
	}
	T_TRUE(raw_wait(&p, &raw, "\r\n\r\n7"));
	stop(&p);
}

TEST(connection_close_is_honoured)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "GET /hello HTTP/1.1\r\n" HOST
		       "Connection: close\r\n\r\n" GET);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "connection: close\r\n");
	T_INT(raw_count(&raw, "HTTP/1.1"), 1);
	T_INT(p.app.requests, 1);
	stop(&p);
}

TEST(keep_alive_is_silent)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, GET);
	T_TRUE(raw_wait(&p, &raw, "hello"));
	T_TRUE(!strstr(raw.text, "connection:"));
	raw_send(&raw, GET);
	T_WAIT(&p, p.app.closed_ok == 2);
	stop(&p);
}

TEST(expect_is_answered_with_100)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	T_TRUE(raw_wait(&p, &raw, "HTTP/1.1 100 Continue\r\n\r\n"));
	raw_send(&raw, "12345");
	T_TRUE(raw_wait(&p, &raw, "HTTP/1.1 200"));
	T_INT(raw_count(&raw, "100 Continue"), 1);
	stop(&p);
}

TEST(a_refused_expectation_ends_the_connection)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /early HTTP/1.1\r\n" HOST
		       "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "HTTP/1.1 413");
	T_HAS(raw.text, "connection: close");
	T_TRUE(!strstr(raw.text, "100 Continue"));
	stop(&p);
}

static void expect_refusal(const char *text, const char *status)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, text);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, status);
	T_INT(raw_count(&raw, "connection: close"), 1);
	T_INT(p.app.requests, 0);
	T_WAIT(&p, p.server_closed || raw.eof);
	stop(&p);
}

TEST(malformed_requests_get_400_and_the_end)
{
	expect_refusal("GET / HTTP/1.1\r\n\r\n" GET, "HTTP/1.1 400");
}

TEST(smuggled_requests_get_400_and_the_end)
{
	expect_refusal("POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n"
		       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET,
		       "HTTP/1.1 400");
}

TEST(other_versions_get_505)
{
	expect_refusal("GET / HTTP/1.0\r\n" HOST "\r\n", "HTTP/1.1 505");
}

TEST(other_codings_get_501)
{
	expect_refusal("POST / HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: gzip\r\n\r\n",
		       "HTTP/1.1 501");
}

TEST(large_heads_get_431)
{
	static char text[60000] = "GET / HTTP/1.1\r\n" HOST "X: ";

	memset(text + strlen(text), 'a', sizeof(text) - strlen(text) - 1);
	expect_refusal(text, "HTTP/1.1 431");
}

TEST(a_tls_hello_gets_400)
{
	struct peer p;

	start(&p, HTTP_AUTO, NULL);
	raw_send_n(&raw, "\x16\x03\x01\x00\xc8\x01\x00", 7);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "HTTP/1.1 400");
	stop(&p);
}

TEST(a_bad_chunk_cuts_the_request)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\n\r\n"
		       "3\r\nabc\r\n");
	T_WAIT(&p, p.app.sunk == 3);
	raw_send(&raw, "zz\r\n");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "HTTP/1.1 400");
	T_INT(p.app.closed_err, 1);
	stop(&p);
}

TEST(a_bad_chunk_after_the_response_began_only_ends_it)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /echo HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\n\r\n"
		       "3\r\nabc\r\n");
	T_TRUE(raw_wait(&p, &raw, "abc"));
	raw_send(&raw, "zz\r\n");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_INT(raw_count(&raw, "HTTP/1.1 "), 1);
	T_TRUE(!strstr(raw.text, "\r\n0\r\n"));
	T_INT(p.app.closed_err, 1);
	stop(&p);
}

TEST(a_slow_head_gets_408)
{
	struct http_limits lim = { .head_timeout_ms = 30 };
	struct peer p;

	start(&p, HTTP_1_1, &lim);
	raw_send(&raw, "GET / HTTP/1.1\r\nHo");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "HTTP/1.1 408");
	stop(&p);
}

TEST(a_slow_preface_is_cut)
{
	struct http_limits lim = { .head_timeout_ms = 30 };
	struct peer p;

	start(&p, HTTP_AUTO, &lim);
	raw_send(&raw, "PRI * HT");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_INT(raw.n, 0);
	T_INT(p.server_closed, 1);
	stop(&p);
}

TEST(a_slow_body_is_not_a_slow_head)
{
	struct http_limits lim = { .head_timeout_ms = 30,
				   .idle_timeout_ms = 30 };
	struct peer p;
	uint64_t end;

	start(&p, HTTP_1_1, &lim);
	raw_send(&raw,
		 "POST /sink HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n123");
	end = peer_now() + 120;
	T_WAIT(&p, peer_now() > end);
	raw_send(&raw, "45");
	T_TRUE(raw_wait(&p, &raw, "HTTP/1.1 200"));
	stop(&p);
}

TEST(silence_is_closed_without_a_word)
{
	struct http_limits lim = { .idle_timeout_ms = 30 };
	struct peer p;

	start(&p, HTTP_AUTO, &lim);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_INT(raw.n, 0);
	stop(&p);
}

TEST(auto_recognises_http_1)
{
	struct peer p;

	start(&p, HTTP_AUTO, NULL);
	raw_send(&raw, GET);
	T_TRUE(raw_wait(&p, &raw, "hello"));
	stop(&p);
}

TEST(auto_recognises_http_1_after_a_preface_like_start)
{
	struct peer p;

	start(&p, HTTP_AUTO, NULL);
	raw_send(&raw, "PR");
	peer_spin(&p, 3);
	raw_send(&raw, "OPFIND /hello HTTP/1.1\r\n" HOST "\r\n");
	T_TRUE(raw_wait(&p, &raw, "hello"));
	T_STR(p.app.seen.method, "PROPFIND");
	stop(&p);
}

TEST(auto_recognises_http_2)
{
	struct peer p;

	start(&p, HTTP_AUTO, NULL);
	raw_send(&raw, "PRI * HTTP/2.0\r\n\r");
	peer_spin(&p, 3);
	/* the rest of the preface, and empty SETTINGS */
	raw_send_n(&raw, "\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 16);
	T_WAIT(&p, recv(raw.fd, raw.text, 9, MSG_DONTWAIT | MSG_PEEK) == 9);
	T_INT(raw.text[3], 4); /* SETTINGS */
	stop(&p);
}

TEST(a_half_closed_client_gets_its_answer)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "GET /stuck HTTP/1.1\r\n" HOST "\r\n");
	T_WAIT(&p, p.app.stuck);
	T_INT(shutdown(raw.fd, SHUT_WR), 0);
	peer_spin(&p, 5);
	app_unstick(&p);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "hello");
	T_HAS(raw.text, "connection: close");
	stop(&p);
}

TEST(a_client_that_leaves_within_its_body_is_cut)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Content-Length: 10\r\n\r\n123");
	T_WAIT(&p, p.app.sunk == 3);
	T_INT(shutdown(raw.fd, SHUT_WR), 0);
	T_WAIT(&p, p.app.closed_err && p.server_closed);
	stop(&p);
}

TEST(an_unread_body_is_discarded_and_the_connection_kept)
{
	static char body[100000];
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	memset(body, 'x', sizeof(body));
	raw_send(&raw, "POST /early HTTP/1.1\r\n" HOST
		       "Content-Length: 100000\r\n\r\n");
	T_TRUE(raw_wait(&p, &raw, "413"));
	raw_send_n(&raw, body, sizeof(body));
	raw_send(&raw, GET);
	T_TRUE(raw_wait(&p, &raw, "hello"));
	stop(&p);
}

TEST(a_huge_unread_body_ends_the_connection)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /early HTTP/1.1\r\n" HOST
		       "Content-Length: 100000000\r\n\r\n");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "413");
	stop(&p);
}

TEST(a_body_that_trickles_into_the_bin_is_not_awaited_for_ever)
{
	struct http_limits lim = { .head_timeout_ms = 30 };
	struct peer p;

	start(&p, HTTP_1_1, &lim);
	raw_send(&raw, "POST /early HTTP/1.1\r\n" HOST
		       "Content-Length: 1000\r\n\r\nabc");
	T_TRUE(raw_wait_eof(&p, &raw));
	T_INT(raw_count(&raw, "HTTP/1.1 "), 1);
	stop(&p);
}

TEST(a_peer_that_never_reads_the_end_is_let_go)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "BAD\r\n\r\n");
	/* we neither read nor close: it lingers for a second, not longer */
	T_WAIT(&p, p.server_closed);
	T_INT(p.server_err.kind, ERR_INVALID);
	stop(&p);
}

TEST(chunks_are_written_for_unknown_lengths)
{
	struct peer p;

	start(&p, HTTP_1_1, NULL);
	raw_send(&raw, "POST /echo HTTP/1.1\r\n" HOST
		       "Content-Length: 5\r\n\r\nabcde");
	T_TRUE(raw_wait(&p, &raw, "\r\n0\r\n\r\n"));
	T_HAS(raw.text, "transfer-encoding: chunked\r\n");
	T_HAS(raw.text, "\r\n\r\n5\r\nabcde\r\n0\r\n\r\n");
	T_TRUE(!strstr(raw.text, "content-length"));
	stop(&p);
}

/* ---- the client ---- */

static void start_client(struct peer *p, struct ask *a, const char *method)
{
	memset(&raw, 0, sizeof(raw));
	raw.fd = peer_init_raw_server(p, HTTP_1_1);
	ask_start(p, a, method, "/x", 0);
	T_TRUE(raw_wait(p, &raw, "\r\n\r\n"));
}

TEST(client_sends_a_proper_head)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "POST");
	T_STR(raw.text, "POST /x HTTP/1.1\r\nhost: caisson.test\r\n"
			"x-test: a value\r\ncontent-length: 0\r\n\r\n");
	stop(&p);
	T_INT(a.closes, 1);
}

TEST(client_sends_chunks)
{
	struct peer p;
	struct ask a = { 0 };

	memset(&raw, 0, sizeof(raw));
	raw.fd = peer_init_raw_server(&p, HTTP_1_1);
	ask_start(&p, &a, "POST", "/x", 3);
	T_WAIT(&p, raw_wait(&p, &raw, "0\r\n\r\n"));
	T_HAS(raw.text, "transfer-encoding: chunked");
	T_HAS(raw.text, "\r\n\r\n3\r\n");
	stop(&p);
}

TEST(client_reads_until_the_end)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 200 OK\r\n\r\nsome text");
	T_WAIT(&p, a.got == 9);
	T_INT(a.closes, 0);
	raw_close(&raw);
	T_WAIT(&p, a.closes && p.client_closed);
	T_INT(a.cut, 0);
	T_STR(a.text, "some text");
	T_INT(p.client_err.code, 0);
	stop(&p);
}

TEST(client_skips_informational_responses)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 100 Continue\r\n\r\n"
		       "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
		       "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
	T_WAIT(&p, a.closes);
	T_INT(a.status, 200);
	T_INT(a.heads, 1);
	T_STR(a.text, "ok");
	stop(&p);
}

static void client_refuses(const char *answer)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, answer);
	T_WAIT(&p, a.closes && p.client_closed);
	T_INT(a.cut, 1);
	T_INT(a.heads, 0);
	T_TRUE(p.client_err.code < 0);
	stop(&p);
}

TEST(client_refuses_garbage)
{
	client_refuses("SSH-2.0-OpenSSH_9.2\r\n\r\n");
}

TEST(client_refuses_two_framings)
{
	client_refuses("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n"
		       "transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
}

TEST(client_refuses_to_switch_protocols)
{
	client_refuses("HTTP/1.1 101 Switching Protocols\r\n\r\n");
}

TEST(client_refuses_endless_informational_responses)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	for (int i = 0; i < 10; i++)
		raw_send(&raw, "HTTP/1.1 100 Continue\r\n\r\n");
	T_WAIT(&p, a.closes);
	T_INT(a.cut, 1);
	stop(&p);
}

TEST(client_refuses_an_answer_that_nobody_asked_for)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
		       "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");
	T_WAIT(&p, a.closes && p.client_closed);
	T_STR(a.text, "ok");
	T_INT(a.cut, 0);
	T_TRUE(p.client_err.code < 0);
	stop(&p);
}

TEST(client_notices_a_truncated_body)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort");
	T_WAIT(&p, a.got == 5);
	raw_close(&raw);
	T_WAIT(&p, a.closes);
	T_INT(a.cut, 1);
	stop(&p);
}

TEST(client_notices_truncated_chunks)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
		       "5\r\nshort\r\n");
	T_WAIT(&p, a.got == 5);
	raw_close(&raw);
	T_WAIT(&p, a.closes);
	T_INT(a.cut, 1);
	stop(&p);
}

TEST(client_closes_after_connection_close)
{
	struct peer p;
	struct ask a = { 0 };

	start_client(&p, &a, "GET");
	raw_send(&raw, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
		       "connection: close\r\n\r\nok");
	T_WAIT(&p, a.closes && p.client_closed);
	T_INT(a.cut, 0);
	T_TRUE(raw_wait_eof(&p, &raw));
	stop(&p);
}

TEST(client_takes_one_request_at_a_time)
{
	struct peer p;
	struct ask a = { 0 }, b = { 0 };

	start_client(&p, &a, "GET");
	ask_start(&p, &b, "GET", "/y", 0);
	T_TRUE(!b.s);
	T_INT(b.e.kind, ERR_UNAVAILABLE);
	stop(&p);
	T_INT(a.closes, 1);
	T_INT(b.closes, 0);
}
