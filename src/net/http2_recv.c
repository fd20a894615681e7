/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http2_int.h"

/* ---- heads ---- */

static int on_begin_headers(nghttp2_session *session,
			    const nghttp2_frame *frame, void *user)
{
	struct http_conn *c = user;
	struct http_stream *s;

	h2_of(c)->head_bytes = 0;
	h2_of(c)->head_fields = 0;
	if (c->is_server)
		c->head_ms = loop_now_ms(c->loop);
	if (!c->is_server || frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = http_stream_new(c);
	s->id = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, s->id, s);
	return 0;
}

static void set_once(char **to, struct view v)
{
	if (!*to)
		*to = xstrndup(v.p, v.n);
}

static void on_pseudo(struct http_stream *s, struct view name, struct view v)
{
	struct http_head *h = &s->head;

	/* nghttp2 saw to it that each comes once and is well-formed */
	if (view_eq(name, ":method"))
		set_once(&h->method, v);
	else if (view_eq(name, ":path"))
		set_once(&h->path, v);
	else if (view_eq(name, ":authority"))
		set_once(&h->authority, v);
	else if (view_eq(name, ":status") && v.n == 3)
		h->status =
		    (v.p[0] - '0') * 100 + (v.p[1] - '0') * 10 + (v.p[2] - '0');
}

static void on_host(struct http_stream *s, struct view v)
{
	if (s->head.authority && !view_eq(v, s->head.authority))
		s->refuse = 400; /* two hosts in one request */
	else
		set_once(&s->head.authority, v);
}

/* A byte on the wire can name a field of thousands, which we must go through
 * even if the head is refused. Who knows our limit does not go far beyond. */
static bool bomb(struct http_conn *c, size_t n)
{
	struct h2 *h = h2_of(c);

	h->head_bytes += n;
	h->head_fields++;
	if (h->head_bytes <= H2_BOMB * c->lim.head_bytes &&
	    h->head_fields <= H2_BOMB * c->lim.fields)
		return false;
	h2_abuse(c, "its heads are many times too large");
	return true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
		     const uint8_t *name, size_t n_name, const uint8_t *value,
		     size_t n_value, uint8_t flags, void *user)
{
	struct http_conn *c = user;
	struct http_stream *s =
	    nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct view k = { (const char *)name, n_name };
	struct view v = { (const char *)value, n_value };

	(void)flags;
	if (bomb(c, n_name + n_value))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (!s || s->head_done || s->refuse)
		return 0; /* nobody's, a trailer, or refused already */
	s->head_bytes += n_name + n_value;
	if (s->head_bytes > c->lim.head_bytes ||
	    s->head.n_fields >= c->lim.fields) {
		s->refuse = 431;
		return 0;
	}
	if (n_name && name[0] == ':')
		on_pseudo(s, k, v);
	else if (view_eq(k, "host"))
		on_host(s, v);
	else if (!http1_is_value(v.p, v.n))
		s->refuse = 400;
	else if (!http1_is_hop_field(k.p, k.n))
		http_head_put(&s->head, k, v);
	return 0;
}

static int judge_request(const struct http_stream *s, const char **why)
{
	const struct http_head *h = &s->head;

	*why = "request head too large";
	if (s->refuse == 431)
		return 431;
	*why = "malformed field";
	if (s->refuse)
		return s->refuse;
	*why = "CONNECT is not served";
	if (!h->method || !strcmp(h->method, "CONNECT"))
		return 501;
	*why = "malformed method";
	if (!http1_is_token(h->method, strlen(h->method)) ||
	    strlen(h->method) > 32)
		return 400;
	*why = "malformed request target";
	if (!h->path || !http1_is_path(h->path, strlen(h->path)))
		return 400;
	*why = "malformed authority";
	if (h->authority &&
	    !http1_is_authority(h->authority, strlen(h->authority)))
		return 400;
	return 0;
}

static void on_request_head(struct http_stream *s)
{
	const char *why = NULL;
	int status = judge_request(s, &why);

	s->head_done = true;
	s->head_request = s->head.method && !strcmp(s->head.method, "HEAD");
	if (status)
		http_stream_refuse(s, status, why);
	else
		http_stream_event(s, HTTP_EV_REQUEST);
}

static void on_response_head(struct http_stream *s)
{
	struct err e = { 0 };

	if (s->refuse) {
		err_set(&e, -E2BIG, ERR_EXHAUSTED,
			"the HTTP response's head is too large or malformed");
		http_stream_cut(s, &e);
		h2_submit_reset(s, NGHTTP2_CANCEL);
		return;
	}
	if (s->head.status < 200) { /* informational: the next one counts */
		http_head_fini(&s->head);
		s->head_bytes = 0;
		return;
	}
	s->head_done = true;
	http_stream_event(s, HTTP_EV_HEAD);
}

/* ---- frames ---- */

static void on_goaway(struct http_conn *c, const nghttp2_goaway *f)
{
	if (f->error_code && !c->err.code)
		err_set(&c->err, -ECONNRESET, ERR_UNAVAILABLE,
			"the HTTP/2 peer ended the connection: %s",
			nghttp2_http2_strerror(f->error_code));
	if (!c->is_server)
		c->draining = true;
}

static void progress(struct h2 *h)
{
	h->chatter = 0;
	h->useless = 0;
}

