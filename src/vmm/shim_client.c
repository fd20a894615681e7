/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim_client.h"

#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/own.h"

struct shim_client {
	struct loop *loop;
	int fd;
	struct loop_io io;
	struct loop_timer timer;
	void (*on_close)(void *owner, const struct err *e);
	void *owner;
	void (*done)(void *arg, const struct shim_rep *rep,
		     const struct err *e);
	void *arg;
	enum shim_op op;
	bool is_asked, is_dead;
	uint8_t in[sizeof(struct shim_rep)];
	size_t in_n;
	bool *freed;
};

static void finish(struct shim_client *c, const struct shim_rep *rep,
		   const struct err *e)
{
	bool asked = c->is_asked;

	loop_timer_del(&c->timer);
	c->is_asked = false;
	c->in_n = 0;
	if (asked && c->done)
		c->done(c->arg, rep, e);
}

static void die(struct shim_client *c, int code, enum err_kind kind,
		const char *what)
{
	struct err e = { 0 };
	bool freed = false;

	if (c->is_dead)
		return;
	err_set(&e, code, kind, "%s", what);
	c->is_dead = true;
	loop_io_del(&c->io);
	c->freed = &freed;
	finish(c, NULL, &e);
	if (!freed && c->on_close)
		c->on_close(c->owner, &e);
	if (!freed)
		c->freed = NULL;
}

static void on_timer(struct loop_timer *t)
{
	struct shim_client *c = container_of(t, struct shim_client, timer);

	die(c, -ETIMEDOUT, ERR_TIMEOUT,
	    "the interposer did not answer in time");
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct shim_client *c = container_of(io, struct shim_client, io);
	struct shim_rep rep;
	ssize_t n;

	(void)events;
	n = recv(c->fd, c->in + c->in_n, sizeof(c->in) - c->in_n, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		die(c, -EPIPE, ERR_UNAVAILABLE,
		    "the interposer closed its connection");
		return;
	}
	c->in_n += (size_t)n;
	if (c->in_n < sizeof(rep))
		return;
	memcpy(&rep, c->in, sizeof(rep));
	if (!c->is_asked || rep.magic != SHIM_MAGIC || rep.op != c->op) {
		die(c, -EBADMSG, ERR_INVALID,
		    "the interposer wrote what is no answer");
		return;
	}
	if (rep.r < 0) {
		struct err e = { 0 };

		err_errno(&e, rep.r > -4096 ? -rep.r : EIO,
			  "interposer, operation %u: error %d", rep.op, -rep.r);
		finish(c, NULL, &e);
	} else {
		finish(c, &rep, NULL);
	}
}

struct shim_client *shim_client_new_take(struct loop *l, int fd,
					 void (*on_close)(void *owner,
							  const struct err *e),
					 void *owner)
{
	struct shim_client *c = xnew(struct shim_client);

	c->loop = l;
	c->fd = fd;
	c->on_close = on_close;
	c->owner = owner;
	CHECK(loop_io_add(l, &c->io, fd, LOOP_IN, on_io) == 0);
	return c;
}

struct shim_client *shim_client_free(struct shim_client *c)
{
	if (!c)
		return NULL;
	if (c->freed)
		*c->freed = true;
	loop_io_del(&c->io);
	loop_timer_del(&c->timer);
	fd_close(c->fd);
	free(c);
	return NULL;
}

int shim_client_call(struct shim_client *c, enum shim_op op, uint64_t a,
		     const int *fds, size_t n_fds, uint64_t timeout_ms,
		     void (*done)(void *arg, const struct shim_rep *rep,
				  const struct err *e),
		     void *arg)
{
	struct shim_req q = { .magic = SHIM_MAGIC, .op = op, .a = a };
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(2 * sizeof(int))];
	} u = { 0 };
	struct iovec iov = { &q, sizeof(q) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	CHECK(n_fds <= 2);
	if (c->is_dead)
		return -EPIPE;
	if (c->is_asked)
		return -EBUSY;
	if (n_fds) {
		struct cmsghdr *h;

		m.msg_control = u.b;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(h), fds, n_fds * sizeof(int));
	}
	/* 32 bytes into an idle socket: all or nothing */
	if (sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(q))
		return -EPIPE;
	c->is_asked = true;
	c->op = op;
	c->done = done;
	c->arg = arg;
	loop_timer_set(c->loop, &c->timer, timeout_ms, on_timer);
	return 0;
}

int shim_image_parse(struct buf *b, bool is_eof, uint64_t ram_bytes,
		     struct shim_image_done *ret)
{
	struct shim_image_done d;

	if (buf_len(b) < sizeof(d))
		return is_eof ? -EPIPE : SHIM_IMAGE_MORE;
	memcpy(&d, buf_data(b), sizeof(d));
	if (d.magic != SHIM_MAGIC || d.r > 0 || d.r < -4095 ||
	    d.n_runs > SHIM_MAPS_MAX || d.bytes > ram_bytes)
		return -EBADMSG;
	if (d.r < 0)
		return d.r;
	if (buf_len(b) < sizeof(d) + d.n_runs * sizeof(struct shim_run))
		return is_eof ? -EPIPE : SHIM_IMAGE_MORE;
	buf_consume(b, sizeof(d));
	*ret = d;
	return SHIM_IMAGE_DONE;
}
