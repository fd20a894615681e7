/* SPDX-License-Identifier: Apache-2.0 */

/*
 * HTTP/1.1 connections, both roles. One message exchange at a time: a server
 * looks at the next pipelined request when the last byte of the response is
 * serialised; a client refuses a second request until the first is answered.
 *
 * Bytes go socket -> raw -> (decoder) -> stream->in. Both are bounded, and the
 * socket is not read while raw is full; that is all the back-pressure there is
 * in HTTP/1.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http_int.h"

/* A request's body that its handler did not want is read up to this much to
 * keep the connection; beyond, closing is cheaper. */
#define DISCARD_MAX	  262144u
#define INFORMATIONAL_MAX 8 /* 1xx responses before the final one */

struct h1 {
	struct buf raw;
	struct http1_scan scan;
	struct http1_limits lim;
	size_t head_max;
	struct http1_body body;
	struct http_stream *cur; /* its exchange is going on */
	char *method;		 /* client: of cur */
	size_t discarded;
	unsigned informational;
	bool body_active; /* the decoder is not at the end yet */
	bool discard;	  /* server: cur is gone, its body is not */
	bool chunked_out;
	bool expect;   /* 100 Continue is due */
	bool last;     /* no exchange after this one */
	bool no_reuse; /* client: the connection cannot take another */
	char *upgrade; /* client: what cur asked to switch to */
};

static struct h1 *h1_of(const struct http_conn *c)
{
	return c->state_of_proto;
}

static void advance(struct http_conn *c);

/* ---- refusals ---- */

/* Server: answer with status and end the connection. */
static void refuse(struct http_conn *c, int status, const char *why)
{
	char id[HTTP_REQUEST_ID_MAX];
	owned_str text = NULL;
	struct http_head h;
	struct err e = { 0 };

	err_set(&e, -EBADMSG, ERR_INVALID, "HTTP/1.1 request: %s", why);
	http_request_id(id);
	text = http_refusal_text(status, why, id);
	http_refusal_head(&h, status, strlen(text), id);
	if (http1_put_response(&c->out, &h, HTTP1_NONE, true) < 0 ||
	    buf_puts(&c->out, text) < 0)
		buf_clear(&c->out);
	http_head_fini(&h);
	http_conn_finish(c, &e);
}

/* The peer's bytes make no sense; where, decides who is told. */
static void broken(struct http_conn *c, int status, const char *why)
{
	struct h1 *h = h1_of(c);
	struct err e = { 0 };

	if (c->is_server && !h->discard && (!h->cur || !h->cur->out_begun)) {
		refuse(c, status, why);
		return;
	}
	err_set(&e, -EBADMSG, c->is_server ? ERR_INVALID : ERR_UNAVAILABLE,
		"HTTP/1.1 peer: %s", why);
	if (c->is_server)
		http_conn_finish(c, &e);
	else
		http_conn_fail(c, &e);
}

/* ---- the end of an exchange ---- */

static void start_discard(struct http_conn *c)
{
	struct h1 *h = h1_of(c);

	if (h->body.framing == HTTP1_LENGTH && h->body.left > DISCARD_MAX) {
		http_conn_finish(c, NULL);
		return;
	}
	h->discard = true;
	h->discarded = 0;
	c->head_ms = loop_now_ms(c->loop); /* as patient as with a head */
}

/* Server: the response is serialised. */
static void end_response(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = h->cur;

	h->cur = NULL;
	s->out_done = true;
	s->duplex = false;
	http_stream_check(s);
	if (h->last)
		http_conn_finish(c, NULL);
	else if (h->body_active)
		start_discard(c);
	advance(c);
}

/* Client: the answer is decoded; the request may still be on its way. */
static void end_answer(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = h->cur;

	if (!s->out_done) {
		/* nobody waits for the rest of our body */
		s->out_done = true;
		h->no_reuse = true;
	}
	h->cur = NULL;
	http_stream_check(s);
	if (h->no_reuse || c->eof)
		http_conn_finish(c, NULL);
}

static void end_body(struct http_conn *c)
{
	struct h1 *h = h1_of(c);

	h->body_active = false;
	if (c->switched) {
		http_stream_end_in(h->cur);
		return;
	}
	if (h->discard) {
		h->discard = false;
		c->head_ms = 0;
		return;
	}
	http_stream_end_in(h->cur);
	if (!c->is_server)
		end_answer(c);
}

/* ---- input ---- */

