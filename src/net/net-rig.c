/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The façade for peers in other languages (tests only, not installed).
 *
 *	net-rig serve		listens on 127.0.0.1, prints its port; / says
 *				hello, /json takes a JSON body up to 1 MiB,
 * /sink counts, /big sends 64 MiB, /ws echoes messages net-rig connect PORT
 *opens /, sends messages of many sizes, expects each back, closes; prints what
 *happened
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "net/ws.h"

#define MESSAGE_MAX 1048576u
#define JSON_MAX    1048576u
#define BIG_BYTES   67108864u

static struct loop *loop;

static int tcp(uint16_t port, bool listens, uint16_t *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	if (!listens) {
		CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
		return fd;
	}
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(listen(fd, 256) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

/* ---- serve: WebSocket ---- */

static void echo_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	if (!ws_send(w, is_text, p, n))
		ws_close(w, 1013, "the echo is not read");
}

static void echo_closed(struct ws *w, unsigned code, const char *reason)
{
	(void)w;
	(void)code;
	(void)reason;
}

static const struct ws_handler echo = {
	.on_message = echo_message,
	.on_close = echo_closed,
};

static void on_ws(struct http_stream *s)
{
	struct err e = { 0 };
	int r = ws_server_check(s, &e);

	if (r < 0) {
		http_stream_refuse(s, r == -EPROTONOSUPPORT ? 426 : 400,
				   "this is no opening of a WebSocket");
		return;
	}
	ws_server_open(loop, s,
		       ws_offers(http_stream_head(s), "echo") ? "echo" : NULL,
		       NULL, MESSAGE_MAX, &echo, NULL);
}

/* ---- serve: HTTP ---- */

struct req {
	uint64_t sunk, left;
	bool sink;
};

static void big_pump(struct http_stream *s)
{
	static const uint8_t block[65536];
	struct req *q = http_stream_owner(s);

	while (q->left) {
		size_t n = q->left < sizeof(block) ? q->left : sizeof(block);
		size_t k = http_stream_write(s, block, n);

		q->left -= k;
		if (k < n)
			return;
	}
	http_stream_end(s);
}

static void on_body(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);
	char text[32];

	q->sunk += n;
	http_stream_consume(s, n);
	if (!q->sink || !http_stream_eof(s))
		return;
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)q->sunk);
	http_stream_reply(s, 200, "text/plain", text, strlen(text));
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)e;
	free(http_stream_owner(s));
}

static const struct http_handler handler = {
	.on_body = on_body,
	.on_writable = big_pump,
	.on_close = on_close,
};

static void on_json(struct http_stream *s, void *owner, const void *body,
		    size_t n, const struct err *e)
{
	owned_json root = NULL;
	struct err why = { 0 };

	(void)owner;
	if (e && e->kind == ERR_EXHAUSTED)
		http_stream_refuse(s, 413, "the body is too long");
	else if (!e && json_parse(body, n, &root, &why) < 0)
		http_stream_refuse(s, 400, "the body is not strict JSON");
	else if (!e)
		http_stream_reply(s, 200, "text/plain", "taken\n", 6);
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	static const struct http_head ok = { .status = 200 };
	const char *path = http_stream_head(s)->path;
	struct req *q;

	(void)c;
	if (!strcmp(path, "/ws")) {
		on_ws(s);
		return;
	}
	if (!strcmp(path, "/json")) {
		http_stream_collect(s, JSON_MAX, on_json, NULL);
		return;
	}
	q = xnew(struct req);
	q->sink = !strcmp(path, "/sink");
	http_stream_handle(s, &handler, q);
	if (!strcmp(path, "/big")) {
		q->left = BIG_BYTES;
		http_stream_respond(s, &ok, true);
		big_pump(s);
	} else if (!q->sink) {
		http_stream_reply(s, 200, "text/plain", "hello\n", 6);
	}
}

