/* SPDX-License-Identifier: Apache-2.0 */
#include "base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"

#define QUEUE_MAX_BYTES (1u << 20)
/* What a queued message costs beside its bytes; a descriptor is dearer than
 * memory, so that the limit bounds both. */
#define COST_MSG	128u
#define COST_FD		4096u
#define MSGS_PER_ROUND	32
#define BLOCKING_MAX_MS 60000

struct out_msg {
	struct list link;
	size_t n, cost;
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds;
	uint8_t bytes[];
};

struct channel {
	struct loop_io io;
	struct loop_defer closing;
	struct loop *loop;
	int fd;
	const struct channel_op *table;
	size_t n_ops;
	const struct channel_ops *ops;
	void *owner;
	void *in;	/* one message, sized by the table */
	size_t in_size; /* the largest message that the table allows */
	struct list out;
	size_t out_cost;
	bool no_output;	  /* the peer reads no more; what it sent may wait */
	bool is_dead;	  /* nothing more in either direction */
	bool in_callback; /* the memory must outlive the callback */
	bool is_freed;
	struct err why;
};

static void close_fds(int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++)
		own_close_p(&fds[i]);
}

static void out_free(struct channel *c, struct out_msg *m)
{
	list_del(&m->link);
	c->out_cost -= m->cost;
	close_fds(m->fds, m->n_fds);
	free(m);
}

static void drop_output(struct channel *c)
{
	while (!list_empty(&c->out))
		out_free(c,
			 list_entry(list_first(&c->out), struct out_msg, link));
}

static void on_closing(struct loop_defer *d)
{
	struct channel *c = container_of(d, struct channel, closing);

	if (c->ops->on_close) {
		struct err why = c->why; /* c may be freed in there */

		c->ops->on_close(c, &why);
	}
}

/* The end of the channel; on_close follows from the loop. */
static void die(struct channel *c)
{
	if (c->is_dead)
		return;
	c->is_dead = true;
	loop_io_del(&c->io);
	c->fd = fd_close(c->fd);
	drop_output(c);
	loop_defer_add(c->loop, &c->closing, on_closing);
}

/* One sendmsg; 0 or -errno. */
static int send_now(int fd, const void *msg, size_t n, const int *fds,
		    size_t n_fds)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
	} ctl = { 0 };
	/* iov_base has no const of its own */
	struct iovec iov = { (void *)(uintptr_t)msg, n };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		struct cmsghdr *cm = &ctl.align; /* the first and only one */

		h.msg_control = ctl.b;
		h.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n_fds * sizeof(int));
	}
	while (sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Take the descriptors of one control message; false if there were more than
 * max (the surplus is closed). */
static bool take_rights(struct cmsghdr *cm, int *fds, size_t max, size_t *n_fds)
{
	size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	bool fits = true;

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
		if (*n_fds < max) {
			fds[(*n_fds)++] = fd;
		} else {
			fd_close(fd);
			fits = false;
		}
	}
	return fits;
}

/*
 * One recvmsg: the size, 0 at the end of file, or -errno. -EMSGSIZE: the
 * message or its descriptors did not fit; no descriptor is left.
 */
static ssize_t recv_now(int fd, void *msg, size_t max, int *fds, size_t *n_fds)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
	} ctl;
	struct iovec iov = { msg, max };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.b,
			    .msg_controllen = sizeof(ctl.b) };
	size_t max_fds = *n_fds;
	bool fits = true;
	ssize_t n;

	*n_fds = 0;
	n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&h); cm;
	     cm = CMSG_NXTHDR(&h, cm)) {
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
			fits &= take_rights(cm, fds, max_fds, n_fds);
	}
	if (!fits || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		close_fds(fds, *n_fds);
		*n_fds = 0;
		return -EMSGSIZE;
	}
	return n;
}