static void on_request(struct http_conn *c, struct http_head *head,
		       const struct http1_msg *m)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = http_stream_new(c);

	s->head = *head;
	http_head_init(head);
	s->head_done = true;
	s->head_request = !strcmp(s->head.method, "HEAD");
	h->cur = s;
	h->last = m->close || c->draining;
	h->expect = m->expect && m->framing != HTTP1_NONE;
	if (m->upgrade[0]) {
		s->upgrade = xstrdup(m->upgrade);
		/* If it is refused, a proxy that believes in the switch all the
		 * same would pass somebody's bytes as further requests. */
		h->last = true;
	}
	http1_body_init(&h->body, m);
	h->body_active = !http1_body_done(&h->body);
	http_stream_event(s, HTTP_EV_REQUEST);
	if (!h->body_active)
		http_stream_end_in(s);
}

/* What follows on the connection are the other protocol's bytes. */
static void begin_switched(struct http_conn *c, struct http_stream *s)
{
	struct h1 *h = h1_of(c);
	struct http1_msg m = { .framing = HTTP1_UNTIL_EOF };

	http_stream_begin_switched(s);
	h->last = h->no_reuse = true;
	h->chunked_out = false;
	http1_body_init(&h->body, &m);
	h->body_active = true;
}

static void on_response(struct http_conn *c, struct http_head *head,
			const struct http1_msg *m)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = h->cur;

	if (head->status == 101 && h->upgrade && s->out_done &&
	    !strcasecmp(h->upgrade, m->upgrade)) {
		s->head = *head;
		http_head_init(head);
		s->head_done = true;
		begin_switched(c, s);
		http_stream_event(s, HTTP_EV_HEAD);
		return;
	}
	if (head->status < 200) {
		/* 101 would turn the connection into something else */
		if (head->status == 101 ||
		    ++h->informational > INFORMATIONAL_MAX)
			broken(c, 400, "unexpected informational response");
		return;
	}
	s->head = *head;
	http_head_init(head);
	s->head_done = true;
	h->no_reuse = h->no_reuse || m->close || m->framing == HTTP1_UNTIL_EOF;
	http1_body_init(&h->body, m);
	h->body_active = !http1_body_done(&h->body);
	http_stream_event(s, HTTP_EV_HEAD);
	if (!h->body_active)
		end_body(c);
}

/* 1 if a head was taken, 0 if it is not there yet or the connection ends. */
static int take_head(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct http_head head;
	struct http1_msg m;
	const char *why = NULL;
	ssize_t n;
	int r;

	n = http1_scan(&h->scan, buf_data(&h->raw), buf_len(&h->raw),
		       h->head_max);
	if (n < 0) {
		broken(c, (int)-n,
		       n == -431 ? "head too large" : "malformed head");
		return 0;
	}
	if (n == 0) {
		if (buf_len(&h->raw) && !c->head_ms && c->is_server)
			c->head_ms = loop_now_ms(c->loop);
		return 0;
	}
	c->head_ms = 0;
	http_head_init(&head);
	if (c->is_server)
		r = http1_parse_request(buf_data(&h->raw), (size_t)n, &h->lim,
					&head, &m, &why);
	else
		r = http1_parse_response(buf_data(&h->raw), (size_t)n,
					 h->method, &h->lim, &head, &m, &why);
	buf_consume(&h->raw, (size_t)n);
	memset(&h->scan, 0, sizeof(h->scan));
	if (r < 0)
		broken(c, -r, why);
	else if (c->is_server)
		on_request(c, &head, &m);
	else
		on_response(c, &head, &m);
	http_head_fini(&head);
	return r == 0;
}

/* The peer will send no more than raw holds. */
static void body_at_eof(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct err e = { 0 };

	if (h->body.framing == HTTP1_UNTIL_EOF) {
		h->body.state = HTTP1_BODY_DONE;
		end_body(c);
		return;
	}
	err_set(&e, -ECONNRESET, ERR_UNAVAILABLE,
		"the HTTP/1.1 peer closed the connection within a body");
	http_conn_fail(c, &e);
}

