/* SPDX-License-Identifier: Apache-2.0 */

/* Switching protocols: raw bytes both ways after 101. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "net/http_int.h"
#include "net/test-peer.h"

#define ASK                                                                    \
	"GET /x HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\n"           \
	"Upgrade: raw\r\n\r\n"

/* A server's side of a switched stream. */
static struct {
	struct loop *l;
	struct http_conn *c;
	struct http_stream *s;
	char upgrade[64];
	uint64_t got;
	unsigned closes, ok;
	bool late, stopped, refuse;
} at;

static struct peer p; /* its loop and nothing else */
static struct raw raw;

static void take(struct http_stream *s)
{
	const uint8_t *mem;
	size_t n = http_stream_peek(s, &mem);

	if (at.stopped)
		return;
	at.got += n;
	http_stream_consume(s, n);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	at.closes++;
	at.ok += !e;
	at.s = NULL;
}

static const struct http_handler handler = {
	.on_body = take,
	.on_close = on_close,
};

static void do_switch(void)
{
	static const struct http_head none = { .status = 0 };

	http_stream_switch(at.s, &none);
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	const char *u = http_stream_upgrade(s);

	(void)c;
	snprintf(at.upgrade, sizeof(at.upgrade), "%s", u ? u : "-");
	at.s = s;
	http_stream_handle(s, &handler, NULL);
	if (at.refuse || !u)
		http_stream_reply(s, 200, NULL, "no", 2);
	else if (!at.late)
		do_switch();
}

static void conn_closed(struct http_conn *c, const struct err *e)
{
	(void)c;
	(void)e;
	at.c = NULL;
}

static const struct http_conn_ops ops = {
	.on_request = on_request,
	.on_close = conn_closed,
};

static void start(enum http_version v)
{
	int fd[2];

	memset(&at, 0, sizeof(at));
	memset(&p, 0, sizeof(p));
	memset(&raw, 0, sizeof(raw));
	p.l = loop_new();
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	raw.fd = fd[1];
	at.c = http_conn_server_take(p.l, fd[0], v, NULL, &ops, NULL);
}

static void stop(void)
{
	raw_close(&raw);
	at.c = http_conn_free(at.c);
	peer_fini(&p);
}

static void start_switched(void)
{
	start(HTTP_AUTO);
	raw_send(&raw, ASK);
	T_TRUE(raw_wait(&p, &raw, "\r\n\r\n"));
	T_HAS(raw.text, "HTTP/1.1 101 Switching Protocols\r\n");
	T_STR(at.upgrade, "raw");
}

TEST(bytes_go_both_ways)
{
	start_switched();
	raw_send(&raw, "one two");
	T_WAIT(&p, at.got == 7);
	T_INT(http_stream_write(at.s, "three", 5), 5);
	T_TRUE(raw_wait(&p, &raw, "\r\n\r\nthree"));
	stop();
	T_INT(at.closes, 1);
	T_INT(at.ok, 0);
}

TEST(the_peer_half_closes_first)
{
	start_switched();
	raw_send(&raw, "bye");
	T_INT(shutdown(raw.fd, SHUT_WR), 0);
	T_WAIT(&p, at.s && http_stream_eof(at.s));
	T_INT(at.got, 3);
	T_INT(at.closes, 0);
	http_stream_write(at.s, "still here", 10);
	http_stream_end(at.s);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "still here");
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 1);
	T_WAIT(&p, !at.c);
	stop();
}

TEST(we_half_close_first)
{
	start_switched();
	http_stream_write(at.s, "last", 4);
	http_stream_end(at.s);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "last");
	T_INT(at.closes, 0);
	raw_send(&raw, "and yet");
	T_WAIT(&p, at.got == 7);
	T_INT(at.closes, 0);
	raw_close(&raw);
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 1);
	stop();
}

TEST(what_was_sent_before_the_peer_left_is_read)
{
	static char block[60000];

	start_switched();
	at.stopped = true;
	raw_send_n(&raw, block, sizeof(block));
	raw_send_n(&raw, block, sizeof(block));
	for (int i = 0; i < 10; i++)
		loop_once(p.l, 1);
	raw_send_n(&raw, block, sizeof(block));
	http_stream_end(at.s);
	for (int i = 0; i < 10; i++)
		loop_once(p.l, 1);
	raw_close(&raw);
	for (int i = 0; i < 10; i++)
		loop_once(p.l, 1);
	T_INT(at.closes, 0);
	at.stopped = false;
	take(at.s);
	T_WAIT(&p, at.closes);
	T_INT(at.got, 3 * sizeof(block));
	T_INT(at.ok, 1);
	stop();
}

TEST(a_stopped_reader_stops_the_peer)
{
	static char block[65536];
	size_t sent = 0;

	start_switched();
	at.stopped = true;
	while (sent < 8u << 20) {
		ssize_t n = send(raw.fd, block, sizeof(block), MSG_DONTWAIT);

		if (n < 0)
			break;
		sent += (size_t)n;
		loop_once(p.l, 0);
	}
	T_TRUE(sent < 2u << 20);
	at.stopped = false;
	take(at.s);
	T_WAIT(&p, at.got == sent);
	stop();
}

TEST(a_late_switch_keeps_early_bytes)
{
	start(HTTP_1_1);
	at.late = true;
	raw_send(&raw, ASK "early");
	T_WAIT(&p, at.s);
	for (int i = 0; i < 5; i++)
		loop_once(p.l, 1);
	T_INT(at.got, 0);
	do_switch();
	T_WAIT(&p, at.got == 5);
	T_TRUE(raw_wait(&p, &raw, " 101 "));
	stop();
}

