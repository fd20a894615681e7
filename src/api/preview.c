/* SPDX-License-Identifier: Apache-2.0 */
#include "api/preview.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/auth.h"
#include "api/bridge.h"
#include "api/duplex.h"
#include "api/node.h"
#include "api/preview-head.h"
#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

#define HEAD_MS 600000u /* for the guest's server to answer */

struct preview {
	struct req *req; /* a reference */
	uint16_t port;
	char id[23];
	char *tenant, *project, *node;
	struct duplex up;     /* the tunnel */
	struct bridge bridge; /* its bytes, to the socket of … */
	struct http_conn *conn;
	struct http_stream *s; /* … the request to the guest's server */
	struct loop_timer timer;
	struct fault down; /* why the sandbox cannot be reached; code NULL */
	bool open;	   /* the tunnel was */
	bool begun;	   /* our answer's head is out */
	bool raw;	   /* protocols were switched */
	bool up_done;	   /* the client's bytes are all on their way */
};

static void preview_free(struct preview *p)
{
	struct req *r = p->req;

	r->on_body = r->on_writable = r->on_close = NULL;
	r->state = NULL;
	loop_timer_del(&p->timer);
	if (p->s)
		duplex_abandon(p->s);
	if (p->conn)
		http_conn_free(p->conn);
	bridge_end(&p->bridge);
	duplex_fini(&p->up);
	free(p->tenant);
	free(p->project);
	free(p->node);
	free(p);
	req_unref(r);
}

/* ---- refusals ---- */

static void no_such_sandbox(struct req *r)
{
	struct fault f;

	fault_set(&f, "not_found", "request",
		  "`caisson ls -a` shows what there is", "no such sandbox");
	req_fault(r, &f);
}

static void refuse(struct preview *p, const char *code, const char *cause,
		   const char *remedy, const char *message)
{
	struct fault f;

	fault_set(&f, code, cause, remedy, "%s", message);
	req_fault(p->req, &f);
	preview_free(p);
}

/* The guest's server broke off, or never spoke HTTP. */
static void broken(struct preview *p)
{
	if (!p->begun) {
		refuse(p, "port_closed", "guest",
		       "look at the server in the sandbox: it closed the "
		       "connection, or what it said is not HTTP/1.1",
		       "the server on that port gave no answer");
		return;
	}
	if (p->req->stream)
		http_stream_reset(p->req->stream);
	preview_free(p);
}

/* ---- bytes ---- */

static void pump_up(struct preview *p)
{
	struct http_stream *c = p->req->stream;
	const uint8_t *bytes;
	size_t n, took;

	/* before the switch there is no body, and what comes is not for HTTP */
	if (!c || !p->s || p->up_done)
		return;
	n = http_stream_peek(c, &bytes);
	took = n ? http_stream_write(p->s, bytes, n) : 0;
	http_stream_consume(c, took);
	if (!http_stream_eof(c))
		return;
	p->up_done = true;
	http_stream_end(p->s);
}

static void pump_down(struct preview *p)
{
	const uint8_t *bytes;
	size_t n;

	if (!p->begun || !p->s || !p->req->stream)
		return;
	n = http_stream_peek(p->s, &bytes);
	if (n)
		http_stream_consume(
		    p->s, http_stream_write(p->req->stream, bytes, n));
	if (p->raw && http_stream_eof(p->s))
		http_stream_end(p->req->stream);
}

static void on_client_body(struct req *r)
{
	struct preview *p = r->state;

	if (!http_stream_upgrade(r->stream) || p->raw)
		pump_up(p);
}

static void on_client_writable(struct req *r)
{
	pump_down(r->state);
}

static void on_client_close(struct req *r)
{
	preview_free(r->state);
}

/* ---- the answer of the guest's server ---- */

static bool has_body(const struct preview *p, const struct http_head *h)
{
	return strcmp(http_stream_head(p->req->stream)->method, "HEAD") != 0 &&
	       h->status != 204 && h->status != 304 && http_head_length(h) != 0;
}

static void on_head(struct http_stream *s)
{
	struct preview *p = http_stream_owner(s);
	const struct http_head *from = http_stream_head(s);
	struct http_stream *c = p->req->stream;
	struct http_head head;

	loop_timer_del(&p->timer);
	preview_response(from, &head);
	p->begun = true;
	p->req->replied = true;
	p->req->status = from->status;
	if (from->status == 101) {
		p->raw = true;
		http_stream_switch(c, &head);
		pump_up(p);
	} else {
		http_stream_respond(c, &head, has_body(p, from));
	}
	http_head_fini(&head);
	pump_down(p);
}

