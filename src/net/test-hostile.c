/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Peers who want to hold memory, time or connections. Each attack ends in a
 * typed answer or a closed connection, and leaves others alone. Servers here
 * are on TCP, since only there strangers are expected.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/own.h"
#include "net/http_int.h"
#include "net/json.h"
#include "net/test-peer.h"

#define HOST "Host: a.test\r\n"

struct srv {
	struct peer p;
	struct http_server *s;
	uint16_t port;
};

static struct srv srv;
static struct raw raw;

static void start(const struct http_limits *lim)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(&srv, 0, sizeof(srv));
	memset(&raw, 0, sizeof(raw));
	T_TRUE(fd >= 0);
	T_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	T_INT(listen(fd, 64), 0);
	T_INT(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	srv.port = ntohs(a.sin_port);
	srv.p.l = loop_new();
	srv.s = http_server_new_take(srv.p.l, fd, HTTP_AUTO, lim,
				     &peer_server_ops, &srv.p);
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(srv.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	T_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void stop(void)
{
	raw_close(&raw);
	srv.s = http_server_free(srv.s);
	peer_fini(&srv.p);
}

/* A request of somebody else is served. */
static void others_are_served(void)
{
	struct raw other = { .fd = dial() };

	raw_send(&other, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	T_TRUE(raw_wait(&srv.p, &other, "hello"));
	raw_close(&other);
}

/* The body of the answer in raw is an error in the product's form. */
static void is_typed(const char *code)
{
	const char *body = strstr(raw.text, "\r\n\r\n");
	owned_json root = NULL;
	const json_t *e;
	struct err why = { 0 };
	static const char *const words[] = { "message", "remedy",
					     "request_id" };

	T_HAS(raw.text, "content-type: application/json\r\n");
	T_TRUE(body);
	T_INT(json_parse(body + 4, strlen(body + 4), &root, &why), 0);
	e = json_object_get(root, "error");
	T_STR(json_string_value(json_object_get(e, "code")), code);
	T_STR(json_string_value(json_object_get(e, "cause")), "request");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const char *w = json_string_value(json_object_get(e, words[i]));

		T_TRUE(w && *w);
	}
}

static void answers(const char *text, const char *status, const char *code)
{
	start(NULL);
	raw.fd = dial();
	raw_send(&raw, text);
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, status);
	is_typed(code);
	others_are_served();
	stop();
}

TEST(refusals_are_typed)
{
	answers("GET / HTTP/1.1\r\n\r\n", " 400 ", "malformed_request");
	answers("GET / HTTP/1.0\r\n" HOST "\r\n", " 505 ", "not_supported");
	answers("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n",
		" 501 ", "not_supported");
	answers("POST / HTTP/1.1\r\n" HOST "Expect: magic\r\n\r\n", " 417 ",
		"malformed_request");
}

TEST(a_long_target_is_typed)
{
	static char text[16384] = "GET /";

	memset(text + 5, 'a', sizeof(text) - 6);
	answers(text, " 414 ", "too_large");
}

TEST(a_flood_of_fields_is_typed)
{
	static char text[20000] = "GET / HTTP/1.1\r\n" HOST;
	size_t n = strlen(text);

	for (int i = 0; i < 101; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "X%d: y\r\n",
				      i);
	snprintf(text + n, sizeof(text) - n, "\r\n");
	answers(text, " 431 ", "too_large");
}

TEST(chunk_extensions_are_typed)
{
	start(NULL);
	raw.fd = dial();
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n");
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 400 ");
	is_typed("malformed_request");
	stop();
}

TEST(a_request_without_handler_is_typed)
{
	start(NULL);
	raw.fd = dial();
	raw_send(&raw,
		 "GET /none HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 500 ");
	is_typed("internal");
	stop();
}

/* ---- slow ---- */

TEST(a_slow_head)
{
	struct http_limits lim = { .head_timeout_ms = 50 };

	start(&lim);
	raw.fd = dial();
	raw_send(&raw, "GET / HTTP/1.1\r\nX");
	others_are_served();
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 408 ");
	is_typed("request_timeout");
	stop();
}

TEST(a_body_that_never_comes)
{
	struct http_limits lim = { .body_timeout_ms = 80 };

	start(&lim);
	raw.fd = dial();
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Content-Length: 100\r\n\r\nabc");
	others_are_served();
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 408 ");
	T_HAS(raw.text, "connection: close");
	is_typed("request_timeout");
	T_INT(srv.p.app.closed_err, 1);
	stop();
}

TEST(a_body_that_drips)
{
	struct http_limits lim = { .body_timeout_ms = 200 };
	uint64_t until = peer_now() + 20000;

	start(&lim);
	raw.fd = dial();
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\n\r\n");
	while (!srv.p.app.closed_err && peer_now() < until) {
		if (send(raw.fd, "1\r\nx\r\n", 6, MSG_NOSIGNAL) < 0)
			break;
		poll(NULL, 0, 5);
		loop_once(srv.p.l, 0);
	}
	T_INT(srv.p.app.closed_err, 1);
	T_TRUE(raw_wait(&srv.p, &raw, " 408 "));
	stop();
}

TEST(a_body_of_many_parts_that_flows_is_taken)
{
	static char block[4096];
	struct http_limits lim = { .body_timeout_ms = 400 };
	uint64_t until;
	unsigned n = 0;

	start(&lim);
	raw.fd = dial();
	memset(block, 'x', sizeof(block));
	raw_send(&raw, "POST /sink HTTP/1.1\r\n" HOST
		       "Content-Length: 1638400\r\n\r\n");
	until = peer_now() + 1500;
	while (n < 400) {
		/* four times what is asked for, for longer than a timeout */
		raw_send_n(&raw, block, sizeof(block));
		n++;
		loop_once(srv.p.l, peer_now() < until ? 4 : 0);
	}
	T_TRUE(raw_wait(&srv.p, &raw, "1638400"));
	stop();
}

TEST(a_collected_body_that_never_comes)
{
	struct http_limits lim = { .body_timeout_ms = 80 };

	start(&lim);
	srv.p.app.collect_max = 1000;
	raw.fd = dial();
	raw_send(&raw, "POST /collect HTTP/1.1\r\n" HOST
		       "Content-Length: 100\r\n\r\nabc");
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 408 ");
	is_typed("request_timeout");
	stop();
}

TEST(who_does_not_read_does_not_call_the_body_slow)
{
	struct http_limits lim = { .body_timeout_ms = 50 };
	uint64_t until;

	start(&lim);
	raw.fd = dial();
	raw_send(&raw, "POST /stuck HTTP/1.1\r\n" HOST
		       "Content-Length: 100\r\n\r\nabc");
	T_WAIT(&srv.p, srv.p.app.stuck);
	until = peer_now() + 300;
	while (peer_now() < until)
		loop_once(srv.p.l, 10);
	T_INT(srv.p.app.closed_err, 0);
	T_TRUE(srv.p.app.stuck);
	stop();
}

TEST(a_patient_handler_waits)
{
	struct http_limits lim = { .body_timeout_ms = 50 };
	uint64_t until;

	start(&lim);
	raw.fd = dial();
	raw_send(&raw,
		 "POST /stuck HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n");
	T_WAIT(&srv.p, srv.p.app.stuck);
	http_stream_patient(srv.p.app.stuck);
	until = peer_now() + 300;
	while (peer_now() < until)
		loop_once(srv.p.l, 10);
	T_INT(srv.p.app.closed_err, 0);
	stop();
}

TEST(a_peer_that_never_takes_its_answer)
{
	struct http_limits lim = { .write_timeout_ms = 100 };
	int small = 4096;

	start(&lim);
	raw.fd = dial();
	(void)setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	raw_send(&raw, "GET /big?n=100000000 HTTP/1.1\r\n" HOST "\r\n");
	T_WAIT(&srv.p, srv.p.app.requests == 1);
	others_are_served();
	T_WAIT(&srv.p, srv.p.app.closed_err == 1);
	/* and what was held for it meanwhile was little */
	T_TRUE(srv.p.app.accepted < 16u << 20);
	stop();
}

TEST(a_peer_that_takes_its_answer_slowly)
{
	struct http_limits lim = { .write_timeout_ms = 2000 };
	char sink[65536];
	size_t got = 0;

	start(&lim);
	raw.fd = dial();
	raw_send(&raw, "GET /big?n=8000000 HTTP/1.1\r\n" HOST
		       "Connection: close\r\n\r\n");
	for (;;) {
		ssize_t n;

		loop_once(srv.p.l, 2);
		n = recv(raw.fd, sink, sizeof(sink), MSG_DONTWAIT);
		if (n == 0)
			break;
		got += n > 0 ? (size_t)n : 0;
	}
	T_TRUE(got > 8000000);
	T_INT(srv.p.app.closed_ok, 1);
	stop();
}

/* ---- many ---- */

TEST(connections_of_one_address_are_limited)
{
	struct http_limits lim = { .conns = 100, .conns_per_peer = 3 };
	int fd[3];

	start(&lim);
	for (int i = 0; i < 3; i++)
		fd[i] = dial();
	raw.fd = dial();
	T_TRUE(raw_wait_eof(&srv.p, &raw));
	T_HAS(raw.text, " 429 ");
	is_typed("rate_limited");
	fd[0] = fd_close(fd[0]);
	for (int i = 0; i < 20; i++)
		loop_once(srv.p.l, 5);
	others_are_served();
	fd_close(fd[1]);
	fd_close(fd[2]);
	stop();
}

/* ---- HTTP/2 ---- */

static const char preface[] =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static void start_h2(const struct http_limits *lim)
{
	start(lim);
	raw.fd = dial();
	raw_send_n(&raw, preface, sizeof(preface) - 1);
}

/* Send a frame over and over; true if the server ends the connection. */
static bool floods(const void *frame, size_t n)
{
	static uint8_t many[65536];
	size_t k = 0;
	char sink[65536];

	while (k + n <= sizeof(many)) {
		memcpy(many + k, frame, n);
		k += n;
	}
	for (int i = 0; i < 2000; i++) {
		ssize_t r;

		r = send(raw.fd, many, k, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (r >= 0 && (size_t)r < k) { /* keep frames whole */
			size_t rest = (n - (size_t)r % n) % n;

			if (rest && send(raw.fd, many + (size_t)r % n, rest,
					 MSG_NOSIGNAL) < 0)
				return true;
		}
		loop_once(srv.p.l, 0);
		r = recv(raw.fd, sink, sizeof(sink), MSG_DONTWAIT);
		if (r == 0 || (r < 0 && errno == ECONNRESET))
			return true;
	}
	return false;
}

TEST(floods_of_frames_that_move_nothing)
{
	static const struct {
		const char *frame;
		size_t n;
	} table[] = {
		{ "\0\0\0\4\0\0\0\0\0", 9 },		/* SETTINGS */
		{ "\0\0\x8\6\0\0\0\0\0pingping", 17 },	/* PING */
		{ "\0\0\4\x8\0\0\0\0\0\0\0\0\1", 13 },	/* WINDOW_UPDATE */
		{ "\0\0\5\2\0\0\0\0\1\0\0\0\0\1", 14 }, /* PRIORITY */
		{ "\0\0\x8\6\1\0\0\0\0pingping", 17 },	/* PING ACK */
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		start_h2(NULL);
		T_TRUE(floods(table[i].frame, table[i].n));
		others_are_served();
		stop();
	}
}

/* HEADERS of POST /stuck (or /sink) without END_STREAM, stream 1 */
static void post(const char *path)
{
	uint8_t h[64] = { 0, 0, 0, 1, 4, 0, 0, 0, 1, 0x83, 0x86, 0x04 };
	size_t n = strlen(path);

	h[12] = (uint8_t)n;
	memcpy(h + 13, path, n);
	h[13 + n] = 0x01;
	h[14 + n] = 1;
	h[15 + n] = 'a';
	h[2] = (uint8_t)(7 + n);
	raw_send_n(&raw, h, 16 + n);
}

TEST(a_flood_of_empty_data)
{
	start_h2(NULL);
	post("/sink");
	T_TRUE(floods("\0\0\0\0\0\0\0\0\1", 9));
	others_are_served();
	T_INT(srv.p.app.sunk, 0);
	stop();
}

TEST(a_body_that_never_comes_over_http2)
{
	struct http_limits lim = { .body_timeout_ms = 80 };

	start_h2(&lim);
	post("/sink");
	T_TRUE(raw_wait(&srv.p, &raw, "request_timeout"));
	T_INT(srv.p.app.closed_err, 1);
	others_are_served();
	stop();
}

TEST(a_window_that_stays_shut)
{
	/* SETTINGS_INITIAL_WINDOW_SIZE 1 */
	static const uint8_t settings[] = { 0, 0, 6, 4, 0, 0, 0, 0,
					    0, 0, 4, 0, 0, 0, 1 };
	struct http_limits lim = { .write_timeout_ms = 100 };

	start_h2(&lim);
	raw_send_n(&raw, settings, sizeof(settings));
	post("/big?n=100000000");
	T_WAIT(&srv.p, srv.p.app.requests == 1);
	T_WAIT(&srv.p, srv.p.app.closed_err == 1);
	T_TRUE(srv.p.app.accepted <= HTTP_OUT_MAX);
	others_are_served();
	stop();
}

TEST(streams_above_the_limit_are_refused)
{
	struct http_limits lim = { .streams = 4 };

	start_h2(&lim);
	for (uint32_t id = 1; id < 2000; id += 2) {
		uint8_t h[] = { 0,	     0,	   15,	 1,
				5,	     0,	   0,	 (uint8_t)(id >> 8),
				(uint8_t)id, 0x82, 0x86, 0x04,
				6,	     '/',  's',	 't',
				'u',	     'c',  'k',	 0x01,
				2,	     'a',  'b' };

		h[2] = sizeof(h) - 9;
		if (send(raw.fd, h, sizeof(h), MSG_NOSIGNAL) < 0)
			break;
		loop_once(srv.p.l, 0);
	}
	for (int i = 0; i < 50; i++)
		loop_once(srv.p.l, 1);
	T_TRUE(srv.p.app.requests <= 4 + 200);
	others_are_served();
	stop();
}

/* ---- JSON ---- */

static void json_refused(const char *text, size_t n, const char *why)
{
	struct err e = { 0 };
	owned_json root = NULL;

	T_TRUE(json_parse(text, n, &root, &e) < 0);
	T_TRUE(!root);
	T_HAS(e.msg, why);
}

TEST(json_bombs)
{
	static char deep[1000000];
	static char names[400000];
	size_t n = 0;

	memset(deep, '[', sizeof(deep));
	json_refused(deep, sizeof(deep), "32");
	json_refused("{\"a\":1,\"a\":2}", 13, "a");
	json_refused("{\"n\":123456789012345678901234567890}", 36, "");
	n += (size_t)snprintf(names, sizeof(names), "{");
	for (int i = 0; n < sizeof(names) - 64; i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n,
				      "\"k%d\":%d,", i, i);
	n += (size_t)snprintf(names + n, sizeof(names) - n, "\"k0\":0}");
	json_refused(names, n, "k0");
}
