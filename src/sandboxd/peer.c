/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/peer.h"

#include <sys/socket.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"

#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 2000u

struct peer {
	struct loop *loop;
	const struct peer_kind *kind;
	const struct peer_ops *ops;
	void *owner;
	char *path;
	bool reconnect;
	struct channel *chan;
	struct list calls;
	uint32_t seq;
	uint64_t backoff_ms;
	struct loop_timer timer;
	bool *freed; /* set while callbacks run over the list */
};

static void call_finish(struct call *c, const struct answer *a)
{
	list_del(&c->link);
	loop_timer_del(&c->timer);
	c->peer = NULL;
	c->on_done(c, a);
}

static void fail_all(struct peer *p, const struct err *why, bool *freed)
{
	while (!*freed && !list_empty(&p->calls)) {
		struct call *c =
		    list_entry(list_first(&p->calls), struct call, link);
		struct err e = { 0 };
		struct answer a = { .e = &e };

		err_set(&e, -EPIPE, ERR_UNAVAILABLE, "%s is gone: %s",
			p->kind->what, why->msg);
		call_finish(c, &a);
	}
}

static void connect_now(struct loop_timer *t);

static void went_down(struct peer *p, const struct err *why)
{
	bool freed = false;

	p->freed = &freed;
	if (p->chan)
		p->chan = channel_free(p->chan);
	fail_all(p, why, &freed);
	if (freed)
		return;
	p->freed = NULL;
	if (p->reconnect) {
		loop_timer_set(p->loop, &p->timer, p->backoff_ms, connect_now);
		p->backoff_ms *= 2;
		if (p->backoff_ms > BACKOFF_MAX_MS)
			p->backoff_ms = BACKOFF_MAX_MS;
	}
	if (p->ops->on_down)
		p->ops->on_down(p, why);
}

static void on_msg(struct channel *ch, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct peer *p = channel_owner(ch);
	const struct channel_hdr *h = msg;
	struct err e = { 0 };
	struct answer a = { .msg = msg, .n = n, .fds = fds, .n_fds = n_fds };
	struct call *c;

	if (h->seq == 0) {
		if (p->ops->on_event)
			p->ops->on_event(p, msg, n);
		return;
	}
	list_for_each (c, &p->calls, link) {
		if (c->seq != h->seq || c->op != h->op)
			continue;
		if (p->kind->verdict(msg, &e) < 0)
			a.e = &e;
		call_finish(c, &a);
		return;
	}
	if (p->ops->on_late)
		p->ops->on_late(p, msg, n);
}

static void on_close(struct channel *ch, const struct err *e)
{
	struct peer *p = channel_owner(ch);
	struct err none = { 0 };

	if (!e) {
		err_set(&none, -EPIPE, ERR_UNAVAILABLE, "connection closed");
		e = &none;
	}
	log_debug("peer_down", "peer=%s why=%s", p->kind->what, e->msg);
	went_down(p, e);
}

static const struct channel_ops chan_ops = { on_msg, on_close };

static void connect_now(struct loop_timer *t)
{
	struct peer *p = container_of(t, struct peer, timer);
	struct err e = { 0 };
	int fd = unix_connect(p->path, SOCK_SEQPACKET, &e);

	if (fd < 0) {
		went_down(p, &e);
		return;
	}
	p->chan = channel_new_take(p->loop, fd, p->kind->table, p->kind->n_ops,
				   &chan_ops, p);
	p->backoff_ms = BACKOFF_MIN_MS;
	if (p->ops->on_up)
		p->ops->on_up(p);
}

struct peer *peer_new(struct loop *l, const struct peer_kind *kind,
		      const char *path, bool reconnect,
		      const struct peer_ops *ops, void *owner)
{
	struct peer *p = xnew(struct peer);

	p->loop = l;
	p->kind = kind;
	p->ops = ops;
	p->owner = owner;
	p->path = xstrdup(path);
	p->reconnect = reconnect;
	p->backoff_ms = BACKOFF_MIN_MS;
	list_init(&p->calls);
	loop_timer_set(l, &p->timer, 0, connect_now);
	return p;
}

struct peer *peer_free(struct peer *p)
{
	if (!p)
		return NULL;
	if (p->freed)
		*p->freed = true;
	while (!list_empty(&p->calls))
		call_cancel(
		    list_entry(list_first(&p->calls), struct call, link));
	loop_timer_del(&p->timer);
	if (p->chan)
		channel_free(p->chan);
	free(p->path);
	free(p);
	return NULL;
}

void *peer_owner(const struct peer *p)
{
	return p->owner;
}

bool peer_is_up(const struct peer *p)
{
	return p->chan != NULL;
}

static void on_timeout(struct loop_timer *t)
{
	struct call *c = container_of(t, struct call, timer);
	struct err e = { 0 };
	struct answer a = { .e = &e };

	if (c->dead)
		err_set(&e, -EPIPE, ERR_UNAVAILABLE,
			"%s cannot be reached at %s", c->peer->kind->what,
			c->peer->path);
	else
		err_set(&e, -ETIMEDOUT, ERR_TIMEOUT, "%s did not answer",
			c->peer->kind->what);
	call_finish(c, &a);
}

int peer_send(struct peer *p, void *msg, size_t n, const int *fds, size_t n_fds)
{
	struct channel_hdr *h = msg;

	if (!p->chan)
		return -EPIPE;
	if (++p->seq == 0)
		p->seq = 1;
	h->seq = p->seq;
	return channel_send(p->chan, msg, n, fds, n_fds);
}

void peer_call(struct peer *p, struct call *c, void *msg, size_t n,
	       const int *fds, size_t n_fds, uint64_t timeout_ms,
	       void (*on_done)(struct call *, const struct answer *))
{
	struct channel_hdr *h = msg;

	CHECK(!call_is_busy(c));
	c->peer = p;
	c->op = h->op;
	c->on_done = on_done;
	c->dead = peer_send(p, msg, n, fds, n_fds) < 0;
	c->seq = p->seq;
	list_add_tail(&p->calls, &c->link);
	loop_timer_set(p->loop, &c->timer, c->dead ? 0 : timeout_ms,
		       on_timeout);
}

void call_cancel(struct call *c)
{
	if (!c->peer)
		return;
	list_del(&c->link);
	loop_timer_del(&c->timer);
	c->peer = NULL;
}