static void on_body(struct http_stream *s)
{
	pump_down(http_stream_owner(s));
}

static void on_writable(struct http_stream *s)
{
	pump_up(http_stream_owner(s));
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct preview *p = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);

	p->s = NULL;
	if (e || !h) {
		broken(p);
		return;
	}
	/* without a body our head ended the stream already */
	if (p->req->stream && !p->raw && has_body(p, h))
		http_stream_end(p->req->stream);
	preview_free(p);
}

static void on_head_late(struct loop_timer *t)
{
	struct preview *p = container_of(t, struct preview, timer);

	if (p->s)
		http_stream_reset(p->s); /* on_close() goes on */
}

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	struct preview *p = http_conn_owner(c);

	(void)e;
	p->conn = NULL;
}

/* ---- asking ---- */

static int ask(struct preview *p)
{
	static const struct http_handler handler = { .on_head = on_head,
						     .on_body = on_body,
						     .on_writable = on_writable,
						     .on_close = on_close };
	const struct http_head *from = http_stream_head(p->req->stream);
	const char *upgrade = http_stream_upgrade(p->req->stream);
	bool body = !upgrade && !http_stream_eof(p->req->stream);
	struct http_head head;
	struct err e = { 0 };
	char peer[REQ_PEER];

	req_peer(p->req, peer);
	preview_request(from, peer, &head);
	http_head_add(&head, "traceparent", p->req->traceparent);
	p->s = upgrade
		   ? http_conn_switch(p->conn, &head, upgrade, &handler, p, &e)
		   : http_conn_request(p->conn, &head, body, &handler, p, &e);
	http_head_fini(&head);
	if (!p->s)
		return -1;
	p->up_done = !body && !upgrade;
	return 0;
}

static void on_tunnel_open(struct duplex *d)
{
	static const struct http_conn_ops ops = { .on_close = on_conn_close };
	struct preview *p = container_of(d, struct preview, up);
	struct req *r = p->req;
	int fds[2];

	p->open = true;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       fds) < 0) {
		refuse(p, "capacity", "capacity", "repeat the call",
		       "no more connections can be opened now");
		return;
	}
	bridge_begin_take(&p->bridge, r->api->loop, d->up, fds[0]);
	p->conn = http_conn_client_take(r->api->loop, fds[1], HTTP_1_1, NULL,
					&ops, p);
	r->state = p;
	r->on_body = on_client_body;
	r->on_writable = on_client_writable;
	r->on_close = on_client_close;
	if (ask(p) < 0) {
		broken(p);
		return;
	}
	loop_timer_set(r->api->loop, &p->timer, HEAD_MS, on_head_late);
	if (!p->up_done && !http_stream_upgrade(r->stream))
		pump_up(p);
}

static void on_tunnel_body(struct duplex *d)
{
	bridge_on_body(&container_of(d, struct preview, up)->bridge);
}

static void on_tunnel_writable(struct duplex *d)
{
	bridge_on_writable(&container_of(d, struct preview, up)->bridge);
}

static void on_tunnel_close(struct duplex *d, const struct err *e)
{
	struct preview *p = container_of(d, struct preview, up);

	(void)e;
	if (!p->open) {
		preview_free(p); /* refused, and answered */
		return;
	}
	/* the socket's end tells the rest what happened */
	bridge_lost(&p->bridge);
}

static void open_tunnel(struct preview *p)
{
	static const struct duplex_ops ops = { .on_open = on_tunnel_open,
					       .on_body = on_tunnel_body,
					       .on_writable =
						   on_tunnel_writable,
					       .on_close = on_tunnel_close };
	struct node *n = p->node ? node_get(p->req->api->nodes, p->node) : NULL;
	struct guest g = { .id = p->id };
	char path[40];

	if (p->down.code) {
		req_fault(p->req, &p->down);
		preview_free(p);
		return;
	}
	if (!n) {
		refuse(p, "node_unavailable", "node",
		       "repeat the call; `caisson node ls` shows the nodes",
		       "the sandbox's node is not known yet");
		return;
	}
	g.data_path = node_data_path(n);
	snprintf(path, sizeof(path), "/v1/tunnel?port=%u", p->port);
	duplex_start(&p->up, p->req, &g, path, &ops);
}

