/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "net/http_int.h"

/* ---- collecting a body ---- */

struct http_collect {
	struct buf body;
	size_t max;
	void (*done)(struct http_stream *s, void *owner, const void *body,
		     size_t n, const struct err *e);
	void *owner;
};

void http_stream_collect(struct http_stream *s, size_t max,
			 void (*done)(struct http_stream *s, void *owner,
				      const void *body, size_t n,
				      const struct err *e),
			 void *owner)
{
	struct http_collect *k = xnew(struct http_collect);

	CHECK(!s->collect);
	buf_init(&k->body, 0);
	k->max = max;
	k->done = done;
	k->owner = owner;
	s->collect = k;
	s->eof_told = false;
	if (buf_len(&s->in) || s->in_end)
		http_stream_event(s, HTTP_EV_BODY);
}

/* done() may do anything to the stream, but not to k, which left it. */
static void finish(struct http_stream *s, const struct err *e)
{
	struct http_collect *k = TAKE(s->collect);

	if (e)
		k->done(s, k->owner, NULL, 0, e);
	else
		k->done(s, k->owner, buf_cstr(&k->body), buf_len(&k->body),
			NULL);
	buf_fini(&k->body);
	free(k);
}

void http_collect_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);
	struct err e = { 0 };

	if (n > s->collect->max - buf_len(&s->collect->body) ||
	    buf_put(&s->collect->body, p, n) < 0) {
		err_set(&e, -EMSGSIZE, ERR_EXHAUSTED,
			"the HTTP body is larger than %zu bytes",
			s->collect->max);
		finish(s, &e);
		if (!s->closed && !s->conn->is_server)
			http_stream_reset(s);
		return;
	}
	http_stream_consume(s, n);
	if (http_stream_eof(s))
		finish(s, NULL);
}

void http_collect_close(struct http_stream *s, const struct err *e)
{
	struct err gone = { 0 };

	if (!e) {
		err_set(&gone, -ECONNRESET, ERR_UNAVAILABLE,
			"the HTTP stream ended before its body");
		e = &gone;
	}
	finish(s, e);
}

/* ---- one call ---- */

struct call {
	struct http_stream *s;
	struct loop_timer timer;
	void (*done)(void *arg, int status, const char *body, size_t n,
		     const struct err *e);
	void *arg;
	uint64_t timeout_ms;
	bool late;
};

static void call_on_close(struct http_stream *s, const struct err *e)
{
	struct call *call = http_stream_owner(s);

	(void)e; /* told by the collector */
	loop_timer_del(&call->timer);
	free(call);
}

static const struct http_handler call_handler = {
	.on_close = call_on_close,
};

static void call_done(struct http_stream *s, void *owner, const void *body,
		      size_t n, const struct err *e)
{
	const struct http_head *head = http_stream_head(s);
	struct call *call = owner;
	struct err late = { 0 };

	loop_timer_del(&call->timer);
	if (call->late) {
		err_set(&late, -ETIMEDOUT, ERR_TIMEOUT,
			"no answer within %llu ms",
			(unsigned long long)call->timeout_ms);
		e = &late;
	}
	if (e || !head)
		call->done(call->arg, 0, NULL, 0, e);
	else
		call->done(call->arg, head->status, body, n, NULL);
}

static void call_on_timer(struct loop_timer *t)
{
	struct call *call = container_of(t, struct call, timer);

	call->late = true;
	http_stream_reset(call->s);
}

int http_call(struct http_conn *c, const char *method, const char *path,
	      const char *body, size_t max, uint64_t timeout_ms,
	      void (*done)(void *arg, int status, const char *body, size_t n,
			   const struct err *e),
	      void *arg, struct err *e)
{
	struct http_head head = { .method = xstrdup(method),
				  .path = xstrdup(path) };
	size_t n = body ? strlen(body) : 0;
	struct call *call = xnew(struct call);
	char length[24];

	if (body) {
		snprintf(length, sizeof(length), "%zu", n);
		http_head_add(&head, "content-type", "application/json");
		http_head_add(&head, "content-length", length);
	}
	call->s = http_conn_request(c, &head, n > 0, &call_handler, call, e);
	http_head_fini(&head);
	if (!call->s) {
		free(call);
		return e && e->code ? e->code : -EAGAIN;
	}
	call->done = done;
	call->arg = arg;
	call->timeout_ms = timeout_ms;
	if (n) {
		http_stream_write_all(call->s, body, n);
		http_stream_end(call->s);
	}
	http_stream_collect(call->s, max, call_done, call);
	loop_timer_set(c->loop, &call->timer, timeout_ms, call_on_timer);
	return 0;
}
