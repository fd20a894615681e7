/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/own.h"
#include "monitor/data.h"
#include "monitor/frames.h"
#include "net/json.h"

#define RAW_TYPE "application/vnd.caisson.frames"

enum answer { ANSWER_NONE, ANSWER_JSON, ANSWER_FILE, ANSWER_OUTPUT };

struct pass {
	struct list link;
	struct loop *loop;
	struct loop_timer silence;
	struct http_stream *down, *up; /* NULL once closed */
	struct route route;
	enum answer answer;
	int status;
	uint64_t body_bytes;
	bool has_all_body; /* the request was passed on whole */
	bool is_raw, has_head, has_answered;
	struct frames frames;
	struct buf json; /* the guest's answer */
	struct buf out;	 /* what the client has not taken yet */
};

/* ---- refusals ---- */

void pass_refuse(struct http_stream *down, int status, const char *code,
		 const char *message, const char *cause)
{
	owned_json doc = json_object();
	json_t *err = json_object();
	owned_str text = NULL;

	json_set_take(err, "code", json_string(code));
	json_set_take(err, "message", json_str_lossy(message, strlen(message)));
	json_set_take(err, "cause", json_string(cause));
	json_set_take(doc, "error", err);
	text = json_text(doc);
	http_stream_reply(down, status, "application/json", text, strlen(text));
}

/* Both streams are cut; their on_close does the rest. */
static void cut(struct pass *p)
{
	if (p->up)
		http_stream_reset(p->up);
	if (p->down)
		http_stream_reset(p->down);
}

/* The guest's answer is of no use. */
static void fail(struct pass *p, const char *message)
{
	if (p->down && !p->has_head) {
		p->has_head = p->has_answered = true;
		pass_refuse(p->down, 502, "guest_error", message, "guest");
	} else if (p->down && !p->has_answered) {
		http_stream_reset(p->down);
	}
	if (p->up)
		http_stream_reset(p->up);
}

static void maybe_free(struct pass *p)
{
	if (p->down || p->up)
		return;
	list_del(&p->link);
	loop_timer_del(&p->silence);
	route_fini(&p->route);
	frames_fini(&p->frames);
	buf_fini(&p->json);
	buf_fini(&p->out);
	free(p);
}

/* ---- silence ---- */

static void on_silence(struct loop_timer *t);

static void touch(struct pass *p)
{
	loop_timer_set(p->loop, &p->silence, PASS_SILENCE_MS, on_silence);
}

static void on_silence(struct loop_timer *t)
{
	struct pass *p = container_of(t, struct pass, silence);
	bool clients_turn =
	    !p->has_all_body || buf_len(&p->out) > 0 || p->has_answered;

	if (p->down && clients_turn && http_stream_room(p->down) == 0) {
		touch(p);
		return;
	}
	if (p->down && !p->has_all_body) {
		touch(p);
		return;
	}
	fail(p, "the guest's daemon did not answer in time");
}

/* ---- request body: client to guest ---- */

static void pump_request(struct pass *p)
{
	while (p->down && p->up && !p->has_all_body) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->down, &b), w;

		if (n == 0) {
			if (!http_stream_eof(p->down))
				return;
			p->has_all_body = true;
			http_stream_end(p->up);
			return;
		}
		if (n > p->route.body_max - p->body_bytes) {
			if (!p->has_head)
				pass_refuse(p->down, 413, "too_large",
					    "the request body is too large",
					    "request");
			p->has_head = p->has_answered = true;
			p->has_all_body = true;
			http_stream_reset(p->up);
			return;
		}
		w = http_stream_write(p->up, b, n);
		http_stream_consume(p->down, w);
		p->body_bytes += w;
		if (w)
			touch(p);
		if (w < n)
			return;
	}
}

/* ---- response: guest to client ---- */

static void respond(struct pass *p, const char *type, int64_t length, bool body)
{
	struct http_head h;
	char number[32];

	http_head_init(&h);
	h.status = p->status;
	http_head_add(&h, "content-type", type);
	if (length >= 0) {
		snprintf(number, sizeof(number), "%lld", (long long)length);
		http_head_add(&h, "content-length", number);
	}
	p->has_head = true;
	http_stream_respond(p->down, &h, body);
	http_head_fini(&h);
}

