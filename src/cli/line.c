/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line.h"

#include <string.h>

#include "base/own.h"
#include "cli/wire.h"

struct line {
	struct loop *loop;
	struct wire *wire;
	struct http_conn *conn;
	struct ws *ws;
	struct loop_timer deadline; /* of opening */
	struct http_head head;
	char *subprotocol;
	size_t max;
	const struct line_ops *ops;
	void *arg;
	bool ended;
};

struct line *line_free(struct line *n)
{
	struct http_conn *c;

	if (!n)
		return NULL;
	n->ended = true;
	loop_timer_del(&n->deadline);
	n->ws = ws_free(n->ws);
	c = TAKE(n->conn);
	http_conn_free(c);
	wire_free(n->wire);
	http_head_fini(&n->head);
	free(n->subprotocol);
	free(n);
	return NULL;
}

static void end(struct line *n, const struct fault *f, const struct err *e)
{
	if (n->ended)
		return;
	n->ended = true;
	loop_timer_del(&n->deadline);
	n->ops->on_end(n->arg, f, e);
}

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct line *line = ws_owner(w);

	if (!line->ended)
		line->ops->on_message(line->arg, is_text, p, n);
}

static void on_writable(struct ws *w)
{
	struct line *n = ws_owner(w);

	if (!n->ended)
		n->ops->on_writable(n->arg);
}

static void on_close(struct ws *w, unsigned code, const char *reason)
{
	struct line *n = ws_owner(w);
	struct err e = { 0 };

	n->ws = NULL;
	err_set(&e, -ECONNRESET, ERR_UNAVAILABLE, "connection closed (%u%s%s)",
		code, reason && *reason ? ": " : "", reason ? reason : "");
	end(n, NULL, &e);
}

static const struct ws_handler ws_handler = { .on_message = on_message,
					      .on_writable = on_writable,
					      .on_close = on_close };

static void on_opened(void *arg, struct ws *w, int status, const char *body,
		      size_t size, const struct err *e)
{
	struct line *n = arg;
	struct fault f;

	if (w) {
		n->ws = w;
		loop_timer_del(&n->deadline);
		n->ops->on_open(n->arg);
		return;
	}
	if (status > 0) {
		fault_parse(status, body, size, &f);
		end(n, &f, NULL);
	} else {
		end(n, NULL, e);
	}
}

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	struct line *n = http_conn_owner(c);
	struct err lost = { 0 };

	n->conn = NULL;
	if (!e)
		err_set(&lost, -ECONNRESET, ERR_UNAVAILABLE,
			"connection closed");
	/* an open ws tells its own end */
	if (!n->ws)
		end(n, NULL, e ? e : &lost);
}

static const struct http_conn_ops conn_ops = { .on_close = on_conn_close };

static void on_wire(void *arg, int fd, const struct err *e)
{
	static const struct http_limits limits = { .idle_timeout_ms =
						       UINT64_MAX };
	struct line *n = arg;
	struct err why = { 0 };

	if (fd < 0) {
		end(n, NULL, e);
		return;
	}
	n->conn =
	    http_conn_client_take(n->loop, fd, HTTP_1_1, &limits, &conn_ops, n);
	if (ws_client_open(n->loop, n->conn, &n->head, n->subprotocol, n->max,
			   &ws_handler, n, on_opened, n, &why) < 0)
		end(n, NULL, &why);
}

static void on_deadline(struct loop_timer *t)
{
	struct line *n = container_of(t, struct line, deadline);
	struct err e = { 0 };

	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the server did not answer within %u s", LINE_OPEN_MS / 1000);
	end(n, NULL, &e);
}

struct line *line_open(struct loop *l, const struct context *ctx,
		       const char *path, const char *token,
		       const char *subprotocol, size_t max,
		       const struct line_ops *ops, void *arg)
{
	struct line *n = xnew(struct line);
	const char *url = *ctx->data_url ? ctx->data_url : ctx->url;
	owned_str auth = xasprintf("Bearer %s", token ? token : ctx->key);

	n->loop = l;
	n->ops = ops;
	n->arg = arg;
	n->max = max;
	n->subprotocol = subprotocol ? xstrdup(subprotocol) : NULL;
	http_head_init(&n->head);
	n->head.method = xstrdup("GET");
	n->head.path = xstrdup(path);
	n->head.authority = xstrdup(strstr(url, "://") + 3);
	n->head.authority[strcspn(n->head.authority, "/")] = '\0';
	/* a token that a server made up shall not become a second header */
	auth[strcspn(auth, "\r\n")] = '\0';
	http_head_add(&n->head, "user-agent", "caisson-cli");
	http_head_add(&n->head, "authorization", auth);
	loop_timer_set(l, &n->deadline, LINE_OPEN_MS, on_deadline);
	n->wire = wire_open(l, url, LINE_OPEN_MS, on_wire, n);
	return n;
}

bool line_send(struct line *n, const void *p, size_t size)
{
	return !n || !n->ws || ws_send(n->ws, false, p, size);
}

void line_hold(struct line *n, bool hold)
{
	if (n && n->ws)
		ws_hold(n->ws, hold);
}

void line_close(struct line *n)
{
	if (n && n->ws)
		ws_close(n->ws, 1000, "");
}