static int serve(void)
{
	static const struct http_conn_ops ops = { .on_request = on_request };
	static const struct http_limits lim = { .head_timeout_ms = 2000,
						.body_timeout_ms = 2000,
						.idle_timeout_ms = 2000,
						.write_timeout_ms = 2000,
						.conns_per_peer = 64 };
	struct http_server *s;
	uint16_t port = 0;
	int fd = tcp(0, true, &port);

	s = http_server_new_take(loop, fd, HTTP_AUTO, &lim, &ops, NULL);
	printf("%u\n", port);
	fflush(stdout);
	loop_run(loop);
	http_server_free(s);
	return 0;
}

/* ---- connect ---- */

static const size_t sizes[] = { 0,     1,     125,    126,   65535,
				65536, 65537, 200000, 900000 };
static size_t next_size;
static uint8_t sent[MESSAGE_MAX];
static int result = 1;

static void send_next(struct ws *w)
{
	size_t n;

	if (next_size == ARRAY_SIZE(sizes)) {
		ws_close(w, 1000, "all is said");
		return;
	}
	n = sizes[next_size];
	for (size_t i = 0; i < n; i++)
		sent[i] = (uint8_t)('a' + i % 23);
	(void)ws_send(w, next_size % 2 == 0, sent, n); /* or when it can */
}

static void client_message(struct ws *w, bool is_text, const uint8_t *p,
			   size_t n)
{
	if (n != sizes[next_size] || is_text != (next_size % 2 == 0) ||
	    memcmp(p, sent, n) != 0) {
		printf("message %zu came back changed\n", next_size);
		ws_cut(w);
		return;
	}
	next_size++;
	send_next(w);
}

static void client_closed(struct ws *w, unsigned code, const char *reason)
{
	(void)w;
	printf("closed %u %s after %zu messages\n", code, reason, next_size);
	result = code == 1000 && next_size == ARRAY_SIZE(sizes) ? 0 : 1;
	loop_stop(loop, 0);
}

static const struct ws_handler client = {
	.on_message = client_message,
	.on_writable = send_next,
	.on_close = client_closed,
};

static void opened(void *arg, struct ws *w, int status, const char *body,
		   size_t n, const struct err *e)
{
	(void)arg;
	(void)body;
	(void)n;
	if (w) {
		send_next(w);
		return;
	}
	printf("refused: %d %s\n", status, e ? e->msg : "");
	loop_stop(loop, 0);
}

static struct http_conn *line; /* NULL once it has closed itself */

static void line_closed(struct http_conn *c, const struct err *e)
{
	(void)c;
	(void)e;
	line = NULL;
}

static int connect_to(const char *port)
{
	static const struct http_conn_ops ops = { .on_close = line_closed };
	struct http_head h = { .path = xstrdup("/"),
			       .authority = xstrdup("127.0.0.1") };
	struct err e = { 0 };
	int64_t n = 0;

	CHECK(text_int(port, 1, 65535, &n));
	line = http_conn_client_take(loop, tcp((uint16_t)n, false, NULL),
				     HTTP_1_1, NULL, &ops, NULL);
	if (ws_client_open(loop, line, &h, "nothing, echo", MESSAGE_MAX,
			   &client, NULL, opened, NULL, &e) < 0)
		printf("%s\n", e.msg);
	else
		loop_run(loop);
	http_head_fini(&h);
	if (line)
		http_conn_free(line);
	return result;
}

static struct loop_signal term;

static void on_term(struct loop_signal *s)
{
	loop_stop(s->loop, 0);
}

int main(int argc, char **argv)
{
	int r = 2;

	loop = loop_new();
	CHECK(loop_signal_add(loop, &term, SIGTERM, on_term) == 0);
	if (argc == 2 && !strcmp(argv[1], "serve"))
		r = serve();
	else if (argc == 3 && !strcmp(argv[1], "connect"))
		r = connect_to(argv[2]);
	else
		fprintf(stderr, "usage: net-rig serve | connect PORT\n");
	loop_signal_del(&term);
	loop = loop_free(loop);
	return r;
}
