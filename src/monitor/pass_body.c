/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "monitor/data.h"
#include "monitor/pass-int.h"
#include "monitor/pass.h"
#include "monitor/values.h"
#include "net/json.h"

/* ---- request body: client to guest ---- */

static void too_large(struct pass *p)
{
	if (!p->has_head)
		pass_refuse(p->down, 413, "too_large",
			    "the request body is too large", "request");
	p->has_head = p->has_answered = true;
	p->has_all_body = true;
	http_stream_reset(p->up);
}

/* The guest never hears of the end, so it drops what it has. */
static void wrong_digest(struct pass *p)
{
	char message[120];

	p->has_all_body = true;
	snprintf(message, sizeof(message),
		 "the %llu bytes that arrived have another sha-256; nothing "
		 "was changed",
		 (unsigned long long)p->body_bytes);
	if (!p->has_head)
		pass_refuse_field(p->down, 400, "invalid_field", message,
				  "request", "content-digest");
	p->has_head = p->has_answered = true;
	http_stream_reset(p->up);
}

static void end_request(struct pass *p)
{
	if (p->sum)
		sum_end(p->sum, p->digest);
	if (p->asked.has_digest &&
	    memcmp(p->digest, p->asked.digest, sizeof(p->digest)) != 0) {
		wrong_digest(p);
		return;
	}
	p->has_all_body = true;
	http_stream_end(p->up);
}

static void request_raw(struct pass *p)
{
	while (p->down && p->up && !p->has_all_body) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->down, &b), w;

		if (n == 0) {
			if (http_stream_eof(p->down))
				end_request(p);
			return;
		}
		if (n > p->route.body_max - p->body_bytes) {
			too_large(p);
			return;
		}
		w = http_stream_write(p->up, b, n);
		if (p->sum)
			sum_add(p->sum, b, w);
		http_stream_consume(p->down, w);
		p->body_bytes += w;
		if (w)
			pass_touch(p);
		if (w < n)
			return;
	}
}

/* true if the other side took everything that was converted. */
static bool flush(struct pass *p, struct buf *b, struct http_stream *to)
{
	size_t n = buf_len(b), w;

	if (n == 0)
		return true;
	w = http_stream_write(to, buf_data(b), n);
	buf_consume(b, w);
	if (w)
		pass_touch(p);
	return w == n;
}

static void request_frames(struct pass *p)
{
	struct err e = { 0 };

	while (p->down && p->up && !p->has_all_body &&
	       flush(p, &p->in, p->up)) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->down, &b);

		if (n)
			http_stream_consume(p->down,
					    frames_feed(&p->input, b, n));
		else if (!http_stream_eof(p->down))
			return;
		else if (frames_is_between(&p->input)) {
			end_request(p);
			return;
		} else {
			pass_protocol(p, "the client's input ends within a "
					 "frame");
			return;
		}
		if (frames_take(&p->input, &p->in, &e) < 0) {
			pass_protocol(p, e.msg);
			return;
		}
	}
}

void pass_request(struct pass *p)
{
	if (p->route.kind == ROUTE_ATTACH)
		request_frames(p);
	else
		request_raw(p);
}

/* ---- the answer's head ---- */

static const char *type_of(const struct pass *p)
{
	switch (p->route.kind) {
	case ROUTE_OUTPUT:
		return p->frames.form == FRAMES_RAW ? PASS_FRAMES_TYPE
						    : PASS_LINES_TYPE;
	case ROUTE_ATTACH:
		return PASS_FRAMES_TYPE;
	case ROUTE_WATCH:
		return PASS_LINES_TYPE;
	case ROUTE_ARCHIVE:
		return p->route.is_zstd ? "application/zstd"
					: "application/x-tar";
	case ROUTE_FILE:
	case ROUTE_TUNNEL:
	case ROUTE_JSON:
	case ROUTE_CONSOLE:
	default:
		return "application/octet-stream";
	}
}

