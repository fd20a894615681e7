/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http_int.h"

/* Below this much queued output a writer who was told to wait is called. */
#define OUT_LOW (HTTP_OUT_MAX / 2)

struct http_stream *http_stream_new(struct http_conn *c)
{
	struct http_stream *s = xnew(struct http_stream);

	s->conn = c;
	list_init(&s->ready);
	list_add_tail(&c->streams, &s->link);
	c->n_streams++;
	http_head_init(&s->head);
	buf_init(&s->in, c->lim.window);
	buf_init(&s->out, HTTP_OUT_MAX);
	s->out_length = -1;
	http_watch_reset(&s->in_watch, loop_now_ms(c->loop), 0);
	http_watch_reset(&s->out_watch, loop_now_ms(c->loop), 0);
	return s;
}

static void stream_free(struct http_stream *s)
{
	http_head_fini(&s->head);
	buf_fini(&s->in);
	buf_fini(&s->out);
	free(s->err);
	free(s->upgrade);
	free(s);
}

/* Out of its connection; s itself stays. */
static void detach(struct http_stream *s)
{
	struct http_conn *c = s->conn;

	s->closed = true;
	s->events = 0;
	list_del(&s->ready);
	if (!list_empty(&s->link)) {
		list_del(&s->link);
		c->n_streams--;
		c->idle_ms = loop_now_ms(c->loop);
		c->proto->forget(s);
	}
}

void http_stream_drop(struct http_stream *s)
{
	detach(s);
	if (!s->busy)
		stream_free(s);
}

void http_stream_event(struct http_stream *s, unsigned ev)
{
	if (s->closed)
		return;
	s->events |= ev;
	if (list_empty(&s->ready))
		list_add_tail(&s->conn->ready, &s->ready);
	http_conn_kick(s->conn);
}

void http_stream_cut(struct http_stream *s, const struct err *e)
{
	if (s->cut || s->complete || s->closed)
		return;
	s->cut = true;
	s->err = xnew(struct err);
	*s->err = *e;
	http_stream_event(s, HTTP_EV_CLOSE);
}

/*
 * A server's stream is over with the last byte of its response: what is left of
 * the request interests nobody. A client's is over when the user took the last
 * byte of the response and the request went out.
 */
void http_stream_check(struct http_stream *s)
{
	if (s->cut || s->complete || s->closed || !s->out_done)
		return;
	if ((!s->conn->is_server || s->duplex) &&
	    (!s->in_end || buf_len(&s->in)))
		return;
	s->complete = true;
	http_stream_event(s, HTTP_EV_CLOSE);
}

void http_stream_end_in(struct http_stream *s)
{
	if (s->in_end)
		return;
	s->in_end = true;
	http_stream_event(s, HTTP_EV_BODY);
	http_stream_check(s);
}

void http_stream_drained(struct http_stream *s)
{
	if (s->want_room && buf_len(&s->out) <= OUT_LOW) {
		s->want_room = false;
		http_stream_event(s, HTTP_EV_WRITABLE);
	}
}

static void dispatch_request(struct http_stream *s)
{
	struct http_conn *c = s->conn;

	c->ops->on_request(c, s);
	if (!s->closed && !s->cut && !s->handler && !s->collect &&
	    !s->out_begun)
		http_stream_refuse(s, 500, "nobody answered this request");
}

static void dispatch_body(struct http_stream *s)
{
	bool eof = s->in_end && !buf_len(&s->in);

	if ((eof && s->eof_told) || (!s->in_end && !buf_len(&s->in)))
		return;
	s->eof_told = eof;
	if (s->collect)
		http_collect_body(s);
	else if (s->handler) /* else: replied without one */
		s->handler->on_body(s);
}

static unsigned next_event(struct http_stream *s)
{
	unsigned ev;

	if (s->cut || (s->complete && s->conn->is_server && !s->duplex))
		s->events &= HTTP_EV_CLOSE;
	ev = s->events & -s->events; /* the lowest: they are in order */
	s->events &= ~ev;
	return ev;
}

void http_stream_dispatch(struct http_stream *s)
{
	const struct http_handler *h = s->handler;

	list_del(&s->ready);
	s->busy++;
	switch (next_event(s)) {
	case HTTP_EV_REQUEST:
		dispatch_request(s);
		break;
	case HTTP_EV_HEAD:
		if (h && h->on_head)
			h->on_head(s);
		break;
	case HTTP_EV_BODY:
		dispatch_body(s);
		break;
	case HTTP_EV_WRITABLE:
		if (h && h->on_writable)
			h->on_writable(s);
		break;
	case HTTP_EV_LATE:
		http_stream_late(s);
		break;
	case HTTP_EV_CLOSE:
		detach(s);
		if (s->collect)
			http_collect_close(s, s->cut ? s->err : NULL);
		if (h)
			h->on_close(s, s->cut ? s->err : NULL);
		break;
	}
	s->busy--;
	if (s->closed && !s->busy)
		stream_free(s);
	else if (s->events && list_empty(&s->ready))
		list_add_tail(&s->conn->ready, &s->ready);
}

/* ---- the public side ---- */

void http_stream_handle(struct http_stream *s, const struct http_handler *h,
			void *owner)
{
	s->handler = h;
	s->owner = owner;
	/* a late handler must not miss what arrived before it */
	if (buf_len(&s->in) || (s->in_end && !s->eof_told))
		http_stream_event(s, HTTP_EV_BODY);
}

void *http_stream_owner(const struct http_stream *s)
{
	return s->owner;
}

struct http_conn *http_stream_conn(const struct http_stream *s)
{
	return s->conn;
}