/* ---- who may ---- */

static bool scope_allows(const struct preview *p)
{
	const struct principal *who = &p->req->who;

	if (*who->scope.exec)
		return false;
	if (*who->scope.sandbox)
		return (who->scope.allow & ALLOW_PORTS) &&
		       strcmp(who->scope.sandbox, p->id) == 0;
	return who->role >= ROLE_DEVELOPER;
}

static void on_authorised(struct req *r, const struct fault *f)
{
	struct preview *p = r->state;

	r->state = NULL;
	if (!r->stream) {
		preview_free(p);
	} else if (f) {
		req_fault(r, f);
		preview_free(p);
	} else if (strcmp(r->who.tenant, p->tenant) != 0 ||
		   strcmp(r->who.project, p->project) != 0) {
		no_such_sandbox(r);
		preview_free(p);
	} else if (!scope_allows(p)) {
		refuse(p, "role_required", "policy",
		       "use a developer's key, or a token with \"ports\" of "
		       "this sandbox",
		       "this key or token does not open ports of this sandbox");
	} else {
		req_watch_key(r);
		open_tunnel(p);
	}
}

static bool token_fits(const struct preview *p, const char *want)
{
	const char *token = preview_token(http_stream_head(p->req->stream));
	char hex[DIGEST_HEX];

	if (!token || !want || strlen(want) != DIGEST_HEX - 1)
		return false;
	digest_sha256_hex(token, PORT_TOKEN_LENGTH, hex);
	return equal_consttime(hex, want, DIGEST_HEX - 1);
}

static bool is_open(const struct preview *p, const struct pg_result *res)
{
	const char *access = pg_text(res, 0, 2);

	return strcmp(access, "public") == 0 ||
	       (strcmp(access, "token") == 0 &&
		token_fits(p, pg_text(res, 0, 3)));
}

/* Why it cannot be reached; said only to who may know. */
static void judge_state(struct preview *p, const struct pg_result *res)
{
	const char *observed = pg_text(res, 0, 4);
	const char *reason = pg_text(res, 0, 7);

	if (strcmp(observed, "running") == 0 &&
	    strcmp(pg_text(res, 0, 5), "running") == 0)
		return;
	if (strcmp(observed, "ended") == 0 || strcmp(observed, "failed") == 0 ||
	    strcmp(observed, "lost") == 0)
		fault_set(&p->down, "sandbox_ended", "request",
			  "create a new sandbox",
			  "the sandbox is %s, reason %s", observed,
			  reason ? reason : "unknown");
	else
		fault_set(&p->down, "wrong_state", "request",
			  "wait until it is running",
			  "the sandbox is not running");
}

static void drop_early(struct req *r)
{
	free(r->state);
}

static void on_port(struct req *r, const struct pg_result *res,
		    const char *sqlstate)
{
	struct preview *p = r->state;
	const char *node;

	(void)sqlstate;
	if (!r->stream)
		return;
	if (pg_rows(res) == 0) {
		no_such_sandbox(r);
		return;
	}
	r->drop = NULL;
	p->req = req_ref(r);
	node = pg_text(res, 0, 6);
	p->tenant = xstrdup(pg_text(res, 0, 0));
	p->project = xstrdup(pg_text(res, 0, 1));
	p->node = node ? xstrdup(node) : NULL;
	judge_state(p, res);
	if (is_open(p, res))
		open_tunnel(p);
	else
		auth_request(r, on_authorised);
}

bool preview_takes(struct req *r)
{
	static struct pg_stmt st = {
		"port_lookup",
		"SELECT tenant, project, access, token_sha256, observed, "
		"desired, node, end_reason FROM caisson.port_lookup($1, $2)",
		2, 0
	};
	const struct http_head *h = http_stream_head(r->stream);
	struct preview *p;
	uint16_t port;
	char id[23], text[8];

	if (r->side != SIDE_DATA || !h->authority ||
	    !preview_host(h->authority, &port, id))
		return false;
	p = xnew(struct preview);
	p->port = port;
	memcpy(p->id, id, sizeof(p->id));
	snprintf(text, sizeof(text), "%u", port);
	/* freed with the request until the port is known */
	r->state = p;
	r->drop = drop_early;
	req_db(r, &st, (const char *[]){ id, text }, on_port);
	return true;
}
