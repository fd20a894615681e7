/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_int.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "net/http1.h"

uint64_t http_ping_interval_ms = 15000;

/* ---- output ---- */

/* nghttp2 asks for body bytes of a stream that has room in its window. */
static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *p,
		       size_t n, uint32_t *flags, nghttp2_data_source *source,
		       void *user)
{
	struct http_stream *s =
	    nghttp2_session_get_stream_user_data(session, id);

	(void)source;
	(void)user;
	if (!s || s->cut)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (n > buf_len(&s->out))
		n = buf_len(&s->out);
	if (n == 0 && !s->out_end) {
		s->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (n) {
		memcpy(p, buf_data(&s->out), n);
		buf_consume(&s->out, n);
		http_stream_drained(s);
	}
	if (s->out_end && !buf_len(&s->out))
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void h2_pump(struct http_conn *c)
{
	struct h2 *h = h2_of(c);
	struct err e = { 0 };

	if (c->state == HTTP_CLOSING && !h->goaway) {
		h->goaway = true;
		nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
	}
	while (buf_len(&c->out) < HTTP_PUMP_MAX) {
		const uint8_t *p = NULL;
		ssize_t n = nghttp2_session_mem_send(h->session, &p);

		if (n == 0)
			break;
		if (n < 0 || buf_put(&c->out, p, (size_t)n) < 0) {
			err_set(&e, -EIO, ERR_INTERNAL, "HTTP/2 output: %s",
				nghttp2_strerror(n < 0 ? (int)n
						       : NGHTTP2_ERR_NOMEM));
			http_conn_fail(c, &e);
			return;
		}
	}
	if (c->state == HTTP_OPEN && !nghttp2_session_want_read(h->session) &&
	    !nghttp2_session_want_write(h->session)) {
		h->goaway = true;
		http_conn_finish(c, NULL);
	}
}

static nghttp2_nv nv_of(const char *name, const char *value)
{
	/* not into the compression tables, where they would live on */
	static const char *const secret[] = { "authorization", "cookie",
					      "set-cookie" };
	/* nghttp2 copies; its fields are not const */
	nghttp2_nv nv = { .name = (uint8_t *)(uintptr_t)name,
			  .value = (uint8_t *)(uintptr_t)value,
			  .namelen = strlen(name),
			  .valuelen = strlen(value) };

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++) {
		if (!strcmp(secret[i], name))
			nv.flags = NGHTTP2_NV_FLAG_NO_INDEX;
	}
	return nv;
}

static size_t add_fields(nghttp2_nv *nv, size_t n, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *f = &head->fields[i];

		if (!http1_is_hop_field(f->name, strlen(f->name)))
			nv[n++] = nv_of(f->name, f->value);
	}
	return n;
}

static int h2_request(struct http_stream *s, const struct http_head *head,
		      bool body, struct err *e)
{
	struct h2 *h = h2_of(s->conn);
	nghttp2_data_provider source = { .read_callback = on_read };
	owned_str mem = xcalloc(head->n_fields + 4, sizeof(nghttp2_nv));
	nghttp2_nv *nv = (nghttp2_nv *)(void *)mem;
	const char *authority =
	    head->authority ? head->authority : HTTP_AUTHORITY;
	size_t n = 0;
	int32_t id;

	if (!http1_is_token(head->method, strlen(head->method)) ||
	    !http1_is_path(head->path, strlen(head->path)) ||
	    !http1_is_authority(authority, strlen(authority)))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "malformed method, path or authority");
	if (!nghttp2_session_check_request_allowed(h->session))
		return err_set(e, -EAGAIN, ERR_UNAVAILABLE,
			       "HTTP connection: the peer takes no more "
			       "requests; connect again");
	nv[n++] = nv_of(":method", head->method);
	nv[n++] = nv_of(":scheme", "http");
	nv[n++] = nv_of(":authority", authority);
	nv[n++] = nv_of(":path", head->path);
	n = add_fields(nv, n, head);
	id = nghttp2_submit_request(h->session, NULL, nv, n,
				    body ? &source : NULL, s);
	if (id < 0)
		return err_set(e, -EAGAIN, ERR_UNAVAILABLE,
			       "HTTP/2 request: %s", nghttp2_strerror(id));
	s->id = id;
	return 0;
}