int channel_check(const struct channel_op *table, size_t n_ops, const void *msg,
		  size_t n, size_t n_fds, struct err *e)
{
	struct channel_hdr h;
	const struct channel_op *op;

	if (n < sizeof(h))
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "message of %zu bytes: shorter than its header",
			       n);
	memcpy(&h, msg, sizeof(h));
	if (h.op >= n_ops || table[h.op].size_max == 0)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "operation %u is not allowed here", h.op);
	op = &table[h.op];
	if (n < op->size_min || n > op->size_max)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "operation %u: %zu bytes, expected %u to %u",
			       h.op, n, op->size_min, op->size_max);
	if (n_fds < op->n_fds_min || n_fds > op->n_fds_max)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "operation %u: %zu descriptors, expected %u to "
			       "%u",
			       h.op, n_fds, op->n_fds_min, op->n_fds_max);
	return 0;
}

/* Check and deliver; false if the channel is gone afterwards. */
static bool deliver(struct channel *c, size_t n, int *fds, size_t n_fds)
{
	if (channel_check(c->table, c->n_ops, c->in, n, n_fds, &c->why) < 0) {
		close_fds(fds, n_fds);
		die(c);
		return false;
	}
	c->in_callback = true;
	c->ops->on_msg(c, c->in, n, fds, n_fds);
	c->in_callback = false;
	close_fds(fds, n_fds);
	if (c->is_freed) {
		free(c->in);
		free(c);
		return false;
	}
	return !c->is_dead;
}

/* One message; false if there is none or the channel is gone. */
static bool receive(struct channel *c)
{
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds = CHANNEL_FDS_MAX;
	ssize_t n = recv_now(c->fd, c->in, c->in_size, fds, &n_fds);

	if (n > 0)
		return deliver(c, (size_t)n, fds, n_fds);
	if (n == -EAGAIN)
		return false;
	if (n == -EINTR)
		return true;
	/* The peer closed without having read all from us. The error is told
	 * once and hides what it sent before; the end of file follows. */
	if (n == -ECONNRESET && !c->no_output) {
		c->no_output = true;
		drop_output(c);
		return true;
	}
	close_fds(fds, n_fds);
	if (n == -EMSGSIZE)
		err_set(&c->why, -EBADMSG, ERR_INVALID,
			"message too large, or with too many descriptors");
	else if (n < 0 && n != -ECONNRESET)
		err_errno(&c->why, (int)-n, "receive");
	else
		memcpy(c->why.msg, "the peer closed the connection", 31);
	if (c->why.code == 0)
		c->why.kind = ERR_UNAVAILABLE;
	die(c);
	return false;
}

/* Send what waits; false if the channel died. */
static bool flush(struct channel *c)
{
	while (!list_empty(&c->out)) {
		struct out_msg *m =
		    list_entry(list_first(&c->out), struct out_msg, link);
		int r = send_now(c->fd, m->bytes, m->n, m->fds, m->n_fds);

		if (r == -EAGAIN)
			return true;
		if (r < 0) {
			c->no_output = true;
			drop_output(c);
			break;
		}
		out_free(c, m);
	}
	(void)loop_io_set(&c->io, LOOP_IN);
	return true;
}

static void on_channel(struct loop_io *io, unsigned events)
{
	struct channel *c = container_of(io, struct channel, io);

	if (events & LOOP_OUT)
		flush(c);
	/* a peer that talks without end gets its turn again in the next
	 * round */
	for (int i = 0; i < MSGS_PER_ROUND; i++) {
		if (!receive(c))
			return;
	}
}

struct channel *channel_new_take(struct loop *l, int fd,
				 const struct channel_op *table, size_t n_ops,
				 const struct channel_ops *ops, void *owner)
{
	struct channel *c = xnew(struct channel);
	int r;

	c->loop = l;
	c->fd = fd;
	c->table = table;
	c->n_ops = n_ops;
	c->ops = ops;
	c->owner = owner;
	list_init(&c->out);
	c->in_size = sizeof(struct channel_hdr);
	for (size_t i = 0; i < n_ops; i++) {
		CHECK(table[i].size_max <= CHANNEL_MSG_MAX);
		CHECK(table[i].n_fds_max <= CHANNEL_FDS_MAX);
		if (table[i].size_max > c->in_size)
			c->in_size = table[i].size_max;
	}
	c->in = xcalloc(1, c->in_size);
	r = loop_io_add(l, &c->io, fd, LOOP_IN, on_channel);
	if (r < 0) {
		err_errno(&c->why, -r, "watch the channel");
		die(c);
	}
	return c;
}

