/* SPDX-License-Identifier: Apache-2.0 */
#include "api/proxy.h"

#include <stdio.h>
#include <string.h>

#include "api/data.h"
#include "base/own.h"

/* ---- pure ---- */

int proxy_status(int status)
{
	static const int known[] = { 200, 201, 202, 204, 206, 304, 400,
				     403, 404, 405, 409, 410, 412, 413,
				     416, 422, 429, 502, 503, 507 };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == status)
			return status;
	return 503;
}

bool proxy_header(const char *name, const char *value)
{
	static const char *const names[] = {
		"content-type",	 "content-range", "etag",
		"last-modified", "accept-ranges", "content-digest"
	};
	static const char *const types[] = {
		"application/json",	    "application/x-ndjson",
		"application/octet-stream", "application/vnd.caisson.frames",
		"application/x-tar",	    "application/zstd"
	};

	/* a browser must never take guest bytes for a page */
	if (strcmp(name, "content-type") == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(types); i++)
			if (strcmp(value, types[i]) == 0)
				return true;
		return false;
	}
	if (strlen(value) > 200)
		return false;
	for (const char *c = value; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			return false;
	for (size_t i = 1; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Unicode 15, table 3-7. */
static size_t utf8_length(const uint8_t *p, size_t n)
{
	uint8_t lo = 0x80, hi = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return p[0] ? 1 : 0;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return len;
}

bool proxy_utf8(const void *p, size_t n)
{
	const uint8_t *s = p;

	while (n) {
		size_t len = utf8_length(s, n);

		if (!len)
			return false;
		s += len;
		n -= len;
	}
	return true;
}

/* ---- one passage ---- */

struct proxy {
	struct req *req; /* a reference */
	struct proxy_spec s;
	struct data_want *want;
	struct http_stream *up; /* towards the guest; NULL before and after */
	struct buf json;
	struct sse sse;
	struct buf out; /* events that the client has not taken yet */
	bool ending;	/* the guest's side is over, events are left */
	struct loop_timer timer;
	bool repeated; /* tried a second connection */
	bool begun;    /* our answer's head is out */
	size_t body_sent;
	bool up_done; /* the request's body went up completely */
};

static void connect_up(struct proxy *p);

static void proxy_free(struct proxy *p)
{
	struct req *r = p->req;

	r->on_body = r->on_writable = r->on_close = NULL;
	r->state = NULL;
	if (p->want)
		data_want_drop(p->want);
	loop_timer_del(&p->timer);
	buf_fini(&p->json);
	buf_fini(&p->out);
	sse_fini(&p->sse);
	free((void *)(uintptr_t)p->s.sandbox);
	free((void *)(uintptr_t)p->s.data_path);
	free((void *)(uintptr_t)p->s.method);
	free((void *)(uintptr_t)p->s.path);
	free((void *)(uintptr_t)p->s.body);
	free(p);
	req_unref(r);
}

/* The end without (all of) an answer. up must be NULL. */
static void give_up(struct proxy *p, const struct fault *f)
{
	if (p->begun && p->req->stream)
		http_stream_reset(p->req->stream);
	else if (!p->begun)
		req_fault(p->req, f);
	proxy_free(p);
}

static void on_silent(struct loop_timer *t)
{
	struct proxy *p = container_of(t, struct proxy, timer);

	/* on_up_close() goes on from here */
	if (p->up)
		http_stream_reset(p->up);
	else if (p->req->stream) /* on_down_close() frees */
		http_stream_reset(p->req->stream);
}

static void stay_awake(struct proxy *p, uint64_t ms)
{
	loop_timer_set(p->req->api->loop, &p->timer, ms, on_silent);
}

/* ---- the guest's answer ---- */

static void begin_events(struct proxy *p)
{
	struct http_head head;

	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "text/event-stream");
	p->begun = true;
	req_begin(p->req, &head, true);
	http_head_fini(&head);
}

static void begin(struct proxy *p, bool body)
{
	const struct http_head *from = http_stream_head(p->up);
	struct http_head head;
	int64_t length = http_head_length(from);
	char text[24];

	http_head_init(&head);
	head.status = proxy_status(from->status);
	for (size_t i = 0; i < from->n_fields; i++)
		if (proxy_header(from->fields[i].name, from->fields[i].value))
			http_head_add(&head, from->fields[i].name,
				      from->fields[i].value);
	if (!http_head_get(&head, "content-type") && body)
		http_head_add(&head, "content-type",
			      "application/octet-stream");
	if (length >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)length);
		http_head_add(&head, "content-length", text);
	}
	p->begun = true;
	req_begin(p->req, &head, body);
	http_head_fini(&head);
}

static bool has_body(const struct proxy *p)
{
	int status = http_stream_head(p->up)->status;

	return strcmp(p->s.method, "HEAD") != 0 && status != 204 &&
	       status != 304 && http_head_length(http_stream_head(p->up)) != 0;
}

/* What is fed to the events' maker at once. */
#define EVENTS_STEP 32768u