static void respond(struct pass *p, bool body)
{
	struct http_head h;

	http_head_init(&h);
	h.status = p->status;
	http_head_add(&h, "content-type", type_of(p));
	p->has_head = true;
	if (p->route.kind == ROUTE_TUNNEL)
		http_stream_duplex(p->down);
	http_stream_respond(p->down, &h, body);
	http_head_fini(&h);
}

/* 200, 206 and 304 of a file. */
static void respond_file(struct pass *p, const struct http_head *from)
{
	bool has_body =
	    strcmp(p->route.method, "HEAD") != 0 && p->status != 304;
	struct http_head h;
	struct err e = { 0 };
	int64_t length;
	char number[32];

	http_head_init(&h);
	h.status = p->status;
	if (fields_answer(from, &p->asked, &h, &length, &e) < 0) {
		http_head_fini(&h);
		pass_fail(p, e.msg);
		return;
	}
	if (p->status != 304) {
		snprintf(number, sizeof(number), "%lld", (long long)length);
		http_head_add(&h, "content-type", type_of(p));
		http_head_add(&h, "content-length", number);
	}
	p->answer = ANSWER_FILE;
	p->left = has_body ? (uint64_t)length : 0;
	p->has_head = true;
	p->has_answered = !has_body;
	http_stream_respond(p->down, &h, has_body && length > 0);
	p->has_answered = !has_body || length == 0;
	http_head_fini(&h);
}

/* Statuses that only an answer to the right question may have. */
static bool is_known_status(const struct pass *p, int s)
{
	static const int known[] = { 200, 201, 204, 400, 403, 404,
				     405, 409, 412, 413, 416, 422,
				     429, 500, 501, 503, 504, 507 };
	bool is_file = p->route.kind == ROUTE_FILE;

	if (s == 206)
		return is_file && p->asked.range != RANGE_NONE;
	if (s == 304)
		return is_file && p->asked.has_if_none_match;
	if (s == 502)
		return p->route.kind == ROUTE_TUNNEL;
	if (p->route.kind != ROUTE_JSON && (s == 201 || s == 204))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == s)
			return true;
	return false;
}

static enum answer answer_of(enum route_kind k)
{
	switch (k) {
	case ROUTE_OUTPUT:
	case ROUTE_ATTACH:
		return ANSWER_FRAMES;
	case ROUTE_ARCHIVE:
	case ROUTE_TUNNEL:
		return ANSWER_RAW;
	case ROUTE_WATCH:
		return ANSWER_LINES;
	case ROUTE_FILE:
		return ANSWER_FILE;
	case ROUTE_JSON:
	case ROUTE_CONSOLE:
	default:
		return ANSWER_JSON;
	}
}

void pass_head(struct pass *p, const struct http_head *h)
{
	p->status = h->status;
	p->answer = h->status < 400 ? answer_of(p->route.kind) : ANSWER_JSON;
	if (!is_known_status(p, h->status))
		pass_fail(p, "the guest answered with a status that does not "
			     "belong to this call");
	else if (p->answer == ANSWER_FILE)
		respond_file(p, h);
	else if (p->answer != ANSWER_JSON)
		respond(p, true);
}

/* ---- the answer's body: guest to client ---- */

/* A guest's error names the guest, whatever it says; it cannot speak of the
 * way to itself but for a port that nobody listens on. */
static void mark_cause(struct pass *p, json_t *v)
{
	json_t *err = json_object_get(v, "error");

	if (!json_is_object(err))
		return;
	json_set_take(err, "cause", json_string("guest"));
	if (p->status == 502)
		json_set_take(err, "code", json_string("port_closed"));
}

static void answer_unsatisfied(struct pass *p, const char *text)
{
	struct http_head h;
	struct err e = { 0 };
	int64_t length;

	http_head_init(&h);
	h.status = p->status;
	http_head_add(&h, "content-type", "application/json");
	/* of a 416 nothing can be wrong but the tag */
	fields_answer(http_stream_head(p->up), &p->asked, &h, &length, &e);
	http_stream_respond(p->down, &h, true);
	http_head_fini(&h);
	http_stream_write(p->down, text, strlen(text));
	http_stream_end(p->down);
}