/* 1 if something was decoded. */
static int take_body(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = h->cur;
	size_t max = DISCARD_MAX, len = buf_len(&h->raw);
	struct view v = { NULL, 0 };
	ssize_t used;

	if (!s && !h->discard) { /* its stream went: nobody wants the rest */
		http_conn_finish(c, NULL);
		return 0;
	}
	if (!h->discard)
		max = c->lim.window - buf_len(&s->in);
	if (len == 0) {
		if (c->eof)
			body_at_eof(c);
		return 0;
	}
	used = http1_body_next(&h->body, buf_data(&h->raw), len, max, &v);
	if (used < 0) {
		broken(c, 400, "malformed chunk");
		return 0;
	}
	if (v.n && h->discard) {
		h->discarded += v.n;
		if (h->discarded > DISCARD_MAX) {
			http_conn_finish(c, NULL);
			return 0;
		}
	} else if (v.n && s && !s->cut) {
		CHECK(buf_put(&s->in, v.p, v.n) == 0);
		s->in_bytes += v.n;
		http_stream_event(s, HTTP_EV_BODY);
	}
	buf_consume(&h->raw, (size_t)used);
	if (http1_body_done(&h->body)) {
		end_body(c);
		return 1;
	}
	return used > 0;
}

static void at_eof(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct err e = { 0 };

	if (h->body_active || c->switched)
		return; /* take_body() looks at what raw holds first */
	if (h->cur && c->is_server) {
		h->last = true; /* he may have shut down his side only */
		return;
	}
	if (h->cur) {
		err_set(&e, -ECONNRESET, ERR_UNAVAILABLE,
			"the HTTP/1.1 server closed the connection without "
			"an answer");
		http_conn_fail(c, &e);
		return;
	}
	http_conn_finish(c, NULL);
}

static bool wants_head(const struct http_conn *c)
{
	const struct h1 *h = h1_of(c);

	if (h->body_active || c->switched)
		return false;
	return c->is_server ? !h->cur : h->cur && !h->cur->head_done;
}

static void advance(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	int r = 1;

	while (r > 0 && c->state == HTTP_OPEN) {
		if (h->body_active)
			r = take_body(c);
		else if (wants_head(c))
			r = take_head(c);
		else
			break;
	}
	if (c->state != HTTP_OPEN)
		return;
	if (!c->is_server && !h->cur && buf_len(&h->raw))
		broken(c, 400, "bytes that nobody asked for");
	else if (c->eof)
		at_eof(c);
}

static int h1_input(struct http_conn *c, const uint8_t *p, size_t n,
		    struct err *e)
{
	struct h1 *h = h1_of(c);

	if (buf_put(&h->raw, p, n) < 0)
		return err_set(e, -ENOMEM, ERR_EXHAUSTED,
			       "no memory for HTTP input");
	advance(c);
	return 0;
}

static size_t h1_room(const struct http_conn *c)
{
	const struct h1 *h = h1_of(c);

	return h->raw.max - buf_len(&h->raw);
}

static void h1_eof(struct http_conn *c)
{
	advance(c);
}

/* ---- output ---- */

static void pump_body(struct http_conn *c, struct http_stream *s)
{
	struct h1 *h = h1_of(c);
	size_t n = buf_len(&s->out), used = buf_len(&c->out);
	bool chunked = h->chunked_out && !s->no_body;

	if (used >= HTTP_PUMP_MAX)
		return;
	if (n > HTTP_PUMP_MAX - used)
		n = HTTP_PUMP_MAX - used;
	if (n) {
		if (chunked)
			buf_printf(&c->out, "%zx\r\n", n);
		buf_put(&c->out, buf_data(&s->out), n);
		if (chunked)
			buf_puts(&c->out, "\r\n");
		buf_consume(&s->out, n);
		http_stream_drained(s);
	}
	if (!s->out_end || buf_len(&s->out))
		return;
	if (chunked)
		buf_puts(&c->out, "0\r\n\r\n");
	if (c->is_server && !c->switched) {
		end_response(c);
	} else {
		s->out_done = true;
		c->shut_due = c->switched;
		http_stream_check(s);
	}
}

static void h1_pump(struct http_conn *c)
{
	struct h1 *h = h1_of(c);
	struct http_stream *s = h->cur;

	if (!s || s->cut || s->out_done || c->state != HTTP_OPEN)
		return;
	/* the handler did not refuse the body at sight: let it come */
	if (h->expect && !s->out_begun && !(s->events & HTTP_EV_REQUEST)) {
		h->expect = false;
		buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	}
	if (s->out_begun)
		pump_body(c, s);
}

