/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GET /v1/execs/{ex}/attach: a client's WebSocket on one side, the guest's
 * frames on the other. Frames are checked and re-headed, nothing else: order,
 * offsets and the exit fact are the guest's. Pressure passes: a client that
 * does not read is not read for, one whose input the guest does not take is not
 * read from. What breaks on our side of the guest is said as such (closing
 * interrupted, 1012), never as the end of the process.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/duplex.h"
#include "api/frame.h"
#include "api/handlers.h"
#include "api/upgrade.h"
#include "base/own.h"
#include "net/json.h"

#define SILENT_MS 60000u /* the guest says something every 15 s */

struct attach {
	struct duplex up;
	struct req *req; /* a reference */
	struct ws *ws;
	struct loop_timer timer; /* the guest's next sign of life */
	struct buf in;		 /* from the guest, not with the client yet */
	struct buf out;		 /* a client's frame, not with the guest yet */
	bool blocked;		 /* the client does not take what waits */
	bool watch;
	bool said;    /* exit or closing went to the client */
	bool ended;   /* nothing more comes from the guest */
	bool closing; /* the close frame is under way */
};

static void attach_free(struct attach *a)
{
	struct req *r = a->req;

	r->on_revoked = NULL;
	loop_timer_del(&a->timer);
	duplex_fini(&a->up);
	buf_fini(&a->in);
	buf_fini(&a->out);
	free(a);
	req_unref(r);
}

/* ---- the end ---- */

static bool send_closing(struct attach *a, const char *reason, bool retry)
{
	struct frame f = { .type = EXEC_CLOSING };
	owned_str json = xasprintf("{\"reason\":\"%s\",\"retry\":%s}", reason,
				   retry ? "true" : "false");
	uint8_t head[FRAME_MESSAGE_HEAD];
	struct buf b;
	bool sent;

	frame_message_head(&f, head);
	buf_init(&b, 0);
	buf_put(&b, head, sizeof(head));
	buf_puts(&b, json);
	sent = ws_send(a->ws, false, buf_data(&b), buf_len(&b));
	buf_fini(&b);
	return sent;
}

/* Our own end: at once, whatever is queued for the client. */
static void end_with(struct attach *a, const char *reason, unsigned code)
{
	if (a->closing)
		return;
	a->closing = true;
	loop_timer_del(&a->timer);
	duplex_fini(&a->up);
	if (!a->said)
		send_closing(a, reason, false);
	ws_close(a->ws, code, reason);
}

/* The guest's end, once the client has all that came before. */
static void finish(struct attach *a)
{
	if (a->closing)
		return;
	if (!a->said && !send_closing(a, "interrupted", true))
		return; /* on_ws_writable() comes back */
	a->closing = true;
	ws_close(a->ws, a->said ? 1000 : 1012, a->said ? "" : "interrupted");
}

static void on_revoked(struct req *r, const char *reason)
{
	end_with(r->state, reason, 1008);
}

static void on_silent(struct loop_timer *t)
{
	struct attach *a = container_of(t, struct attach, timer);

	duplex_fini(&a->up);
	a->ended = true;
	finish(a);
}

/* ---- from the guest to the client ---- */

/* One frame as a message; false: no room, nothing taken. */
static bool pass_frame(struct attach *a, const struct frame *f)
{
	/* the inner head is longer: the outer one is written over its end */
	uint8_t *message =
	    (uint8_t *)(uintptr_t)f->payload - FRAME_MESSAGE_HEAD;
	uint8_t inner[FRAME_MESSAGE_HEAD];

	memcpy(inner, message, sizeof(inner));
	frame_message_head(f, message);
	if (!ws_send(a->ws, false, message, f->n + FRAME_MESSAGE_HEAD)) {
		memcpy(message, inner, sizeof(inner));
		return false;
	}
	if (f->type == EXEC_EXIT || f->type == EXEC_CLOSING)
		a->said = true;
	return true;
}

/* All whole frames that there is room for. false: this is no such stream. */
static bool pass_frames(struct attach *a)
{
	struct frame f;
	ptrdiff_t n;

	a->blocked = false;
	while ((n = frame_from_guest(buf_data(&a->in), buf_len(&a->in), &f)) >
	       0) {
		a->blocked = !pass_frame(a, &f);
		if (a->blocked)
			return true;
		buf_consume(&a->in, (size_t)n);
	}
	if (n < 0 || (a->ended && buf_len(&a->in) > 0)) {
		buf_clear(&a->in);
		a->said = false;
		return false;
	}
	return true;
}

