/* SPDX-License-Identifier: Apache-2.0 */
#include "api/data.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "base/channel.h"
#include "base/own.h"
#include "proto/data.h"

#define HANDSHAKE_MS 5000u
#define IDLE_MS	     30000u

struct data_want {
	struct list link; /* in conn->wants */
	data_done *done;
	void *arg;
};

struct data_conn {
	struct datas *datas;
	struct list link; /* in datas->all */
	char sandbox[32];
	struct http_conn *http; /* NULL until the node said DATA_OK */
	int fd;			/* during the handshake */
	struct loop_io io;
	struct loop_timer timer;
	struct list wants;
};

struct datas {
	struct api *api;
	struct map *by_sandbox; /* those that may be used */
	struct list all;
};

struct datas *datas_new(struct api *a)
{
	struct datas *d = xnew(struct datas);

	d->api = a;
	d->by_sandbox = map_new();
	list_init(&d->all);
	return d;
}

static void conn_free(struct data_conn *c)
{
	if (map_get(c->datas->by_sandbox, c->sandbox) == c)
		map_del(c->datas->by_sandbox, c->sandbox);
	list_del(&c->link);
	loop_io_del(&c->io);
	loop_timer_del(&c->timer);
	fd_close(c->fd);
	free(c);
}

/* Out of the cache and freed; everybody who waits is told f. */
static void conn_fail(struct data_conn *c, const struct fault *f)
{
	struct data_want *w, *next;

	/* whoever tries again from done() gets a new connection */
	map_del(c->datas->by_sandbox, c->sandbox);
	list_for_each_safe (w, next, &c->wants, link) {
		list_del(&w->link);
		w->done(w->arg, NULL, false, f);
		free(w);
	}
	conn_free(c);
}

static void on_http_close(struct http_conn *h, const struct err *e)
{
	(void)e;
	conn_free(http_conn_owner(h));
}

static const struct http_conn_ops http_ops = { .on_close = on_http_close };

static void open_http(struct data_conn *c)
{
	static const struct http_limits lim = { .idle_timeout_ms = IDLE_MS,
						.ping = true };
	struct data_want *w, *next;

	loop_io_del(&c->io);
	loop_timer_del(&c->timer);
	c->http = http_conn_client_take(c->datas->api->loop, take_fd(&c->fd),
					HTTP_2, &lim, &http_ops, c);
	list_for_each_safe (w, next, &c->wants, link) {
		list_del(&w->link);
		w->done(w->arg, c->http, false, NULL);
		free(w);
	}
}

static void refused(struct data_conn *c, uint8_t answer)
{
	struct fault f;

	if (answer == DATA_NOT_READY)
		fault_set(&f, "wrong_state", "node",
			  "wait for state running, then repeat",
			  "sandbox %s is not open yet", c->sandbox);
	else if (answer == DATA_NO_SANDBOX)
		fault_set(&f, "wrong_state", "node",
			  "GET /v1/sandboxes/{id} shows its state",
			  "sandbox %s does not run on its node (any more)",
			  c->sandbox);
	else
		fault_set(&f, "node_unavailable", "node", "repeat the call",
			  "the node closed the data connection of %s",
			  c->sandbox);
	conn_fail(c, &f);
}

static void on_answer(struct loop_io *io, unsigned events)
{
	struct data_conn *c = container_of(io, struct data_conn, io);
	uint8_t answer = 0;
	ssize_t n = read(c->fd, &answer, 1);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && answer == DATA_OK)
		open_http(c);
	else
		refused(c, n == 1 ? answer : 0);
}

static void on_late(struct loop_timer *t)
{
	refused(container_of(t, struct data_conn, timer), 0);
}

static struct data_conn *conn_new(struct datas *d, const char *sandbox,
				  const char *path, struct err *e)
{
	struct data_preamble p = { .magic = DATA_MAGIC };
	struct data_conn *c;
	owned_fd fd = unix_connect(path, SOCK_STREAM, e);

	if (fd < 0)
		return NULL;
	snprintf(p.sandbox, sizeof(p.sandbox), "%s", sandbox);
	/* a new socket's buffer takes 40 bytes at once */
	if (send(fd, &p, sizeof(p), MSG_NOSIGNAL) != (ssize_t)sizeof(p)) {
		err_errno(e, errno ? errno : EIO, "%s: %m", path);
		return NULL;
	}
	c = xnew(struct data_conn);
	c->datas = d;
	snprintf(c->sandbox, sizeof(c->sandbox), "%s", sandbox);
	list_init(&c->wants);
	c->fd = take_fd(&fd);
	loop_io_add(d->api->loop, &c->io, c->fd, LOOP_IN, on_answer);
	loop_timer_set(d->api->loop, &c->timer, HANDSHAKE_MS, on_late);
	list_add_tail(&d->all, &c->link);
	map_set(d->by_sandbox, sandbox, c);
	return c;
}

struct data_want *data_get(struct datas *d, const char *sandbox,
			   const char *data_path, data_done *done, void *arg)
{
	struct data_conn *c = map_get(d->by_sandbox, sandbox);
	struct data_want *w;
	struct err e = { 0 };
	struct fault f;

	if (c && c->http) {
		done(arg, c->http, true, NULL);
		return NULL;
	}
	if (!c)
		c = conn_new(d, sandbox, data_path, &e);
	if (!c) {
		fault_set(&f, "node_unavailable", "node",
			  "repeat the call; `caisson status` shows the node's "
			  "daemons",
			  "the sandbox's node cannot be reached: %s", e.msg);
		done(arg, NULL, false, &f);
		return NULL;
	}
	w = xnew(struct data_want);
	w->done = done;
	w->arg = arg;
	list_add_tail(&c->wants, &w->link);
	return w;
}

void data_want_drop(struct data_want *w)
{
	list_del(&w->link);
	free(w);
}

void data_forget(struct datas *d, const char *sandbox)
{
	struct data_conn *c = map_get(d->by_sandbox, sandbox);

	if (!c || !c->http)
		return;
	map_del(d->by_sandbox, sandbox);
	/* streams that still run on it end with it; then it goes by itself */
	http_conn_drain(c->http);
}

struct datas *datas_free(struct datas *d)
{
	struct data_conn *c, *next;
	struct fault f;

	if (!d)
		return NULL;
	fault_set(&f, "node_unavailable", "node", "repeat the call",
		  "the server stops");
	list_for_each_safe (c, next, &d->all, link) {
		if (c->http) {
			http_conn_free(c->http);
			conn_free(c);
		} else {
			conn_fail(c, &f);
		}
	}
	map_free(d->by_sandbox);
	free(d);
	return NULL;
}