TEST(a_peer_that_left_before_the_switch)
{
	start(HTTP_1_1);
	at.late = true;
	raw_send(&raw, ASK);
	T_WAIT(&p, at.s);
	T_INT(shutdown(raw.fd, SHUT_WR), 0);
	for (int i = 0; i < 5; i++)
		loop_once(p.l, 1);
	if (at.s)
		do_switch();
	T_WAIT(&p, at.s && http_stream_eof(at.s));
	http_stream_end(at.s);
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 1);
	stop();
}

TEST(reset_cuts)
{
	start_switched();
	http_stream_reset(at.s);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 0);
	stop();
}

TEST(writes_to_a_peer_that_left_end_it)
{
	start_switched();
	raw_close(&raw);
	for (int i = 0; i < 200 && at.s; i++) {
		http_stream_write(at.s, "x", 1);
		loop_once(p.l, 1);
	}
	T_INT(at.closes, 1);
	stop();
}

TEST(not_asked_to_switch)
{
	static const char *const asks[] = {
		"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: raw\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
		"Upgrade: raw, other\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
		"Upgrade: raw\r\nUpgrade: raw\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
		"Upgrade: raw\r\nContent-Length: 1\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
		"Upgrade: raw\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
		"Upgrade: a/name/that/is/no/token\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: "
		"this-name-is-longer-than-any-protocol\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(asks); i++) {
		start(HTTP_1_1);
		raw_send(&raw, asks[i]);
		T_TRUE(raw_wait(&p, &raw, "no"));
		T_STR(at.upgrade, "-");
		T_HAS(raw.text, " 200 ");
		stop();
	}
}

TEST(a_refused_switch_ends_the_connection)
{
	start(HTTP_1_1);
	at.refuse = true;
	raw_send(&raw, ASK ASK);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_INT(raw_count(&raw, "HTTP/1.1 200"), 1);
	T_HAS(raw.text, "connection: close");
	stop();
}

TEST(nothing_of_http_is_read_after_a_switch)
{
	start_switched();
	raw_send(&raw, ASK ASK);
	T_WAIT(&p, at.got == 2 * strlen(ASK));
	T_INT(raw_count(&raw, "HTTP/1.1 "), 1);
	http_stream_end(at.s);
	raw_close(&raw);
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 1);
	stop();
}

/* ---- our client ---- */

static unsigned heads;
static int status;

static void on_head(struct http_stream *s)
{
	heads++;
	status = http_stream_head(s)->status;
	at.s = s;
}

static const struct http_handler client = {
	.on_head = on_head,
	.on_body = take,
	.on_close = on_close,
};

static void ask(void)
{
	struct http_head h = { .method = xstrdup("GET"),
			       .path = xstrdup("/x") };
	struct err e = { 0 };

	memset(&at, 0, sizeof(at));
	memset(&raw, 0, sizeof(raw));
	heads = 0;
	raw.fd = peer_init_raw_server(&p, HTTP_1_1);
	T_TRUE(http_conn_switch(p.client, &h, "raw", &client, NULL, &e));
	http_head_fini(&h);
	T_TRUE(raw_wait(&p, &raw, "\r\n\r\n"));
	T_HAS(raw.text, "connection: Upgrade\r\nupgrade: raw\r\n");
}

TEST(a_client_switches)
{
	ask();
	raw_send(&raw, "HTTP/1.1 101 x\r\nConnection: Upgrade\r\n"
		       "Upgrade: RAW\r\n\r\nhello");
	T_WAIT(&p, at.got == 5);
	T_INT(status, 101);
	http_stream_write(at.s, "up", 2);
	http_stream_end(at.s);
	T_TRUE(raw_wait_eof(&p, &raw));
	T_HAS(raw.text, "\r\n\r\nup");
	T_INT(at.closes, 0);
	raw_close(&raw);
	T_WAIT(&p, at.closes);
	T_INT(at.ok, 1);
	T_WAIT(&p, !p.client);
	peer_fini(&p);
}

TEST(a_client_hears_an_ordinary_answer)
{
	ask();
	raw_send(&raw, "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno");
	T_WAIT(&p, at.closes);
	T_INT(status, 403);
	T_INT(at.got, 2);
	T_INT(at.ok, 1);
	raw_close(&raw);
	peer_fini(&p);
}

TEST(a_client_refuses_another_protocol)
{
	static const char *const answers[] = {
		"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"HTTP/1.1 101 x\r\nUpgrade: raw\r\n\r\n",
		"HTTP/1.1 101 x\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		ask();
		raw_send(&raw, answers[i]);
		T_WAIT(&p, at.closes);
		T_INT(at.ok, 0);
		T_INT(heads, 0);
		raw_close(&raw);
		peer_fini(&p);
	}
}

TEST(a_peer_of_a_switched_client_leaves)
{
	ask();
	raw_send(&raw, "HTTP/1.1 101 x\r\nConnection: Upgrade\r\n"
		       "Upgrade: raw\r\n\r\nlast words");
	raw_close(&raw);
	T_WAIT(&p, at.closes || (at.s && http_stream_eof(at.s)));
	T_INT(at.got, 10);
	if (at.s)
		http_stream_end(at.s);
	T_WAIT(&p, at.closes);
	peer_fini(&p);
}