/* true: all events are with the client's stream. */
static bool flush_events(struct proxy *p)
{
	size_t n = buf_len(&p->out), took;

	if (n && p->req->stream) {
		took = http_stream_write(p->req->stream, buf_data(&p->out), n);
		buf_consume(&p->out, took);
	}
	return buf_len(&p->out) == 0;
}

static void pump_events(struct proxy *p)
{
	const uint8_t *bytes;
	size_t n;

	while (flush_events(p) && p->up) {
		n = http_stream_peek(p->up, &bytes);
		n = n < EVENTS_STEP ? n : EVENTS_STEP;
		if (!n)
			break;
		if (sse_feed(&p->sse, bytes, n, &p->out) < 0) {
			/* not a stream of ours: on_up_close() says so */
			http_stream_reset(p->up);
			return;
		}
		http_stream_consume(p->up, n);
	}
	stay_awake(p, buf_len(&p->out) ? PROXY_STUCK_MS : PROXY_IDLE_MS);
}

/* The guest's side is over; free when the client has the rest. */
static void end_events(struct proxy *p)
{
	if (!p->ending)
		sse_end(&p->sse, &p->out);
	p->ending = true;
	if (!flush_events(p) && p->req->stream) {
		stay_awake(p, PROXY_STUCK_MS);
		return;
	}
	if (p->req->stream)
		http_stream_end(p->req->stream);
	proxy_free(p);
}

/* Move what both sides allow. */
static void pump_down(struct proxy *p)
{
	const uint8_t *bytes;
	size_t n = http_stream_peek(p->up, &bytes), took;

	if (!p->begun || !p->req->stream)
		return;
	if (p->s.events) {
		pump_events(p);
		return;
	}
	took = n ? http_stream_write(p->req->stream, bytes, n) : 0;
	http_stream_consume(p->up, took);
	stay_awake(p, took < n ? PROXY_STUCK_MS : PROXY_IDLE_MS);
	/* the end of our side follows in on_up_close() */
}

static bool streams(const struct proxy *p)
{
	int status = http_stream_head(p->up)->status;

	return p->s.mode == PROXY_STREAM && status >= 200 && status < 400;
}

static void collect_json(struct proxy *p)
{
	const uint8_t *bytes;
	size_t n = http_stream_peek(p->up, &bytes);

	stay_awake(p, PROXY_IDLE_MS);
	if (n && buf_put(&p->json, bytes, n) < 0) {
		buf_clear(&p->json);
		http_stream_reset(p->up);
		return;
	}
	http_stream_consume(p->up, n);
}

static void on_up_head(struct http_stream *s)
{
	struct proxy *p = http_stream_owner(s);

	stay_awake(p, PROXY_IDLE_MS);
	if (streams(p) && has_body(p)) {
		if (p->s.events)
			begin_events(p);
		else
			begin(p, true);
		pump_down(p);
	}
}

static void on_up_body(struct http_stream *s)
{
	struct proxy *p = http_stream_owner(s);

	if (!http_stream_head(s))
		return;
	if (streams(p))
		pump_down(p);
	else
		collect_json(p);
}

static void answer_json(struct proxy *p, int status)
{
	size_t n = buf_len(&p->json);
	const char *text = buf_cstr(&p->json);
	bool good =
	    text && proxy_utf8(text, n) && proxy_status(status) == status;
	owned_str edited = NULL;
	struct fault f;

	if (good && p->s.edit && status < 300) {
		edited = p->s.edit(p->req, text, n);
		text = edited;
		n = text ? strlen(text) : 0;
		good = text != NULL;
		status = p->s.edit_status ? p->s.edit_status : status;
	}
	if (good) {
		if (n)
			req_json(p->req, status, text);
		else
			req_text(p->req, status, "application/json", "");
		return;
	}
	fault_set(&f, "node_unavailable", "guest",
		  "the guest daemon misbehaves; end the sandbox and make a new "
		  "one",
		  "the guest answered with something that is not an answer");
	req_fault(p->req, &f);
}

static void unanswered(struct proxy *p, const struct err *e)
{
	struct fault f;

	fault_set(&f, "node_unavailable", "guest",
		  "GET /v1/sandboxes/{id} shows whether it still runs; repeat "
		  "the call with the same Idempotency-Key",
		  "the sandbox did not answer: %s",
		  e ? e->msg : "its connection closed");
	give_up(p, &f);
}

static void on_up_close(struct http_stream *s, const struct err *e)
{
	struct proxy *p = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);

	/* an answer that came before the whole of the upload is one, too */
	if (!h || (e && !http_stream_eof(s))) {
		p->up = NULL;
		if (p->begun && p->s.events)
			end_events(p);
		else
			unanswered(p, e);
		return;
	}
	if (!streams(p)) {
		p->up = NULL;
		answer_json(p, h->status);
	} else if (p->begun && p->s.events) {
		p->up = NULL;
		end_events(p);
		return;
	} else if (p->begun) {
		p->up = NULL;
		if (p->req->stream)
			http_stream_end(p->req->stream);
	} else { /* no body: HEAD, 204 */
		begin(p, false);
		p->up = NULL;
	}
	proxy_free(p);
}

