/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/data.h"

#include <string.h>

#include "base/list.h"
#include "base/own.h"
#include "monitor/pass.h"
#include "monitor/route.h"

struct client {
	struct list link;
	struct data *data;
	struct http_conn *conn;
};

struct data {
	struct loop *loop;
	struct http_conn *(*guest)(void *owner);
	void *owner;
	bool is_open;
	struct console *console;
	struct list clients;
	unsigned n_clients;
	struct list passes;
};

static void refuse_route(struct http_stream *s, const char *field,
			 const struct err *e)
{
	switch ((int)e->kind) {
	case ERR_NOT_FOUND:
		pass_refuse(s, 404, "not_found", e->msg, "request");
		break;
	case ERR_UNSUPPORTED:
		pass_refuse(s, 405, "immutable", e->msg, "request");
		break;
	default:
		pass_refuse_field(s, 400, "invalid_field", e->msg, "request",
				  field);
		break;
	}
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	struct client *cl = http_conn_owner(c);
	struct data *d = cl->data;
	const struct http_head *h = http_stream_head(s);
	struct http_conn *guest;
	struct route route = { 0 };
	struct err e = { 0 };

	if (route_parse(h->method, h->path, &route, &e) < 0) {
		refuse_route(s, route.bad, &e);
		return;
	}
	guest = d->guest(d->owner);
	if (route.kind == ROUTE_CONSOLE && d->console)
		console_serve(d->console, s, route.from, route.follow);
	else if (!d->is_open || route.kind == ROUTE_CONSOLE)
		pass_refuse(s, 409, "wrong_state",
			    "the sandbox is not running yet, or no more",
			    "node");
	else if (!guest)
		pass_refuse(s, 503, "node_unavailable",
			    "the guest's daemon is not connected; try again",
			    "guest");
	else
		pass_start(d->loop, s, guest, &route, &d->passes);
	route_fini(&route);
}

static void on_close(struct http_conn *c, const struct err *e)
{
	struct client *cl = http_conn_owner(c);

	(void)e;
	cl->data->n_clients--;
	list_del(&cl->link);
	free(cl);
}

static const struct http_conn_ops conn_ops = { on_request, on_close };

void data_serve_take(struct data *d, int fd)
{
	static const struct http_limits lim = { .streams = 64 };
	struct client *cl;

	if (d->n_clients >= DATA_CONNS_MAX) {
		fd_close(fd);
		return;
	}
	cl = xnew(struct client);
	cl->data = d;
	cl->conn =
	    http_conn_server_take(d->loop, fd, HTTP_2, &lim, &conn_ops, cl);
	if (!cl->conn) {
		free(cl);
		return;
	}
	d->n_clients++;
	list_add_tail(&d->clients, &cl->link);
}

void data_console(struct data *d, struct console *c)
{
	d->console = c;
}

void data_open(struct data *d, bool is_open)
{
	d->is_open = is_open;
	if (!is_open)
		pass_cut_all(&d->passes);
}

struct data *data_new(struct loop *l, struct http_conn *(*conn)(void *owner),
		      void *owner)
{
	struct data *d = xnew(struct data);

	d->loop = l;
	d->guest = conn;
	d->owner = owner;
	list_init(&d->clients);
	list_init(&d->passes);
	return d;
}

struct data *data_free(struct data *d)
{
	if (!d)
		return NULL;
	while (!list_empty(&d->clients)) {
		struct client *cl =
		    list_entry(list_first(&d->clients), struct client, link);

		list_del(&cl->link);
		http_conn_free(cl->conn);
		free(cl);
	}
	pass_orphan_all(&d->passes);
	free(d);
	return NULL;
}
