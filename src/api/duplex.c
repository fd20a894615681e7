/* SPDX-License-Identifier: Apache-2.0 */
#include "api/duplex.h"

#include <string.h>

#include "api/proxy.h"
#include "base/own.h"

#define OPEN_MS	    30000u /* for the guest to agree or refuse */
#define REFUSAL_MAX 65536u

static void connect_up(struct duplex *d);

static void drop_body(struct http_stream *s)
{
	const uint8_t *p;

	http_stream_consume(s, http_stream_peek(s, &p));
}

static void drop_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
}

/* Of a stream that nobody owns any more. */
static const struct http_handler drop = { .on_head = drop_body,
					  .on_body = drop_body,
					  .on_close = drop_close };

void duplex_abandon(struct http_stream *s)
{
	http_stream_handle(s, &drop, NULL);
	http_stream_reset(s);
}

void duplex_fini(struct duplex *d)
{
	struct req *r = d->req;

	if (!r)
		return;
	if (d->up)
		duplex_abandon(d->up);
	if (d->want)
		data_want_drop(d->want);
	loop_timer_del(&d->timer);
	buf_fini(&d->refusal);
	free(d->sandbox);
	free(d->data_path);
	free(d->path);
	r->on_close = NULL;
	r->state = NULL;
	*d = (struct duplex){ 0 };
	req_unref(r);
}

/* The user frees what holds d in there. */
static void over(struct duplex *d, const struct err *e)
{
	d->up = NULL;
	d->ops->on_close(d, e);
}

static void unanswered(struct duplex *d, const struct err *e)
{
	struct fault f;

	fault_set(&f, "node_unavailable", "guest",
		  "GET /v1/sandboxes/{id} shows whether it still runs; repeat "
		  "the call",
		  "the sandbox did not answer: %s",
		  e ? e->msg : "its connection closed");
	req_fault(d->req, &f);
	over(d, e);
}

static void on_client_gone(struct req *r)
{
	struct duplex *d = r->state;

	r->on_close = NULL;
	d->ops->on_close(d, NULL);
}

static void on_late(struct loop_timer *t)
{
	struct duplex *d = container_of(t, struct duplex, timer);

	/* on_up_close() goes on from here */
	if (d->up)
		http_stream_reset(d->up);
}

/* ---- the guest's answer ---- */

static void on_up_head(struct http_stream *s)
{
	struct duplex *d = http_stream_owner(s);

	if (http_stream_head(s)->status != 200)
		return;
	d->open = true;
	loop_timer_del(&d->timer);
	d->req->on_close = NULL;
	d->req->state = NULL;
	d->ops->on_open(d);
}

static void on_up_body(struct http_stream *s)
{
	struct duplex *d = http_stream_owner(s);
	const uint8_t *p;
	size_t n;

	if (d->open) {
		d->ops->on_body(d);
		return;
	}
	if (!http_stream_head(s))
		return;
	n = http_stream_peek(s, &p);
	if (n && buf_put(&d->refusal, p, n) < 0)
		buf_clear(&d->refusal);
	http_stream_consume(s, n);
}

static void refuse(struct duplex *d, int status)
{
	size_t n = buf_len(&d->refusal);
	const char *text = n ? buf_cstr(&d->refusal) : NULL;
	struct err e = { 0 };

	if (text && status >= 400 && proxy_status(status) == status &&
	    proxy_utf8(text, n)) {
		req_json(d->req, status, text);
		over(d, NULL);
		return;
	}
	err_set(&e, -EPROTO, ERR_UNAVAILABLE, "it gave no answer of ours");
	unanswered(d, &e);
}

static void on_up_close(struct http_stream *s, const struct err *e)
{
	struct duplex *d = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);

	if (d->open)
		over(d, e);
	else if (!h || (e && !http_stream_eof(s)))
		unanswered(d, e);
	else
		refuse(d, h->status);
}

static void on_up_writable(struct http_stream *s)
{
	struct duplex *d = http_stream_owner(s);

	if (d->open)
		d->ops->on_writable(d);
}

/* ---- asking ---- */

static void on_conn(void *arg, struct http_conn *conn, bool reused,
		    const struct fault *f)
{
	static const struct http_handler handler = {
		.on_head = on_up_head,
		.on_body = on_up_body,
		.on_writable = on_up_writable,
		.on_close = on_up_close,
	};
	struct duplex *d = arg;
	struct http_head head;
	struct err e = { 0 };

	d->want = NULL;
	if (!conn) {
		req_fault(d->req, f);
		over(d, NULL);
		return;
	}
	http_head_init(&head);
	head.method = xstrdup("POST");
	head.path = xstrdup(d->path);
	head.authority = xstrdup("guest");
	http_head_add(&head, "traceparent", d->req->traceparent);
	d->up = http_conn_request(conn, &head, true, &handler, d, &e);
	http_head_fini(&head);
	if (d->up) {
		loop_timer_set(d->req->api->loop, &d->timer, OPEN_MS, on_late);
		return;
	}
	data_forget(d->req->api->datas, d->sandbox);
	if (reused && !d->repeated) {
		d->repeated = true;
		connect_up(d);
		return;
	}
	unanswered(d, &e);
}

static void connect_up(struct duplex *d)
{
	struct data_want *w =
	    data_get(d->req->api->datas, d->sandbox, d->data_path, on_conn, d);

	/* NULL: on_conn ran and d may be gone */
	if (w)
		d->want = w;
}

void duplex_start(struct duplex *d, struct req *r, const struct guest *g,
		  const char *path, const struct duplex_ops *ops)
{
	*d = (struct duplex){ .ops = ops, .req = req_ref(r) };
	d->sandbox = xstrdup(g->id);
	d->data_path = xstrdup(g->data_path);
	d->path = xstrdup(path);
	buf_init(&d->refusal, REFUSAL_MAX);
	r->state = d;
	r->on_close = on_client_gone;
	connect_up(d);
}