static void h2_respond(struct http_stream *s, const struct http_head *head)
{
	struct h2 *h = h2_of(s->conn);
	nghttp2_data_provider source = { .read_callback = on_read };
	owned_str mem = xcalloc(head->n_fields + 1, sizeof(nghttp2_nv));
	nghttp2_nv *nv = (nghttp2_nv *)(void *)mem;
	bool body = !s->out_end && !s->no_body;
	char status[4] = { (char)('0' + head->status / 100),
			   (char)('0' + head->status / 10 % 10),
			   (char)('0' + head->status % 10) };
	size_t n = 0;

	if (s->proto_gone)
		return;
	nv[n++] = nv_of(":status", status);
	n = add_fields(nv, n, head);
	if (nghttp2_submit_response(h->session, s->id, nv, n,
				    body ? &source : NULL) < 0)
		http_stream_reset(s);
}

static void h2_wake(struct http_stream *s)
{
	if (!s->deferred || s->proto_gone)
		return;
	s->deferred = false;
	nghttp2_session_resume_data(h2_of(s->conn)->session, s->id);
}

static void h2_consumed(struct http_stream *s, size_t n)
{
	if (!s->proto_gone)
		nghttp2_session_consume_stream(h2_of(s->conn)->session, s->id,
					       n);
}

void h2_submit_reset(struct http_stream *s, uint32_t code)
{
	if (!s->proto_gone)
		nghttp2_submit_rst_stream(h2_of(s->conn)->session,
					  NGHTTP2_FLAG_NONE, s->id, code);
}

static void h2_reset(struct http_stream *s)
{
	h2_submit_reset(s, NGHTTP2_CANCEL);
}

static void h2_forget(struct http_stream *s)
{
	if (!s->proto_gone && s->id)
		nghttp2_session_set_stream_user_data(h2_of(s->conn)->session,
						     s->id, NULL);
}

/* ---- input ---- */

void h2_abuse(struct http_conn *c, const char *why)
{
	struct h2 *h = h2_of(c);

	struct err e = { 0 };

	err_set(&e, -EPROTO, ERR_EXHAUSTED, "the HTTP/2 peer is abusive: %s",
		why);
	h->goaway = true;
	nghttp2_session_terminate_session(h->session,
					  NGHTTP2_ENHANCE_YOUR_CALM);
	/* with a deadline: he may not even read the GOAWAY */
	http_conn_finish(c, &e);
}

/* nghttp2 says nothing of frames that it does not know. */
static void count_useless(struct http_conn *c, size_t n)
{
	struct h2 *h = h2_of(c);
	uint64_t now = loop_now_ms(c->loop);

	if (now - h->chatter_ms >= H2_CHATTER_MS) {
		h->chatter_ms = now;
		h->chatter = 0;
		h->useless = 0;
	}
	h->useless += n;
	if (h->useless > H2_USELESS_MAX && !h->goaway)
		h2_abuse(c, "its bytes move nothing");
}

static int h2_input(struct http_conn *c, const uint8_t *p, size_t n,
		    struct err *e)
{
	struct h2 *h = h2_of(c);
	ssize_t r;

	if (!h->settings_seen && !c->head_ms && c->is_server)
		c->head_ms = loop_now_ms(c->loop);
	count_useless(c, n);
	r = nghttp2_session_mem_recv(h->session, p, n);
	if (r < 0)
		return err_set(e, -EPROTO, ERR_INVALID, "HTTP/2 peer: %s",
			       nghttp2_strerror((int)r));
	if (nghttp2_session_get_outbound_queue_size(h->session) > H2_QUEUE_MAX)
		return err_set(e, -EPROTO, ERR_EXHAUSTED,
			       "the HTTP/2 peer asks and does not read");
	http_conn_kick(c);
	return 0;
}

