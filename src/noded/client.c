/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/own.h"
#include "noded/request.h"
#include "noded/table.h"

#define ROOT_CLIENTS_MAX 8

struct client {
	struct noded *noded;
	struct channel *channel;
	struct list link;
	bool is_node; /* the one of caisson-node */
};

static void client_free(struct client *c)
{
	table_forget(c->noded, c);
	list_del(&c->link);
	channel_free(c->channel);
	free(c);
}

static void on_msg(struct channel *ch, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct client *c = channel_owner(ch);
	struct noded_req q;
	struct err e = { 0 };

	if (request_decode(msg, n, n_fds, &q, &e) < 0) {
		log_warn("bad_request", "error=%s", e.msg);
		client_free(c);
		return;
	}
	noded_handle(c->noded, c, &q, fds, n_fds);
}

static void on_close(struct channel *ch, const struct err *e)
{
	struct client *c = channel_owner(ch);

	log_info("client_gone", "node=%d why=%s", c->is_node,
		 e && e->msg[0] ? e->msg : "closed");
	client_free(c);
}

static const struct channel_ops channel_ops = {
	.on_msg = on_msg,
	.on_close = on_close,
};

/* A dead peer whose end we have not been told of yet makes room. */
static bool is_dead(const struct client *c)
{
	struct pollfd p = { .fd = channel_fd(c->channel), .events = 0 };

	return p.fd < 0 || (poll(&p, 1, 0) > 0 && p.revents & POLLHUP);
}

static bool room_for(struct noded *n, bool is_node)
{
	unsigned others = 0;
	struct client *c, *tmp;

	list_for_each_safe (c, tmp, &n->clients, link) {
		if (c->is_node != is_node)
			continue;
		if (is_dead(c))
			client_free(c);
		else
			others++;
	}
	return others < (is_node ? 1 : ROOT_CLIENTS_MAX);
}

static void admit_take(struct noded *n, int fd)
{
	struct ucred peer;
	struct client *c;
	bool is_node;

	if (unix_peer(fd, &peer) < 0 ||
	    (peer.uid != 0 && peer.uid != n->conf.node_uid)) {
		log_warn("stranger_refused", "uid=%u", peer.uid);
		fd_close(fd);
		return;
	}
	is_node = peer.uid == n->conf.node_uid && peer.uid != 0;
	if (!room_for(n, is_node)) {
		log_warn("client_refused", "uid=%u why=too many", peer.uid);
		fd_close(fd);
		return;
	}
	c = xnew(struct client);
	c->noded = n;
	c->is_node = is_node;
	c->channel = channel_new_take(n->loop, fd, noded_ops, NODED_OP_MAX_,
				      &channel_ops, c);
	list_add_tail(&n->clients, &c->link);
}

void clients_accept(struct loop_io *io, unsigned events)
{
	struct noded *n = container_of(io, struct noded, listen_io);
	int fd;

	(void)events;
	fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		admit_take(n, fd);
}

void clients_free(struct noded *n)
{
	while (!list_empty(&n->clients))
		client_free(
		    list_entry(list_first(&n->clients), struct client, link));
}

void client_send(struct client *c, const void *msg, size_t n, int fd)
{
	/* a client that cannot be told is cut off by its channel */
	channel_send(c->channel, msg, n, &fd, fd >= 0 ? 1 : 0);
}

void client_reply(struct client *c, uint32_t op, uint32_t seq, uint32_t slot,
		  const struct err *e, const struct noded_rep *rep, int fd)
{
	struct noded_rep out = { 0 };

	if (rep)
		out = *rep;
	out.hdr.op = op;
	out.hdr.seq = seq;
	out.slot = slot;
	out.r = e ? e->code : 0;
	if (e)
		snprintf(out.msg, sizeof(out.msg), "%.*s",
			 (int)sizeof(out.msg) - 1, e->msg);
	client_send(c, &out, sizeof(out), e ? -1 : fd);
}