/* A guest's error names the guest, whatever it says. */
static void mark_cause(json_t *v)
{
	json_t *err = json_object_get(v, "error");

	if (json_is_object(err))
		json_set_take(err, "cause", json_string("guest"));
}

static void answer_json(struct pass *p)
{
	owned_json v = NULL;
	owned_str text = NULL;

	p->has_answered = p->has_head = true;
	if (buf_len(&p->json) == 0) {
		http_stream_reply(p->down, p->status, NULL, NULL, 0);
		return;
	}
	if (json_parse(buf_data(&p->json), buf_len(&p->json), &v, NULL) < 0) {
		pass_refuse(p->down, 502, "guest_error",
			    "the guest's answer is not JSON", "guest");
		return;
	}
	if (p->status >= 400)
		mark_cause(v);
	text = json_text(v);
	http_stream_reply(p->down, p->status, "application/json", text,
			  strlen(text));
}

static void pump_json(struct pass *p)
{
	const uint8_t *b;
	size_t n;

	while ((n = http_stream_peek(p->up, &b)) > 0) {
		if (buf_put(&p->json, b, n) < 0) {
			fail(p, "the guest's answer is too large");
			return;
		}
		http_stream_consume(p->up, n);
	}
	if (http_stream_eof(p->up))
		answer_json(p);
}

static void pump_file(struct pass *p)
{
	for (;;) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->up, &b), w;

		if (n == 0)
			break;
		w = http_stream_write(p->down, b, n);
		http_stream_consume(p->up, w);
		if (w < n)
			return;
	}
	if (http_stream_eof(p->up)) {
		p->has_answered = true;
		http_stream_end(p->down);
	}
}

/* true if the client took everything that was converted. */
static bool flush_out(struct pass *p)
{
	size_t n = buf_len(&p->out);

	if (n)
		buf_consume(&p->out,
			    http_stream_write(p->down, buf_data(&p->out), n));
	return buf_len(&p->out) == 0;
}

static void pump_output(struct pass *p)
{
	struct err e = { 0 };

	while (flush_out(p)) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->up, &b);
		int r;

		if (n == 0)
			break;
		http_stream_consume(p->up, frames_feed(&p->frames, b, n));
		r = frames_take(&p->frames, &p->out, &e);
		if (r < 0) {
			fail(p, e.msg);
			return;
		}
	}
	if (buf_len(&p->out) || !http_stream_eof(p->up))
		return;
	if (buf_len(&p->frames.in)) {
		fail(p, "the guest's output ends within a frame");
		return;
	}
	p->has_answered = true;
	http_stream_end(p->down);
}

static void pump_response(struct pass *p)
{
	if (!p->up || !p->down || p->has_answered)
		return;
	switch (p->answer) {
	case ANSWER_JSON:
		pump_json(p);
		break;
	case ANSWER_FILE:
		pump_file(p);
		break;
	case ANSWER_OUTPUT:
		pump_output(p);
		break;
	case ANSWER_NONE:
		break;
	}
}

/* ---- the guest's stream ---- */

static bool is_known_status(int s)
{
	static const int known[] = { 200, 201, 204, 400, 403, 404, 405,
				     409, 410, 412, 413, 416, 422, 429,
				     500, 501, 503, 504, 507 };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == s)
			return true;
	return false;
}

static void up_on_head(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);

	touch(p);
	if (!p->down || p->has_head)
		return;
	p->status = h->status;
	if (!is_known_status(h->status)) {
		fail(p, "the guest answered with an unknown status");
	} else if (p->route.kind == ROUTE_FILE && h->status == 200) {
		bool head = strcmp(p->route.method, "HEAD") == 0;

		p->answer = ANSWER_FILE;
		respond(p, "application/octet-stream", http_head_length(h),
			!head);
		p->has_answered = head;
	} else if (p->route.kind == ROUTE_OUTPUT && h->status == 200) {
		p->answer = ANSWER_OUTPUT;
		respond(p, p->is_raw ? RAW_TYPE : "application/x-ndjson", -1,
			true);
	} else {
		p->answer = ANSWER_JSON;
	}
	pump_response(p);
}