const struct http_head *http_stream_head(const struct http_stream *s)
{
	return s->head_done ? &s->head : NULL;
}

size_t http_stream_peek(struct http_stream *s, const uint8_t **ret)
{
	*ret = buf_len(&s->in) ? buf_data(&s->in) : NULL;
	if (s->cut || s->closed)
		return 0;
	return buf_len(&s->in);
}

void http_stream_consume(struct http_stream *s, size_t n)
{
	if (s->cut || s->closed)
		return; /* cut since the peek: nothing is left to credit */
	buf_consume(&s->in, n);
	if (n == 0)
		return;
	s->eof_told = s->in_end && !buf_len(&s->in);
	s->conn->proto->consumed(s, n);
	http_stream_check(s);
	http_conn_kick(s->conn);
}

bool http_stream_eof(const struct http_stream *s)
{
	return s->in_end && !buf_len(&s->in) && !s->cut;
}

static bool is_over(const struct http_stream *s)
{
	return s->cut || s->complete || s->closed;
}

void http_stream_respond(struct http_stream *s, const struct http_head *head,
			 bool body)
{
	CHECK(s->conn->is_server && !s->out_begun);
	CHECK(head->status >= 200 && head->status <= 599);
	if (is_over(s))
		return;
	s->out_begun = true;
	s->no_body = s->head_request || http_no_body(NULL, head->status);
	s->out_length = http_head_length(head);
	if (!body && s->out_length < 0)
		s->out_length = 0;
	s->out_end = !body;
	if (!body && s->out_length != 0 && !s->no_body) {
		http_stream_reset(s); /* promised bytes that never come */
		return;
	}
	s->conn->proto->respond(s, head);
	http_conn_kick(s->conn);
}

const char *http_stream_upgrade(const struct http_stream *s)
{
	return s->conn->is_server ? s->upgrade : NULL;
}

void http_stream_begin_switched(struct http_stream *s)
{
	s->conn->switched = true;
	s->duplex = true;
	s->out_begun = true;
	s->out_end = s->out_done = false;
	s->in_end = s->eof_told = false;
	s->out_length = -1;
	s->no_body = false;
}

void http_stream_switch(struct http_stream *s, const struct http_head *head)
{
	CHECK(s->conn->is_server && !s->out_begun && s->upgrade);
	if (is_over(s))
		return;
	http_stream_begin_switched(s);
	s->conn->proto->switch_over(s, head);
	http_conn_kick(s->conn);
}

void http_stream_reply(struct http_stream *s, int status,
		       const char *content_type, const void *body, size_t n)
{
	struct http_head h;
	char length[24];

	http_head_init(&h);
	h.status = status;
	if (content_type)
		http_head_add(&h, "content-type", content_type);
	if (!http_no_body(NULL, status)) {
		snprintf(length, sizeof(length), "%zu", n);
		http_head_add(&h, "content-length", length);
	}
	http_stream_respond(s, &h, n > 0);
	http_head_fini(&h);
	if (n > 0) {
		http_stream_write_all(s, body, n);
		http_stream_end(s);
	}
}

void http_stream_write_all(struct http_stream *s, const void *p, size_t n)
{
	s->out.max = 0;
	http_stream_write(s, p, n);
	s->out.max = HTTP_OUT_MAX;
}

size_t http_stream_room(const struct http_stream *s)
{
	size_t used = buf_len(&s->out);

	if (is_over(s))
		return HTTP_OUT_MAX;
	return used < HTTP_OUT_MAX ? HTTP_OUT_MAX - used : 0;
}

size_t http_stream_write(struct http_stream *s, const void *p, size_t n)
{
	size_t take = n, room = http_stream_room(s);

	if (is_over(s))
		return n; /* accepted and discarded; on_close will tell */
	CHECK(s->out_begun && !s->out_end);
	if (s->out.max && take > room)
		take = room;
	if (s->out_length >= 0 && !s->no_body &&
	    s->out_bytes + take > (uint64_t)s->out_length) {
		http_stream_reset(s);
		return n;
	}
	if (!s->no_body && buf_put(&s->out, p, take) < 0)
		take = 0; /* out of memory: as if full */
	s->out_bytes += take;
	if (take < n)
		s->want_room = true;
	if (take) {
		s->conn->proto->wake(s);
		http_conn_kick(s->conn);
	}
	return take;
}

void http_stream_want_room(struct http_stream *s)
{
	if (!is_over(s) && !s->out_end)
		s->want_room = true;
}

void http_stream_end(struct http_stream *s)
{
	if (is_over(s) || s->out_end)
		return;
	CHECK(s->out_begun);
	if (s->out_length >= 0 && !s->no_body &&
	    s->out_bytes != (uint64_t)s->out_length) {
		http_stream_reset(s);
		return;
	}
	s->out_end = true;
	s->want_room = false;
	s->conn->proto->wake(s);
	http_conn_kick(s->conn);
}

void http_stream_duplex(struct http_stream *s)
{
	CHECK(s->conn->is_server && !s->out_begun);
	s->duplex = true;
}

void http_stream_patient(struct http_stream *s)
{
	s->patient = true;
}

void http_stream_reset(struct http_stream *s)
{
	struct err e = { 0 };

	if (s->cut || s->closed)
		return;
	if (s->complete) {
		s->events &= HTTP_EV_CLOSE;
		return;
	}
	err_set(&e, -ECONNABORTED, ERR_UNAVAILABLE,
		"the stream was reset by this side");
	http_stream_cut(s, &e);
	s->own_reset = true;
	s->conn->proto->reset(s);
	http_conn_kick(s->conn);
}
