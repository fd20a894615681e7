/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/pass.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "monitor/data.h"
#include "monitor/pass-int.h"
#include "net/json.h"

/* How often the clock is looked at. */
#define CHECK_MS 5000u

uint64_t pass_silence_divisor = 1;

/* ---- refusals ---- */

void pass_refuse(struct http_stream *down, int status, const char *code,
		 const char *message, const char *cause)
{
	pass_refuse_field(down, status, code, message, cause, NULL);
}

void pass_refuse_field(struct http_stream *down, int status, const char *code,
		       const char *message, const char *cause,
		       const char *field)
{
	owned_json doc = json_object();
	json_t *err = json_object();
	owned_str text = NULL;

	json_set_take(err, "code", json_string(code));
	json_set_take(err, "message", json_str_lossy(message, strlen(message)));
	json_set_take(err, "cause", json_string(cause));
	if (field)
		json_set_take(err, "field", json_string(field));
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

void pass_fail(struct pass *p, const char *message)
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

void pass_protocol(struct pass *p, const char *message)
{
	p->has_all_body = true;
	if (p->up)
		http_stream_reset(p->up);
	if (!p->down || p->has_answered)
		return;
	p->has_answered = true;
	if (!p->has_head) {
		p->has_head = true;
		pass_refuse(p->down, 400, "invalid_field", message, "request");
		return;
	}
	frames_put_closing(&p->frames, "protocol", false, &p->out);
	pass_response(p);
}

static void maybe_free(struct pass *p)
{
	if (p->down || p->up)
		return;
	list_del(&p->link);
	loop_timer_del(&p->silence);
	route_fini(&p->route);
	frames_fini(&p->frames);
	frames_fini(&p->input);
	lines_fini(&p->lines);
	sum_free(p->sum);
	buf_fini(&p->json);
	buf_fini(&p->in);
	buf_fini(&p->out);
	free(p);
}

/* ---- silence ---- */

static void on_check(struct loop_timer *t);

static void arm(struct pass *p)
{
	uint64_t ms = CHECK_MS / pass_silence_divisor;

	loop_timer_set(p->loop, &p->silence, ms ? ms : 1, on_check);
}

void pass_touch(struct pass *p)
{
	p->moved_ms = loop_now_ms(p->loop);
}

/* Whose turn is it? The one who waits for a client that does not read gives him
 * up late, the one who waits for the guest soon, unless the call may take its
 * time. */
static bool is_clients_turn(const struct pass *p)
{
	bool duplex =
	    p->route.kind == ROUTE_ATTACH || p->route.kind == ROUTE_TUNNEL;

	if (!p->down)
		return false;
	if (buf_len(&p->out) || p->has_answered ||
	    (p->has_head && http_stream_room(p->down) == 0))
		return true;
	return !duplex && !p->has_all_body && p->up &&
	       http_stream_room(p->up) > 0;
}

static uint64_t guests_time(const struct pass *p)
{
	if (p->route.kind == ROUTE_TUNNEL && p->has_head && p->down)
		return 0; /* TCP may be idle; the channel's pings find death */
	return p->route.silence_ms;
}

static void on_check(struct loop_timer *t)
{
	struct pass *p = container_of(t, struct pass, silence);
	bool clients = is_clients_turn(p);
	uint64_t limit = clients ? PASS_STALL_MS : guests_time(p);

	arm(p);
	if (limit == 0 ||
	    loop_now_ms(p->loop) - p->moved_ms < limit / pass_silence_divisor)
		return;
	if (clients) {
		log_info("client_stalled", "call=%s", p->route.method);
		cut(p);
	} else {
		pass_fail(p, "the guest's daemon did not answer in time");
	}
}

/* ---- the guest's stream ---- */

static void up_on_head(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);

	pass_touch(p);
	if (!p->down || p->has_head)
		return;
	pass_head(p, http_stream_head(s));
	pass_response(p);
}

static void up_on_body(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);

	pass_touch(p);
	pass_response(p);
}

static void up_on_writable(struct http_stream *s)
{
	pass_request(http_stream_owner(s));
}

/* The way to the guest broke under a stream of frames: the exec goes on, and
 * the client may come back to where he is. */
static bool tell_broken(struct pass *p)
{
	if (p->answer != ANSWER_FRAMES || p->has_answered || !p->down ||
	    !p->has_head || p->frames.has_ended)
		return false;
	p->has_answered = p->has_all_body = true;
	frames_put_closing(&p->frames, "disconnected", true, &p->out);
	pass_response(p);
	return true;
}

