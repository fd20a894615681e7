/* SPDX-License-Identifier: Apache-2.0 */
#include "api/test-ws.h"

#include <stdio.h>
#include <string.h>

#include "api/frame.h"
#include "base/check.h"
#include "base/own.h"

static void on_frame(struct wsc *c, const uint8_t *p, size_t n)
{
	uint64_t offset = 0;
	size_t k = strlen(c->types);

	CHECK(n >= 9);
	for (unsigned i = 1; i < 9; i++)
		offset = offset << 8 | p[i];
	if (k < sizeof(c->types) - 3 &&
	    !(frame_is_output(p[0]) && k >= 2 &&
	      strncmp(c->types + k - 2, "01", 2) == 0))
		snprintf(c->types + k, sizeof(c->types) - k, "%02x", p[0]);
	buf_clear(&c->last);
	buf_put(&c->last, p + 9, n - 9);
	if (!frame_is_output(p[0]))
		return;
	c->in_order = c->in_order && offset == c->end;
	c->end = offset + n - 9;
	if (buf_len(&c->output) < (1 << 20))
		buf_put(&c->output, p + 9, n - 9);
}

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct wsc *c = ws_owner(w);

	CHECK(!is_text);
	c->n_messages++;
	if (!c->raw) {
		on_frame(c, p, n);
		return;
	}
	buf_put(&c->output, p, n);
	if (n == 0)
		c->end = 1; /* the other direction has ended */
}

static void on_ws_close(struct ws *w, unsigned code, const char *reason)
{
	struct wsc *c = ws_owner(w);

	(void)reason;
	c->closed = true;
	c->code = code;
	c->ws = NULL;
}

static void on_opened(void *arg, struct ws *w, int status, const char *body,
		      size_t n, const struct err *e)
{
	struct wsc *c = arg;

	(void)e;
	c->ws = w;
	c->status = status;
	c->answered = true;
	if (!w && body)
		snprintf(c->body, sizeof(c->body), "%.*s", (int)n, body);
}

static void on_conn_close(struct http_conn *conn, const struct err *e)
{
	struct wsc *c = http_conn_owner(conn);

	(void)e;
	c->conn = NULL;
}

void wsc_open(struct wsc *c, const char *path, const char *key,
	      const char *protocols, const char *host)
{
	static const struct http_conn_ops ops = { .on_close = on_conn_close };
	static const struct ws_handler h = { .on_message = on_message,
					     .on_close = on_ws_close };
	owned_str auth = key ? xasprintf("Bearer %s", key) : NULL;
	struct http_head head;

	*c = (struct wsc){ .in_order = true,
			   .raw = strstr(path, "/tunnel") || host };
	buf_init(&c->output, 0);
	buf_init(&c->last, 0);
	c->conn = http_conn_client_take(rig_loop, rig_socket(true), HTTP_1_1,
					NULL, &ops, c);
	http_head_init(&head);
	head.method = xstrdup("GET");
	head.path = xstrdup(path);
	head.authority = xstrdup(host ? host : "localhost");
	if (auth)
		http_head_add(&head, "authorization", auth);
	CHECK(ws_client_open(rig_loop, c->conn, &head, protocols, 1 << 20, &h,
			     c, on_opened, c, NULL) == 0);
	http_head_fini(&head);
	for (int i = 0; i < 3000 && !c->answered; i++)
		loop_once(rig_loop, 10);
	T_TRUE(c->answered);
}

void wsc_close(struct wsc *c)
{
	if (c->ws)
		ws_free(c->ws);
	if (c->conn)
		http_conn_free(c->conn);
	buf_fini(&c->output);
	buf_fini(&c->last);
}

void wsc_put(struct wsc *c, uint8_t type, uint64_t offset, const char *payload)
{
	uint8_t m[512] = { type };
	size_t n = strlen(payload);

	CHECK(n < sizeof(m) - 9);
	for (unsigned i = 0; i < 8; i++)
		m[1 + i] = (uint8_t)(offset >> (56 - 8 * i));
	memcpy(m + 9, payload, n);
	CHECK(ws_send(c->ws, false, m, 9 + n));
}