struct channel *channel_free(struct channel *c)
{
	if (!c || c->is_freed)
		return NULL;
	loop_defer_del(&c->closing);
	loop_io_del(&c->io);
	c->fd = fd_close(c->fd);
	drop_output(c);
	c->is_dead = true;
	if (c->in_callback) {
		c->is_freed = true; /* deliver() does the rest */
		return NULL;
	}
	free(c->in);
	free(c);
	return NULL;
}

void *channel_owner(const struct channel *c)
{
	return c->owner;
}

int channel_fd(const struct channel *c)
{
	return c->fd;
}

static int enqueue(struct channel *c, const void *msg, size_t n, const int *fds,
		   size_t n_fds)
{
	size_t cost = n + COST_MSG + n_fds * COST_FD;
	struct out_msg *m;

	if (c->out_cost + cost > QUEUE_MAX_BYTES) {
		err_set(&c->why, -ENOBUFS, ERR_EXHAUSTED,
			"the peer does not read: %zu bytes wait", c->out_cost);
		die(c);
		return -ENOBUFS;
	}
	m = xcalloc(1, sizeof(*m) + n);
	m->n = n;
	m->cost = cost;
	memcpy(m->bytes, msg, n);
	list_add_tail(&c->out, &m->link);
	c->out_cost += cost;
	for (size_t i = 0; i < n_fds; i++) {
		int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);

		if (fd < 0) {
			err_errno(&c->why, errno, "duplicate a descriptor");
			die(c);
			return c->why.code;
		}
		m->fds[m->n_fds++] = fd;
	}
	(void)loop_io_set(&c->io, LOOP_IN | LOOP_OUT);
	return 0;
}

int channel_send(struct channel *c, const void *msg, size_t n, const int *fds,
		 size_t n_fds)
{
	int r = -EAGAIN;

	CHECK(n >= sizeof(struct channel_hdr) && n <= CHANNEL_MSG_MAX);
	CHECK(n_fds <= CHANNEL_FDS_MAX);
	if (c->is_dead || c->no_output)
		return -EPIPE;
	if (list_empty(&c->out))
		r = send_now(c->fd, msg, n, fds, n_fds);
	if (r == 0)
		return 0;
	/* ETOOMANYREFS: too many descriptors in flight; they drain with time */
	if (r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS)
		return enqueue(c, msg, n, fds, n_fds);
	if (r == -EPIPE || r == -ECONNRESET) {
		/* what the peer sent before it closed is still read */
		c->no_output = true;
		return -EPIPE;
	}
	err_errno(&c->why, -r, "send");
	die(c);
	return r;
}

static int wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r = poll(&p, 1, BLOCKING_MAX_MS);

	if (r == 0)
		return -ETIMEDOUT;
	return r < 0 && errno != EINTR ? -errno : 0;
}

int channel_send_fd(int fd, const void *msg, size_t n, const int *fds,
		    size_t n_fds)
{
	int r;

	if (n_fds > CHANNEL_FDS_MAX)
		return -EMSGSIZE;
	while ((r = send_now(fd, msg, n, fds, n_fds)) == -EAGAIN) {
		r = wait_for(fd, POLLOUT);
		if (r < 0)
			return r;
	}
	return r;
}

ssize_t channel_recv_fd(int fd, void *msg, size_t max, int *fds, size_t *n_fds)
{
	size_t room = n_fds ? *n_fds : 0, got;
	ssize_t n;

	if (n_fds)
		*n_fds = 0;
	for (;;) {
		got = room;
		n = recv_now(fd, msg, max, fds, &got);
		if (n == -EINTR)
			continue;
		if (n != -EAGAIN)
			break;
		int r = wait_for(fd, POLLIN);
		if (r < 0)
			return r;
	}
	if (n_fds)
		*n_fds = got;
	return n;
}
