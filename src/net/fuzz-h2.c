/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Raw bytes against a whole connection, both roles and both versions. The first
 * byte chooses: bit 0 the client's role, bit 1 HTTP/1.1, bit 2 portions of 7
 * bytes, bit 3 a valid HTTP/2 preface and SETTINGS before the input. Laws:
 * every stream is closed exactly once, memory stays bounded, nothing leaks.
 */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "net/http_int.h"

struct feed {
	struct http_transport t;
	struct buf in;
	size_t step;
};

static unsigned open_streams;

static ssize_t feed_read(struct http_transport *t, void *p, size_t n)
{
	struct feed *f = container_of(t, struct feed, t);

	if (n > f->step)
		n = f->step;
	if (n > buf_len(&f->in))
		n = buf_len(&f->in);
	if (n) {
		memcpy(p, buf_data(&f->in), n);
		buf_consume(&f->in, n);
	}
	return (ssize_t)n; /* 0, the end, at the end */
}

static ssize_t feed_write(struct http_transport *t, const void *p, size_t n)
{
	(void)t;
	(void)p;
	return (ssize_t)n;
}

static void on_head(struct http_stream *s)
{
	CHECK(http_stream_head(s)->status >= 200);
}

static void on_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	CHECK(n <= HTTP_IN_MAX);
	http_stream_consume(s, n);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
	CHECK(open_streams > 0);
	open_streams--;
}

static const struct http_handler handler = {
	.on_head = on_head,
	.on_body = on_body,
	.on_close = on_close,
};

static void on_request(struct http_conn *c, struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);

	CHECK(h->path[0] == '/' && h->method[0]);
	CHECK(http_conn_streams(c) <= 256);
	open_streams++;
	http_stream_handle(s, &handler, NULL);
	if (strlen(h->path) % 2) /* "/" and others are answered */
		http_stream_reply(s, 200, NULL, "hello", 5);
}

static void conn_closed(struct http_conn *c, const struct err *e)
{
	struct http_conn **to = http_conn_owner(c);

	(void)e;
	*to = NULL;
}

static const struct http_conn_ops ops = {
	.on_request = on_request,
	.on_close = conn_closed,
};

static void ask(struct http_conn *c)
{
	struct http_head h = { .method = xstrdup("GET"),
			       .path = xstrdup("/x") };
	struct err e = { 0 };

	if (http_conn_request(c, &h, false, &handler, NULL, &e))
		open_streams++;
	http_head_fini(&h);
}

static void fill(struct feed *f, const uint8_t *data, size_t size)
{
	static const char preface[] =
	    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	bool client = data[0] & 1, h1 = data[0] & 2;

	if ((data[0] & 8) && !h1)
		/* only the SETTINGS if it is a server who speaks */
		CHECK(buf_put(&f->in, preface + (client ? 24 : 0),
			      sizeof(preface) - 1 - (client ? 24 : 0)) == 0);
	CHECK(buf_put(&f->in, data + 1, size - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = { .t = { feed_read, feed_write } };
	struct http_conn *c = NULL;
	struct loop *l;

	if (size == 0)
		return 0;
	l = loop_new();
	buf_init(&f.in, 0);
	f.step = data[0] & 4 ? 7 : 65536;
	fill(&f, data, size);
	c = http_conn_over(l, &f.t, !(data[0] & 1),
			   data[0] & 2 ? HTTP_1_1 : HTTP_2, &ops, &c);
	if (data[0] & 1)
		ask(c);
	for (int i = 0; i < 100000 && c && buf_len(&f.in); i++)
		loop_once(l, 0);
	for (int i = 0; i < 4 && c; i++) {
		http_conn_ready(c);
		loop_once(l, 0);
	}
	http_conn_free(c);
	CHECK(open_streams == 0);
	buf_fini(&f.in);
	loop_free(l);
	return 0;
}