static void up_on_body(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);

	touch(p);
	pump_response(p);
}

static void up_on_writable(struct http_stream *s)
{
	pump_request(http_stream_owner(s));
}

static void up_on_close(struct http_stream *s, const struct err *e)
{
	struct pass *p = http_stream_owner(s);

	p->up = NULL;
	if (!p->has_answered)
		fail(p, e ? "the connection to the guest's daemon broke"
			  : "the guest's answer ended early");
	/* what the client still sends is of no use */
	if (p->down && !http_stream_eof(p->down))
		http_stream_consume(
		    p->down,
		    http_stream_peek(p->down, &(const uint8_t *){ 0 }));
	maybe_free(p);
}

static const struct http_handler up_handler = { up_on_head, up_on_body,
						up_on_writable, up_on_close };

/* ---- the client's stream ---- */

static void down_on_body(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);
	const uint8_t *b;

	if (p->up && !p->has_all_body)
		pump_request(p);
	else
		http_stream_consume(s, http_stream_peek(s, &b));
}

static void down_on_writable(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);

	touch(p);
	pump_response(p);
}

static void down_on_close(struct http_stream *s, const struct err *e)
{
	struct pass *p = http_stream_owner(s);

	(void)e;
	p->down = NULL;
	if (p->up)
		http_stream_reset(p->up);
	maybe_free(p);
}

static const struct http_handler down_handler = { NULL, down_on_body,
						  down_on_writable,
						  down_on_close };

/* ---- start ---- */

static void copy_header(struct http_head *to, const struct http_head *from,
			const char *name)
{
	const char *v = http_head_get(from, name);

	if (!v || strlen(v) > 256)
		return;
	for (const char *c = v; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			return;
	http_head_add(to, name, v);
}

static void build_request(struct pass *p, const struct http_head *from,
			  struct http_head *to)
{
	static const char *const passed[] = { "content-type", "idempotency-key",
					      "traceparent" };

	http_head_init(to);
	to->method = xstrdup(p->route.method);
	to->path = xstrdup(p->route.path);
	to->authority = xstrdup("guest");
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		copy_header(to, from, passed[i]);
	if (p->route.kind == ROUTE_OUTPUT)
		http_head_add(to, "accept", RAW_TYPE);
	else
		copy_header(to, from, "accept");
}

void pass_start(struct loop *l, struct http_stream *down,
		struct http_conn *guest, struct route *route_take,
		struct list *list)
{
	struct pass *p = xnew(struct pass);
	const struct http_head *from = http_stream_head(down);
	const char *accept = http_head_get(from, "accept");
	struct http_head h;
	struct err e = { 0 };

	p->loop = l;
	p->route = *route_take;
	route_take->path = NULL;
	p->is_raw = accept && strstr(accept, RAW_TYPE);
	buf_init(&p->json, DATA_JSON_MAX);
	buf_init(&p->out, FRAME_OUT_MAX);
	frames_init(&p->frames, p->route.from, p->is_raw);
	p->has_all_body = !p->route.has_body;
	list_add_tail(list, &p->link);
	p->down = down;
	http_stream_handle(down, &down_handler, p);

	build_request(p, from, &h);
	p->up =
	    http_conn_request(guest, &h, p->route.has_body, &up_handler, p, &e);
	http_head_fini(&h);
	touch(p);
	if (!p->up) {
		p->has_head = p->has_answered = p->has_all_body = true;
		pass_refuse(down, 503, "node_unavailable", e.msg, "guest");
		return;
	}
	pump_request(p);
}

void pass_cut_all(struct list *list)
{
	struct pass *p;

	list_for_each (p, list, link)
		cut(p);
}

void pass_orphan_all(struct list *list)
{
	while (!list_empty(list))
		list_del(list->next);
}