/* ---- the client's request ---- */

static void pump_up(struct proxy *p)
{
	struct http_stream *s = p->req->stream;
	const uint8_t *bytes;
	size_t n, took;

	if (!s || !p->up || p->up_done || p->s.mode != PROXY_UPLOAD)
		return;
	n = http_stream_peek(s, &bytes);
	took = n ? http_stream_write(p->up, bytes, n) : 0;
	http_stream_consume(s, took);
	stay_awake(p, PROXY_IDLE_MS);
	if (!http_stream_eof(s))
		return;
	p->up_done = true;
	http_stream_end(p->up);
	/* syncing a large file takes its time */
	stay_awake(p, PROXY_STUCK_MS);
}

static void pump_json(struct proxy *p)
{
	size_t n = strlen(p->s.body);

	if (p->up_done)
		return;
	p->body_sent += http_stream_write(p->up, p->s.body + p->body_sent,
					  n - p->body_sent);
	if (p->body_sent < n)
		return;
	p->up_done = true;
	http_stream_end(p->up);
}

static void on_up_writable(struct http_stream *s)
{
	struct proxy *p = http_stream_owner(s);

	if (p->s.body)
		pump_json(p);
	else
		pump_up(p);
}

static void on_down_body(struct req *r)
{
	pump_up(r->state);
}

static void on_down_writable(struct req *r)
{
	struct proxy *p = r->state;

	if (p->up && p->begun)
		pump_down(p);
	else if (p->ending)
		end_events(p);
}

static void on_down_close(struct req *r)
{
	struct proxy *p = r->state;

	if (p->up)
		http_stream_reset(p->up); /* on_up_close() frees */
	else
		proxy_free(p);
}

static void head_of(const struct proxy *p, struct http_head *head)
{
	const struct req *r = p->req;
	const char *v;
	char length[24];

	http_head_init(head);
	head->method = xstrdup(p->s.method);
	head->path = xstrdup(p->s.path);
	head->authority = xstrdup("guest");
	http_head_add(head, "traceparent", r->traceparent);
	for (size_t i = 0; p->s.pass && p->s.pass[i]; i++) {
		v = req_header(r, p->s.pass[i]);
		if (v)
			http_head_add(head, p->s.pass[i], v);
	}
	if (p->s.events && p->s.events_of == SSE_FRAMES)
		http_head_add(head, "accept", "application/vnd.caisson.frames");
	if (p->s.mode == PROXY_UPLOAD) {
		v = req_header(r, "content-length");
		if (v)
			http_head_add(head, "content-length", v);
	}
	if (p->s.body) {
		snprintf(length, sizeof(length), "%zu", strlen(p->s.body));
		http_head_add(head, "content-type", "application/json");
		http_head_add(head, "content-length", length);
	}
}

static void on_conn(void *arg, struct http_conn *conn, bool reused,
		    const struct fault *f)
{
	static const struct http_handler handler = {
		.on_head = on_up_head,
		.on_body = on_up_body,
		.on_writable = on_up_writable,
		.on_close = on_up_close,
	};
	struct proxy *p = arg;
	struct http_head head;
	struct err e = { 0 };

	p->want = NULL;
	if (!conn) {
		give_up(p, f);
		return;
	}
	head_of(p, &head);
	p->up = http_conn_request(conn, &head,
				  p->s.body || p->s.mode == PROXY_UPLOAD,
				  &handler, p, &e);
	http_head_fini(&head);
	if (p->up) {
		stay_awake(p, PROXY_IDLE_MS);
		on_up_writable(p->up);
		return;
	}
	data_forget(p->req->api->datas, p->s.sandbox);
	if (reused && !p->repeated) {
		p->repeated = true;
		connect_up(p);
		return;
	}
	unanswered(p, &e);
}

static void connect_up(struct proxy *p)
{
	struct data_want *w = data_get(p->req->api->datas, p->s.sandbox,
				       p->s.data_path, on_conn, p);

	/* NULL: on_conn ran and p may be gone */
	if (w)
		p->want = w;
}

void proxy_start(struct req *r, const struct proxy_spec *spec)
{
	struct proxy *p = xnew(struct proxy);

	p->req = req_ref(r);
	p->s = *spec;
	p->s.sandbox = xstrdup(spec->sandbox);
	p->s.data_path = xstrdup(spec->data_path);
	p->s.method = xstrdup(spec->method);
	p->s.path = xstrdup(spec->path);
	p->s.body = spec->body ? xstrdup(spec->body) : NULL;
	buf_init(&p->json, PROXY_JSON_MAX);
	buf_init(&p->out, 0); /* one step's events */
	sse_init(&p->sse, spec->events_of, spec->follow);
	r->state = p;
	r->on_body = on_down_body;
	r->on_writable = on_down_writable;
	r->on_close = on_down_close;
	connect_up(p);
}
