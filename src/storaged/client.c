/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of storaged, and the drafts that belong to them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "storaged/internal.h"
#include "storaged/name.h"

struct draft *client_draft(struct client *c, uint64_t id)
{
	struct draft *d;

	if (!c)
		return NULL;
	list_for_each (d, &c->drafts, link) {
		if (d->id == id)
			return d;
	}
	return NULL;
}

void client_draft_drop(struct client *c, struct draft *d)
{
	char name[17];

	/* a busy one is its job's, which drops it at the end */
	store_draft_name(d->id, name);
	if (!d->is_busy &&
	    store_throw(&c->s->store, c->s->store.drafts, name) == 0)
		jobs_sweep_later(c->s);
	list_del(&d->link);
	c->n_drafts--;
	free(d);
}

void client_free(struct client *c)
{
	struct storaged *s = c->s;

	while (!list_empty(&c->drafts))
		client_draft_drop(
		    c, list_entry(list_first(&c->drafts), struct draft, link));
	jobs_forget(s, c);
	list_del(&c->link);
	s->n_clients--;
	channel_free(c->channel);
	free(c);
	jobs_run(s);
}

static void on_msg(struct channel *ch, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct client *c = channel_owner(ch);
	const struct st_req *q = msg;
	struct err e = { 0 };
	int r = request_check(q, n, &e);

	(void)fds;
	(void)n_fds;
	if (r == -EBADMSG) {
		log_warn("bad_request", "error=%s", e.msg);
		client_free(c);
	} else if (r < 0) {
		client_answer(c, &q->hdr, &e, NULL, -1);
	} else {
		storaged_handle(c, q);
	}
}

static void on_close(struct channel *ch, const struct err *e)
{
	(void)e;
	client_free(channel_owner(ch));
}

static const struct channel_ops channel_ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

void client_answer(struct client *c, const struct channel_hdr *hdr,
		   const struct err *e, const struct st_rep *rep, int fd)
{
	struct st_rep out = { 0 };

	if (!c)
		return;
	if (rep && !e)
		out = *rep;
	out.hdr = *hdr;
	out.text_n = 0;
	if (e) {
		out.r = e->code;
		out.kind = e->kind;
		snprintf(out.msg, sizeof(out.msg), "%.*s",
			 (int)sizeof(out.msg) - 1, e->msg);
	}
	channel_send(c->channel, &out, sizeof(out), &fd, fd >= 0 && !e ? 1 : 0);
}

void client_answer_text(struct client *c, struct st_rep *rep, size_t text_n)
{
	rep->text_n = (uint32_t)text_n;
	channel_send(c->channel, rep, sizeof(*rep) + text_n, NULL, 0);
}

void storaged_serve_take(struct storaged *s, int fd)
{
	struct client *c = xnew(struct client);

	c->s = s;
	list_init(&c->drafts);
	list_add_tail(&s->clients, &c->link);
	s->n_clients++;
	c->channel = channel_new_take(s->loop, fd, storaged_ops, ST_OP_MAX_,
				      &channel_ops, c);
}

void clients_accept(struct loop_io *io, unsigned events)
{
	struct storaged *s = container_of(io, struct storaged, listen_io);
	owned_fd fd = -1;
	struct ucred peer;

	(void)events;
	fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (unix_peer(fd, &peer) < 0 ||
	    (peer.uid != 0 && peer.uid != s->conf.node_uid &&
	     peer.uid != geteuid()))
		log_warn("stranger_refused", "uid=%u", peer.uid);
	else if (s->n_clients >= CLIENTS_MAX)
		log_warn("client_refused", "uid=%u why=too many", peer.uid);
	else
		storaged_serve_take(s, take_fd(&fd));
}

void clients_free(struct storaged *s)
{
	while (!list_empty(&s->clients))
		client_free(
		    list_entry(list_first(&s->clients), struct client, link));
}