/* Each frame costs the peer nine bytes and us a turn of the machinery. An
 * honest one sends a few per request and per window of bytes. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd,
			  void *user)
{
	struct http_conn *c = user;
	struct h2 *h = h2_of(c);

	(void)session;
	if (hd->type == NGHTTP2_HEADERS)
		progress(h);
	else if (++h->chatter == H2_CHATTER_MAX)
		h2_abuse(c, "its frames move nothing");
	return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame,
			 void *user)
{
	struct http_conn *c = user;
	struct http_stream *s = NULL;

	if (frame->hd.stream_id)
		s = nghttp2_session_get_stream_user_data(session,
							 frame->hd.stream_id);
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		c->head_ms = 0;
		if (s && !s->head_done && c->is_server)
			on_request_head(s);
		else if (s && !s->head_done)
			on_response_head(s);
		break;
	case NGHTTP2_SETTINGS:
		if (!h2_of(c)->settings_seen)
			c->head_ms = 0;
		h2_of(c)->settings_seen = true;
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			c->pings = 0;
		break;
	case NGHTTP2_GOAWAY:
		on_goaway(c, &frame->goaway);
		break;
	default:
		break;
	}
	if (s &&
	    (frame->hd.type == NGHTTP2_HEADERS ||
	     frame->hd.type == NGHTTP2_DATA) &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		http_stream_end_in(s);
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id,
			 const uint8_t *p, size_t n, void *user)
{
	struct http_stream *s =
	    nghttp2_session_get_stream_user_data(session, id);

	(void)flags;
	nghttp2_session_consume_connection(session, n);
	if (n)
		progress(h2_of((struct http_conn *)user));
	if (!s || s->cut || s->complete || n == 0)
		return 0;
	if (buf_put(&s->in, p, n) < 0) {
		/* the window forbids it, unless memory is gone */
		http_stream_reset(s);
		return 0;
	}
	s->in_bytes += n;
	http_stream_event(s, HTTP_EV_BODY);
	return 0;
}

/* ---- the end of streams ---- */

static void cut_by_peer(struct http_stream *s, uint32_t code)
{
	struct err e = { 0 };

	err_set(&e, -ECONNRESET,
		code == NGHTTP2_ENHANCE_YOUR_CALM ? ERR_EXHAUSTED
						  : ERR_UNAVAILABLE,
		"the HTTP/2 stream was cut: %s", nghttp2_http2_strerror(code));
	http_stream_cut(s, &e);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code,
			   void *user)
{
	struct http_stream *s =
	    nghttp2_session_get_stream_user_data(session, id);

	(void)user;
	if (!s)
		return 0;
	s->proto_gone = true;
	if (s->in_end && s->out_done)
		return 0;
	if (s->in_end && !s->conn->is_server && code == NGHTTP2_NO_ERROR) {
		/* the whole answer, and no interest in the rest of our body */
		s->out_done = true;
		http_stream_check(s);
		return 0;
	}
	cut_by_peer(s, code);
	return 0;
}

/* A reset that the peer provoked costs us work and him none. */
static void strike(struct http_conn *c)
{
	struct h2 *h = h2_of(c);
	uint64_t now = loop_now_ms(c->loop);
	uint64_t forgiven = (now - h->strike_ms) / H2_STRIKE_MS;

	if (forgiven) {
		h->strikes -=
		    forgiven < h->strikes ? (unsigned)forgiven : h->strikes;
		h->strike_ms = now;
	}
	if (++h->strikes == H2_STRIKES)
		h2_abuse(c, "it provokes stream errors");
}

static void on_sent_end(struct http_stream *s)
{
	s->out_done = true;
	/* answered without the rest of the request: tell him to stop */
	if (s->conn->is_server && !s->in_end && !s->duplex)
		h2_submit_reset(s, NGHTTP2_NO_ERROR);
	http_stream_check(s);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame,
			 void *user)
{
	struct http_conn *c = user;
	struct http_stream *s;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		s = nghttp2_session_get_stream_user_data(session,
							 frame->hd.stream_id);
		progress(h2_of(c));
		if (s && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			on_sent_end(s);
		break;
	case NGHTTP2_RST_STREAM:
		/* our own wishes are NO_ERROR and CANCEL */
		if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
		    frame->rst_stream.error_code != NGHTTP2_CANCEL)
			strike(c);
		break;
	case NGHTTP2_GOAWAY:
		if (frame->goaway.error_code && !c->err.code)
			err_set(
			    &c->err, -EPROTO, ERR_INVALID,
			    "the HTTP/2 peer broke the protocol: %s",
			    nghttp2_http2_strerror(frame->goaway.error_code));
		break;
	default:
		break;
	}
	return 0;
}

/* A request that never left, e.g. since the peer said GOAWAY. */
static int on_frame_not_send(nghttp2_session *session,
			     const nghttp2_frame *frame, int code, void *user)
{
	struct http_conn *c = user;
	struct http_stream *s;

	(void)session;
	(void)code;
	if (c->is_server || frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	list_for_each (s, &c->streams, link) {
		if (s->id == frame->hd.stream_id) {
			s->proto_gone = true;
			cut_by_peer(s, NGHTTP2_REFUSED_STREAM);
			break;
		}
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *session,
			    const nghttp2_frame *frame, int code, void *user)
{
	struct http_conn *c = user;

	(void)session;
	if (frame->hd.stream_id == 0 && !c->err.code)
		err_set(&c->err, -EPROTO, ERR_INVALID, "HTTP/2 peer: %s",
			nghttp2_strerror(code));
	return 0;
}

void h2_set_callbacks(nghttp2_session_callbacks *cbs)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(cbs,
							      on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(
	    cbs, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cbs,
							     on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
	    cbs, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cbs,
							       on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(cbs,
							     on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(
	    cbs, on_frame_not_send);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
	    cbs, on_invalid_frame);
}
