/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/monitor.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/channel.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "monitor/life.h"

struct monitor {
	struct loop *loop;
	int listen_fd;
	struct loop_io listen_io;
	uid_t node_uid;
	unsigned slot;
	struct channel *peer;
	struct life life;
};

#define REQ(min_fds, max_fds)                                                  \
	{                                                                      \
		sizeof(struct mon_req), sizeof(struct mon_req), min_fds,       \
		    max_fds                                                    \
	}

static const struct channel_op table[MON_OP_MAX_] = {
	[MON_STATUS] = REQ(0, 0),
	[MON_BOOT] = REQ(0, MON_DISKS_MAX),
	[MON_LOAD] = REQ(2, MON_DISKS_MAX + 2),
	[MON_RENEW] = REQ(0, 0),
	[MON_OPEN] = REQ(0, 0),
	[MON_DATA] = REQ(1, 1),
	[MON_SAVE] = REQ(2, 2),
	[MON_QUIT] = REQ(0, 0),
};

static void tell(struct monitor *m, const struct mon_rep *rep)
{
	if (m->peer)
		channel_send(m->peer, rep, sizeof(*rep), NULL, 0);
}

static void on_life(void *owner, const struct mon_rep *rep)
{
	tell(owner, rep);
}

static const struct life_ops life_ops = { on_life, on_life };

static void on_msg(struct channel *c, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct monitor *m = channel_owner(c);
	const struct mon_req *q = msg;
	struct mon_rep rep = { .hdr = q->hdr };
	struct err e = { 0 };

	(void)n;
	if (q->hdr.op == MON_DATA) {
		data_serve_take(m->life.data, take_fd(&fds[0]));
		return;
	}
	if (q->hdr.op != MON_STATUS) {
		rep.r = life_start_take(&m->life, q, fds, n_fds, &e);
		if (rep.r == 0)
			return; /* answered when it is done */
		rep.kind = e.kind;
		snprintf(rep.msg, sizeof(rep.msg), "%s", e.msg);
	}
	life_report(&m->life, &rep);
	tell(m, &rep);
}

static void on_close(struct channel *c, const struct err *e)
{
	struct monitor *m = channel_owner(c);

	log_info("node_gone", "why=%s", e && e->code ? e->msg : "closed");
	if (m->peer == c)
		m->peer = NULL;
	channel_free(c);
}

static const struct channel_ops channel_ops = { on_msg, on_close };

static void on_accept(struct loop_io *io, unsigned events)
{
	struct monitor *m = container_of(io, struct monitor, listen_io);
	int fd =
	    accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;

	(void)events;
	if (fd < 0)
		return;
	if (unix_peer(fd, &who) < 0 ||
	    (who.uid != m->node_uid && who.uid != 0)) {
		log_warn("stranger", "slot=%u", m->slot);
		fd_close(fd);
		return;
	}
	/* the newer one replaces the older: that is a sandboxd that restarted
	 * before we saw its end */
	m->peer = channel_free(m->peer);
	m->peer =
	    channel_new_take(m->loop, fd, table, MON_OP_MAX_, &channel_ops, m);
}

struct monitor *monitor_new_take(struct loop *l, int listen_fd, uid_t node_uid,
				 unsigned slot)
{
	struct monitor *m = xnew(struct monitor);

	m->loop = l;
	m->listen_fd = listen_fd;
	m->node_uid = node_uid;
	m->slot = slot;
	life_init(&m->life, l, &life_ops, m);
	CHECK(loop_io_add(l, &m->listen_io, listen_fd, LOOP_IN, on_accept) ==
	      0);
	return m;
}

struct monitor *monitor_free(struct monitor *m)
{
	if (!m)
		return NULL;
	loop_io_del(&m->listen_io);
	fd_close(m->listen_fd);
	channel_free(m->peer);
	life_fini(&m->life);
	free(m);
	return NULL;
}
