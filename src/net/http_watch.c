/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Peers that are slow on purpose. A server holds memory for a request until its
 * body is there, and for an answer until it is taken; so each must move
 * WATCH_BYTES in a timeout, or end. It is looked at a few times per timeout and
 * not for every byte: what is measured is minutes.
 *
 * Not measured: a body that its handler does not read at the moment, one whose
 * answer has begun (two-way streams rest as long as they like), and one whose
 * handler said so (http_stream_patient).
 */

#include <errno.h>

#include "net/http_int.h"

#define WATCH_BYTES 4096u
#define LOOKS	    4u /* per timeout */

static bool is_on(uint64_t timeout_ms)
{
	return timeout_ms != HTTP_NEVER;
}

uint64_t http_watch_interval(const struct http_conn *c)
{
	uint64_t ms = c->lim.body_timeout_ms < c->lim.write_timeout_ms
			  ? c->lim.body_timeout_ms
			  : c->lim.write_timeout_ms;

	if (!is_on(ms) || (!c->n_streams && !buf_len(&c->out)))
		return HTTP_NEVER;
	return ms / LOOKS + 1;
}

void http_watch_reset(struct http_watch *w, uint64_t now, uint64_t bytes)
{
	w->since_ms = now;
	w->bytes = bytes;
}

/* Did too little move since too long ago? bytes: all that ever moved. */
static bool too_slow(struct http_watch *w, uint64_t now, uint64_t bytes,
		     uint64_t timeout_ms)
{
	if (bytes - w->bytes >= WATCH_BYTES)
		http_watch_reset(w, now, bytes);
	return is_on(timeout_ms) && now - w->since_ms >= timeout_ms;
}

static void watch_body(struct http_stream *s, uint64_t now)
{
	bool reading = s->handler || s->collect;

	if (!reading || s->in_end || s->out_begun || s->patient ||
	    buf_len(&s->in))
		http_watch_reset(&s->in_watch, now, s->in_bytes);
	else if (too_slow(&s->in_watch, now, s->in_bytes,
			  s->conn->lim.body_timeout_ms))
		http_stream_event(s, HTTP_EV_LATE);
}

/* HTTP/2: its own window is what a stream's output waits for. */
static void watch_answer(struct http_stream *s, uint64_t now)
{
	struct err e = { 0 };
	size_t left = buf_len(&s->out);

	if (!left || s->conn->blocked) {
		http_watch_reset(&s->out_watch, now, s->out_bytes - left);
		return;
	}
	if (!too_slow(&s->out_watch, now, s->out_bytes - left,
		      s->conn->lim.write_timeout_ms))
		return;
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the HTTP peer did not take its answer within %llu ms",
		(unsigned long long)s->conn->lim.write_timeout_ms);
	http_stream_cut(s, &e);
	s->own_reset = true;
	s->conn->proto->reset(s);
}

static void watch_socket(struct http_conn *c, uint64_t now)
{
	struct err e = { 0 };

	if (!c->blocked || !buf_len(&c->out)) {
		http_watch_reset(&c->out_watch, now, c->sent);
		return;
	}
	if (!too_slow(&c->out_watch, now, c->sent, c->lim.write_timeout_ms))
		return;
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the HTTP peer read nothing for %llu ms",
		(unsigned long long)c->lim.write_timeout_ms);
	http_conn_fail(c, &e);
}

void http_watch_look(struct http_conn *c)
{
	uint64_t now = loop_now_ms(c->loop);
	struct http_stream *s;

	watch_socket(c, now);
	if (c->state != HTTP_OPEN || !c->is_server)
		return;
	list_for_each (s, &c->streams, link) {
		if (s->cut || s->complete || s->closed || !s->head_done)
			continue;
		watch_body(s, now);
		if (c->version == HTTP_2)
			watch_answer(s, now);
	}
}

/* From the stream's dispatch: its user hears that it is over, then the peer. */
void http_stream_late(struct http_stream *s)
{
	const struct http_handler *h = s->handler;
	struct err e = { 0 };

	if (s->in_end || s->out_begun || s->cut || s->closed)
		return; /* it came after all */
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the request's body came too slowly");
	s->handler = NULL;
	if (s->collect)
		http_collect_close(s, &e);
	if (h)
		h->on_close(s, &e);
	if (s->closed || s->cut)
		return;
	if (!s->out_begun)
		http_stream_refuse(s, 408,
				   "the request's body came too slowly");
	else if (!s->out_end)
		http_stream_reset(s);
}