/* What was stored is what was passed on: the sum is ours to tell. */
static bool set_sum(struct pass *p, json_t *v)
{
	char text[2 * SUM_BYTES + 1];

	if (!p->has_all_body || !json_is_object(v)) {
		pass_refuse(p->down, 502, "guest_error",
			    "the guest says that it has the file, and had not "
			    "all of it",
			    "guest");
		return false;
	}
	text_hex(p->digest, sizeof(p->digest), text);
	json_set_take(v, "sha256", json_string(text));
	return true;
}

static void answer_json(struct pass *p)
{
	owned_json v = NULL;
	owned_str text = NULL;
	struct err e = { 0 };

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
	if (values_check(v, &e) < 0) {
		pass_refuse(p->down, 502, "guest_error", e.msg, "guest");
		return;
	}
	if (p->status >= 400)
		mark_cause(p, v);
	else if (p->sum && !set_sum(p, v))
		return;
	text = json_text(v);
	if (p->status == 416 && p->route.kind == ROUTE_FILE)
		answer_unsatisfied(p, text);
	else
		http_stream_reply(p->down, p->status, "application/json", text,
				  strlen(text));
}

static void pump_json(struct pass *p)
{
	const uint8_t *b;
	size_t n;

	while ((n = http_stream_peek(p->up, &b)) > 0) {
		if (buf_put(&p->json, b, n) < 0) {
			pass_fail(p, "the guest's answer is too large");
			return;
		}
		http_stream_consume(p->up, n);
	}
	if (http_stream_eof(p->up))
		answer_json(p);
}

static void end_answer(struct pass *p)
{
	p->has_answered = true;
	http_stream_end(p->down);
}

static void pump_raw(struct pass *p)
{
	for (;;) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->up, &b), w;

		if (n == 0)
			break;
		if (p->answer == ANSWER_FILE && n > p->left) {
			pass_fail(p, "the guest sent more bytes than it "
				     "promised");
			return;
		}
		w = http_stream_write(p->down, b, n);
		http_stream_consume(p->up, w);
		p->left -= p->answer == ANSWER_FILE ? w : 0;
		if (w)
			pass_touch(p);
		if (w < n)
			return;
	}
	if (!http_stream_eof(p->up))
		return;
	if (p->answer == ANSWER_FILE && p->left)
		pass_fail(p, "the guest's answer ended early");
	else
		end_answer(p);
}

/* Bytes of the guest into whichever form; -EBADMSG as frames_take(). */
static int convert(struct pass *p, const uint8_t *b, size_t n, struct err *e)
{
	if (p->answer == ANSWER_LINES) {
		http_stream_consume(p->up, lines_feed(&p->lines, b, n));
		return lines_take(&p->lines, &p->out, e);
	}
	http_stream_consume(p->up, frames_feed(&p->frames, b, n));
	return frames_take(&p->frames, &p->out, e);
}

static void pump_converted(struct pass *p)
{
	struct err e = { 0 };

	while (flush(p, &p->out, p->down)) {
		const uint8_t *b;
		size_t n = http_stream_peek(p->up, &b);

		if (n == 0)
			break;
		if (convert(p, b, n, &e) < 0) {
			pass_fail(p, e.msg);
			return;
		}
	}
	if (buf_len(&p->out) || !http_stream_eof(p->up))
		return;
	if (!frames_is_between(&p->frames) || !lines_is_between(&p->lines)) {
		pass_fail(p, "the guest's answer ends within a frame");
		return;
	}
	end_answer(p);
}

void pass_response(struct pass *p)
{
	if (p->has_answered) {
		/* our own last word may still wait */
		if (p->down && buf_len(&p->out) && flush(p, &p->out, p->down))
			http_stream_end(p->down);
		return;
	}
	if (!p->up || !p->down)
		return;
	switch (p->answer) {
	case ANSWER_JSON:
		pump_json(p);
		break;
	case ANSWER_FILE:
	case ANSWER_RAW:
		pump_raw(p);
		break;
	case ANSWER_FRAMES:
	case ANSWER_LINES:
		pump_converted(p);
		break;
	case ANSWER_NONE:
		break;
	}
}