static size_t h2_room(const struct http_conn *c)
{
	return nghttp2_session_want_read(h2_of(c)->session) ? HTTP_READ_MAX : 0;
}

static void h2_eof(struct http_conn *c)
{
	struct err e = { 0 };

	err_set(&e, -ECONNRESET, ERR_UNAVAILABLE,
		"the HTTP/2 peer closed the connection");
	http_conn_fail(c, c->n_streams ? &e : NULL);
}

static void h2_drain(struct http_conn *c)
{
	struct h2 *h = h2_of(c);

	/* A client just asks nothing more: GOAWAY would also forbid the
	 * requests that still wait for the server's stream limit. */
	if (!c->is_server || h->goaway)
		return;
	h->goaway = true;
	nghttp2_submit_goaway(
	    h->session, NGHTTP2_FLAG_NONE,
	    nghttp2_session_get_last_proc_stream_id(h->session),
	    NGHTTP2_NO_ERROR, NULL, 0);
}

static void h2_head_timeout(struct http_conn *c)
{
	struct err e = { 0 };

	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the HTTP/2 peer did not finish a head in time");
	http_conn_finish(c, &e);
}

static void h2_ping(struct http_conn *c)
{
	nghttp2_submit_ping(h2_of(c)->session, NGHTTP2_FLAG_NONE, NULL);
}

static void h2_free(struct http_conn *c)
{
	struct h2 *h = h2_of(c);

	nghttp2_session_del(h->session);
	free(h);
	c->state_of_proto = NULL;
}

const struct http_proto http2_proto = {
	.input = h2_input,
	.room = h2_room,
	.eof = h2_eof,
	.pump = h2_pump,
	.request = h2_request,
	.respond = h2_respond,
	.wake = h2_wake,
	.consumed = h2_consumed,
	.reset = h2_reset,
	.forget = h2_forget,
	.drain = h2_drain,
	.head_timeout = h2_head_timeout,
	.ping = h2_ping,
	.free = h2_free,
};

static void set_options(nghttp2_option *o)
{
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	/* a client that opens and cancels: 200 at once, 33 a second */
	nghttp2_option_set_stream_reset_rate_limit(o, 200, 33);
	nghttp2_option_set_max_continuations(o, 8);
	nghttp2_option_set_max_settings(o, 32);
	nghttp2_option_set_max_outbound_ack(o, 1000);
}

static void submit_settings(struct http_conn *c)
{
	struct h2 *h = h2_of(c);
	nghttp2_settings_entry s[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
		  (uint32_t)c->lim.window },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
		  (uint32_t)(c->lim.head_bytes + 32 * c->lim.fields) },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
		  c->is_server ? c->lim.streams : 0 },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};

	/* ENABLE_PUSH is a client's to say */
	CHECK(nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, s,
				      ARRAY_SIZE(s) - (c->is_server ? 1 : 0)) ==
	      0);
	CHECK(nghttp2_session_set_local_window_size(
		  h->session, NGHTTP2_FLAG_NONE, 0, H2_CONN_WINDOW) == 0);
}

void http2_start(struct http_conn *c)
{
	struct h2 *h = xnew(struct h2);
	nghttp2_session_callbacks *cbs;
	nghttp2_option *option;
	int r;

	CHECK(nghttp2_session_callbacks_new(&cbs) == 0);
	CHECK(nghttp2_option_new(&option) == 0);
	h2_set_callbacks(cbs);
	set_options(option);
	r = c->is_server
		? nghttp2_session_server_new2(&h->session, cbs, c, option)
		: nghttp2_session_client_new2(&h->session, cbs, c, option);
	CHECK(r == 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cbs);
	c->proto = &http2_proto;
	c->state_of_proto = h;
	submit_settings(c);
}