static int h1_request(struct http_stream *s, const struct http_head *head,
		      bool body, struct err *e)
{
	struct http_conn *c = s->conn;
	struct h1 *h = h1_of(c);
	enum http1_framing framing = HTTP1_NONE;

	if (h->cur || h->no_reuse)
		return err_set(e, -EAGAIN, ERR_UNAVAILABLE,
			       "HTTP/1.1 connection: one request at a time");
	if (!http1_is_token(head->method, strlen(head->method)) ||
	    !http1_is_path(head->path, strlen(head->path)) ||
	    (head->authority &&
	     !http1_is_authority(head->authority, strlen(head->authority))))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "malformed method, path or authority");
	if (body)
		framing = s->out_length < 0 ? HTTP1_CHUNKED : HTTP1_NONE;
	else if (strcmp(head->method, "GET") != 0 &&
		 strcmp(head->method, "HEAD") != 0 &&
		 strcmp(head->method, "DELETE") != 0)
		framing = HTTP1_LENGTH;
	if (http1_put_request(&c->out, head, framing, s->upgrade) < 0)
		return err_set(e, -ENOMEM, ERR_EXHAUSTED, "no memory");
	free(h->method);
	h->method = xstrdup(head->method);
	free(h->upgrade);
	h->upgrade = s->upgrade ? xstrdup(s->upgrade) : NULL;
	h->cur = s;
	h->chunked_out = framing == HTTP1_CHUNKED;
	h->informational = 0;
	return 0;
}

static void h1_respond(struct http_stream *s, const struct http_head *head)
{
	struct http_conn *c = s->conn;
	struct h1 *h = h1_of(c);
	enum http1_framing framing = HTTP1_NONE;
	int64_t length = http_head_length(head);

	/* The client was not told to send its body and may or may not do so:
	 * what follows on this connection cannot be known. */
	if (h->expect || c->draining || head->status == 408)
		h->last = true;
	if (head->status != 204 && head->status != 304 && length < 0)
		framing = s->out_end ? HTTP1_LENGTH : HTTP1_CHUNKED;
	if (s->head_request && s->out_end)
		framing = HTTP1_NONE;
	h->chunked_out = framing == HTTP1_CHUNKED;
	if (http1_put_response(&c->out, head, framing, h->last) < 0)
		http_conn_fail(c, NULL);
}

static void h1_switch(struct http_stream *s, const struct http_head *head)
{
	struct http_conn *c = s->conn;

	if (http1_put_switch(&c->out, head, s->upgrade) < 0) {
		http_conn_fail(c, NULL);
		return;
	}
	begin_switched(c, s);
	advance(c); /* what came early, or that nothing will come */
}

static void h1_wake(struct http_stream *s)
{
	(void)s; /* pumped at the end of the turn */
}

static void h1_consumed(struct http_stream *s, size_t n)
{
	(void)n;
	if (h1_of(s->conn)->cur == s)
		advance(s->conn);
}

static void h1_reset(struct http_stream *s)
{
	struct http_conn *c = s->conn;

	if (h1_of(c)->cur != s)
		return;
	if (c->is_server)
		http_conn_finish(c, NULL);
	else
		http_conn_fail(c, NULL);
}

static void h1_forget(struct http_stream *s)
{
	struct h1 *h = h1_of(s->conn);

	if (h->cur != s)
		return;
	h->cur = NULL;
	if (s->conn->switched) /* there is no way back to HTTP */
		http_conn_finish(s->conn, NULL);
}

static void h1_drain(struct http_conn *c)
{
	h1_of(c)->last = true; /* idle connections end in the turn */
}

static void h1_head_timeout(struct http_conn *c)
{
	struct h1 *h = h1_of(c);

	if (h->discard)
		http_conn_finish(c, NULL);
	else
		refuse(c, 408, "the request's head did not arrive in time");
}

static void h1_free(struct http_conn *c)
{
	struct h1 *h = h1_of(c);

	buf_fini(&h->raw);
	free(h->method);
	free(h->upgrade);
	free(h);
	c->state_of_proto = NULL;
}

const struct http_proto http1_proto = {
	.input = h1_input,
	.room = h1_room,
	.eof = h1_eof,
	.pump = h1_pump,
	.request = h1_request,
	.respond = h1_respond,
	.switch_over = h1_switch,
	.wake = h1_wake,
	.consumed = h1_consumed,
	.reset = h1_reset,
	.forget = h1_forget,
	.drain = h1_drain,
	.head_timeout = h1_head_timeout,
	.free = h1_free,
};

void http1_start(struct http_conn *c)
{
	struct h1 *h = xnew(struct h1);

	h->lim.head_bytes = c->lim.head_bytes;
	h->lim.fields = c->lim.fields;
	/* names and values, their colons and line ends, the first line */
	h->head_max =
	    c->lim.head_bytes + 4 * c->lim.fields + HTTP1_LINE_MAX + 2;
	buf_init(&h->raw,
		 h->head_max > HTTP_READ_MAX ? h->head_max : HTTP_READ_MAX);
	c->proto = &http1_proto;
	c->state_of_proto = h;
}