static void pump_down(struct attach *a)
{
	const uint8_t *p;
	size_t n;

	while (!a->closing) {
		if (!pass_frames(a)) {
			duplex_fini(&a->up);
			a->ended = true;
		}
		if (!a->up.up || a->blocked)
			break;
		n = http_stream_peek(a->up.up, &p);
		if (!n)
			break;
		buf_put(&a->in, p, n);
		http_stream_consume(a->up.up, n);
	}
	if (a->ended && buf_len(&a->in) == 0)
		finish(a);
	/* only silence that is the guest's counts */
	if (a->up.up && !a->blocked && !a->closing)
		loop_timer_set(a->req->api->loop, &a->timer, SILENT_MS,
			       on_silent);
	else
		loop_timer_del(&a->timer);
}

static void on_up_body(struct duplex *d)
{
	pump_down(container_of(d, struct attach, up));
}

static void on_ws_writable(struct ws *w)
{
	pump_down(ws_owner(w));
}

/* ---- from the client to the guest ---- */

static void pump_up(struct attach *a)
{
	size_t n = buf_len(&a->out);

	if (!a->up.up)
		return;
	if (n)
		buf_consume(&a->out,
			    http_stream_write(a->up.up, buf_data(&a->out), n));
	ws_hold(a->ws, buf_len(&a->out) > 0);
}

static void on_up_writable(struct duplex *d)
{
	pump_up(container_of(d, struct attach, up));
}

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct attach *a = ws_owner(w);
	uint8_t head[EXEC_FRAME_HEADER];
	struct frame f = { 0 };
	const char *wrong = is_text ? "messages are binary"
				    : frame_from_client(p, n, a->watch, &f);

	if (a->closing || !a->up.up)
		return;
	if (wrong) {
		a->said = false;
		send_closing(a, "protocol", false);
		a->said = true;
		end_with(a, wrong, 1008);
		return;
	}
	frame_head(&f, head);
	buf_put(&a->out, head, sizeof(head));
	buf_put(&a->out, f.payload, f.n);
	pump_up(a);
}

static void on_ws_close(struct ws *w, unsigned code, const char *reason)
{
	(void)code;
	(void)reason;
	attach_free(ws_owner(w));
}

/* ---- opening ---- */

static void on_up_open(struct duplex *d)
{
	static const struct ws_handler handler = {
		.on_message = on_message,
		.on_writable = on_ws_writable,
		.on_close = on_ws_close,
	};
	struct attach *a = container_of(d, struct attach, up);

	a->ws = upgrade_open(a->req, "caisson.exec.v1", FRAME_MESSAGE_MAX,
			     &handler, a);
	/* the request goes on as the holder of the right to be here */
	a->req->state = a;
	a->req->on_revoked = on_revoked;
	pump_down(a);
}

static void on_up_close(struct duplex *d, const struct err *e)
{
	struct attach *a = container_of(d, struct attach, up);

	if (!a->ws) { /* refused, and answered */
		attach_free(a);
		return;
	}
	loop_timer_del(&a->timer);
	a->ended = true;
	(void)e; /* what counts is whether exit or closing came */
	pump_down(a);
}

static void on_guest(struct req *r, const struct guest *g)
{
	static const struct duplex_ops ops = { .on_open = on_up_open,
					       .on_body = on_up_body,
					       .on_writable = on_up_writable,
					       .on_close = on_up_close };
	struct attach *a = xnew(struct attach);
	owned_str path = NULL;
	int64_t from = 0, watch = 0;

	if (!req_query_int(r, "from", 0, INT64_MAX, 0, &from) ||
	    !req_query_int(r, "watch", 0, 1, 0, &watch)) {
		free(a);
		return;
	}
	a->req = req_ref(r);
	a->watch = watch != 0;
	/* each holds one item, whose size its peer's side has bounded */
	buf_init(&a->in, 0);
	buf_init(&a->out, 0);
	path = xasprintf("/v1/execs/%s/attach?from=%" PRId64 "&watch=%" PRId64,
			 req_param(r, "ex"), from, watch);
	duplex_start(&a->up, r, g, path, &ops);
}

/* Who may only look may only watch. */
static bool may_write(struct req *r, int64_t watch)
{
	struct fault f;

	if (watch || (r->who.role >= ROLE_DEVELOPER && !r->who.scope.watch))
		return true;
	fault_set(&f, "role_required", "policy", "attach with watch=1",
		  r->who.scope.watch ? "this token may only watch"
				     : "a viewer may only watch");
	req_fault(r, &f);
	return false;
}

void h_exec_attach(struct req *r)
{
	char sandbox[23];
	int64_t from, watch;
	struct fault f;

	if (!req_query_int(r, "from", 0, INT64_MAX, 0, &from) ||
	    !req_query_int(r, "watch", 0, 1, 0, &watch) ||
	    !may_write(r, watch) || !upgrade_check(r))
		return;
	if (guest_of_exec(req_param(r, "ex"), sandbox)) {
		guest_find(r, sandbox, on_guest);
		return;
	}
	fault_set(&f, "not_found", "request",
		  "GET /v1/sandboxes/{id}/execs lists them", "no such exec");
	req_fault(r, &f);
}
