/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GET /v1/sandboxes/{id}/ports/{port}/tunnel: one TCP connection to the guest's
 * loopback in a WebSocket (doc/guest-protocol.md, "tunnel, to clients"). Binary
 * messages are its bytes, an empty one ends its sender's direction.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/duplex.h"
#include "api/handlers.h"
#include "api/upgrade.h"
#include "base/own.h"
#include "base/text.h"

#define MESSAGE_MAX 65536u

struct tunnel {
	struct duplex up;
	struct req *req; /* a reference */
	struct ws *ws;
	struct buf out; /* the client's bytes, not with the guest yet */
	bool down_done; /* the guest's direction ended, and was said to have */
	bool up_done;	/* the client's */
	bool closing;
};

static void tunnel_free(struct tunnel *t)
{
	struct req *r = t->req;

	r->on_revoked = NULL;
	duplex_fini(&t->up);
	buf_fini(&t->out);
	free(t);
	req_unref(r);
}

static void end_with(struct tunnel *t, unsigned code, const char *reason)
{
	if (t->closing)
		return;
	t->closing = true;
	duplex_fini(&t->up);
	ws_close(t->ws, code, reason);
}

static void on_revoked(struct req *r, const char *reason)
{
	end_with(r->state, 1008, reason);
}

static void pump_down(struct tunnel *t)
{
	const uint8_t *p;
	size_t n;

	while (!t->closing && t->up.up &&
	       (n = http_stream_peek(t->up.up, &p)) > 0) {
		n = n < MESSAGE_MAX ? n : MESSAGE_MAX;
		if (!ws_send(t->ws, false, p, n))
			return;
		http_stream_consume(t->up.up, n);
	}
	if (!t->closing && !t->down_done && t->up.up &&
	    http_stream_eof(t->up.up))
		t->down_done = ws_send(t->ws, false, "", 0);
	if (t->down_done && t->up_done && buf_len(&t->out) == 0)
		end_with(t, 1000, "");
}

static void pump_up(struct tunnel *t)
{
	size_t n = buf_len(&t->out);

	if (!t->up.up || t->closing)
		return;
	if (n)
		buf_consume(&t->out,
			    http_stream_write(t->up.up, buf_data(&t->out), n));
	n = buf_len(&t->out);
	ws_hold(t->ws, n > 0);
	if (t->up_done && n == 0) {
		http_stream_end(t->up.up);
		pump_down(t);
	}
}

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct tunnel *t = ws_owner(w);

	if (t->closing)
		return;
	if (is_text || t->up_done) {
		end_with(t, is_text ? 1003 : 1008,
			 is_text ? "messages are binary"
				 : "this direction was ended");
		return;
	}
	t->up_done = n == 0;
	buf_put(&t->out, p, n);
	pump_up(t);
}

static void on_ws_writable(struct ws *w)
{
	pump_down(ws_owner(w));
}

static void on_ws_close(struct ws *w, unsigned code, const char *reason)
{
	(void)code;
	(void)reason;
	tunnel_free(ws_owner(w));
}

static void on_up_open(struct duplex *d)
{
	static const struct ws_handler handler = {
		.on_message = on_message,
		.on_writable = on_ws_writable,
		.on_close = on_ws_close,
	};
	struct tunnel *t = container_of(d, struct tunnel, up);

	t->ws = upgrade_open(t->req, NULL, MESSAGE_MAX, &handler, t);
	t->req->state = t;
	t->req->on_revoked = on_revoked;
	pump_down(t);
}

static void on_up_body(struct duplex *d)
{
	pump_down(container_of(d, struct tunnel, up));
}

static void on_up_writable(struct duplex *d)
{
	pump_up(container_of(d, struct tunnel, up));
}

static void on_up_close(struct duplex *d, const struct err *e)
{
	struct tunnel *t = container_of(d, struct tunnel, up);

	if (!t->ws) { /* refused, and answered */
		tunnel_free(t);
		return;
	}
	if (e) {
		end_with(t, 1011, "the connection was lost");
		return;
	}
	if (!t->down_done)
		ws_send(t->ws, false, "", 0);
	end_with(t, 1000, "");
}

static bool port_of(struct req *r, int64_t *ret)
{
	struct fault f;

	if (text_int(req_param(r, "port"), 1, 65535, ret))
		return true;
	fault_set(&f, "invalid_field", "request", "name a port of the guest",
		  "port: expected an integer from 1 to 65535");
	snprintf(f.field, sizeof(f.field), "port");
	req_fault(r, &f);
	return false;
}

static void on_guest(struct req *r, const struct guest *g)
{
	static const struct duplex_ops ops = { .on_open = on_up_open,
					       .on_body = on_up_body,
					       .on_writable = on_up_writable,
					       .on_close = on_up_close };
	struct tunnel *t = xnew(struct tunnel);
	owned_str path = xasprintf("/v1/tunnel?port=%s", req_param(r, "port"));

	t->req = req_ref(r);
	buf_init(&t->out, 0); /* one message */
	duplex_start(&t->up, r, g, path, &ops);
}

void h_tunnel(struct req *r)
{
	int64_t port;

	if (port_of(r, &port) && upgrade_check(r))
		guest_find(r, req_param(r, "id"), on_guest);
}