static void up_on_close(struct http_stream *s, const struct err *e)
{
	struct pass *p = http_stream_owner(s);

	p->up = NULL;
	if (e && tell_broken(p))
		log_debug("guest_stream_broke", "why=%s", e->msg);
	else if (!p->has_answered)
		pass_fail(p, e ? "the connection to the guest's daemon broke"
			       : "the guest's answer ended early");
	else if (e && p->down && p->route.kind == ROUTE_TUNNEL)
		http_stream_reset(p->down); /* as TCP would */
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
		pass_request(p);
	else
		http_stream_consume(s, http_stream_peek(s, &b));
}

static void down_on_writable(struct http_stream *s)
{
	struct pass *p = http_stream_owner(s);

	pass_touch(p);
	pass_response(p);
}

static void down_on_close(struct http_stream *s, const struct err *e)
{
	struct pass *p = http_stream_owner(s);
	/* a tunnel's last bytes are still on their way to the guest */
	bool lets_end = !e && p->route.kind == ROUTE_TUNNEL && p->has_all_body;

	p->down = NULL;
	if (p->up && !lets_end)
		http_stream_reset(p->up);
	maybe_free(p);
}

static const struct http_handler down_handler = { NULL, down_on_body,
						  down_on_writable,
						  down_on_close };

/* ---- start ---- */

/* So that a full disk is told before the upload. */
static void add_length(const struct pass *p, const struct http_head *from,
		       struct http_head *to)
{
	int64_t length = http_head_length(from);
	char number[24];

	if (!p->route.has_body || length < 0)
		return;
	snprintf(number, sizeof(number), "%lld", (long long)length);
	http_head_add(to, "content-length", number);
}

static int build_request(struct pass *p, const struct http_head *from,
			 struct http_head *to, struct err *e)
{
	int r;

	http_head_init(to);
	to->method = xstrdup(p->route.method);
	to->path = xstrdup(p->route.path);
	to->authority = xstrdup("guest");
	if (p->route.kind == ROUTE_OUTPUT || p->route.kind == ROUTE_ATTACH)
		http_head_add(to, "accept", PASS_FRAMES_TYPE);
	r = fields_ask(from, p->route.fields, to, &p->asked, e);
	if (p->sum)
		http_head_add(to, "sum-by", "host");
	add_length(p, from, to);
	if (r < 0)
		http_head_fini(to);
	return r;
}

static struct pass *pass_new(struct loop *l, struct http_stream *down,
			     struct route *route_take)
{
	struct pass *p = xnew(struct pass);
	const char *accept = http_head_get(http_stream_head(down), "accept");
	bool is_raw = route_take->kind == ROUTE_ATTACH ||
		      (accept && strstr(accept, PASS_FRAMES_TYPE));

	p->loop = l;
	p->route = *route_take;
	route_take->path = NULL;
	buf_init(&p->json, DATA_JSON_MAX);
	buf_init(&p->out, FRAME_OUT_MAX);
	buf_init(&p->in, FRAME_OUT_MAX);
	frames_init(&p->frames, p->route.from,
		    is_raw ? FRAMES_RAW : FRAMES_LINES);
	frames_init(&p->input, 0, FRAMES_CLIENT);
	lines_init(&p->lines);
	if (p->route.fields & ROUTE_DIGEST)
		p->sum = sum_new();
	p->has_all_body = !p->route.has_body;
	p->down = down;
	return p;
}

void pass_start(struct loop *l, struct http_stream *down,
		struct http_conn *guest, struct route *route_take,
		struct list *list)
{
	struct pass *p = pass_new(l, down, route_take);
	struct http_head h;
	struct err e = { 0 };

	list_add_tail(list, &p->link);
	http_stream_handle(down, &down_handler, p);
	pass_touch(p);
	arm(p);
	if (build_request(p, http_stream_head(down), &h, &e) < 0) {
		p->has_head = p->has_answered = p->has_all_body = true;
		pass_refuse_field(down, p->asked.bad_status,
				  p->asked.bad_status == 416 ? "offset_gone"
							     : "invalid_field",
				  e.msg, "request", p->asked.bad_field);
		return;
	}
	p->up =
	    http_conn_request(guest, &h, p->route.has_body, &up_handler, p, &e);
	http_head_fini(&h);
	if (!p->up) {
		p->has_head = p->has_answered = p->has_all_body = true;
		pass_refuse(down, 503, "node_unavailable", e.msg, "guest");
		return;
	}
	pass_request(p);
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
