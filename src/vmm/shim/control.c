/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "proto/noded.h"
#include "vmm/shim/interpose.h"

/* The control thread: one monitor at a time, one request after the other. It
 * checks the protocol and nothing else; who may connect is decided by the
 * directory that the socket lies in. */

#define FDS_MAX 2

static struct ram ram = { .pagemap = -1 };

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static bool read_all(int fd, void *p, size_t n)
{
	uint8_t *b = p;

	while (n) {
		ssize_t r = recv(fd, b, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		b += r;
		n -= (size_t)r;
	}
	return true;
}

static void take_fds(struct msghdr *m, int *fds, size_t *n_fds)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
			if (*n_fds < FDS_MAX)
				fds[(*n_fds)++] = fd;
			else
				close(fd);
		}
	}
}

/* A request and its descriptors; false at the end or on a broken one. */
static bool read_request(int c, struct shim_req *q, int *fds, size_t *n_fds)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} u;
	struct iovec iov = { q, sizeof(*q) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.b,
			    .msg_controllen = sizeof(u.b) };
	ssize_t n;

	do
		n = recvmsg(c, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0)
		return false;
	take_fds(&m, fds, n_fds);
	if (m.msg_flags & MSG_CTRUNC)
		return false;
	return read_all(c, (uint8_t *)q + n, sizeof(*q) - (size_t)n);
}

static void answer(const struct shim_req *q, const int *fds,
		   const struct shim_run *runs, size_t n_runs,
		   struct shim_rep *rep)
{
	uint64_t t0 = now_us();

	switch (q->op) {
	case SHIM_HELLO:
		if (__atomic_load_n(&ram.base, __ATOMIC_ACQUIRE))
			rep->a = ram.len;
		break;
	case SHIM_MAP:
		rep->r = ram_map(&ram, fds[0], runs, n_runs);
		break;
	case SHIM_IMAGE:
		rep->r = ram_image(&ram, fds[0], fds[1], q->a == 1);
		if (rep->r > 0) {
			rep->a = (uint64_t)rep->r;
			rep->r = 0;
		}
		rep->b = now_us() - t0;
		break;
	default:
		break;
	}
}

static bool serve_one(int c)
{
	static struct shim_run runs[SHIM_MAPS_MAX];
	struct shim_req raw = { 0 }, q;
	struct shim_rep rep = { .magic = SHIM_MAGIC };
	int fds[FDS_MAX] = { -1, -1 };
	size_t n_fds = 0, n_runs = 0;
	bool ok = read_request(c, &raw, fds, &n_fds);

	ram_reap();
	ok = ok && shim_parse(&raw, sizeof(raw), n_fds, &q, &n_runs) == 0 &&
	     read_all(c, runs, n_runs * sizeof(runs[0]));
	if (ok) {
		rep.op = q.op;
		answer(&q, fds, runs, n_runs, &rep);
		ok = send(c, &rep, sizeof(rep), MSG_NOSIGNAL) == sizeof(rep);
	}
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	return ok;
}

static void *control(void *arg)
{
	struct timeval limit = { .tv_sec = 5 };

	(void)arg;
	for (;;) {
		struct pollfd p = { .fd = VMM_FD_CTL, .events = POLLIN };
		int c;

		/* the listener may be non-blocking */
		if (poll(&p, 1, -1) < 0)
			continue;
		if (p.revents & (POLLNVAL | POLLERR | POLLHUP))
			return NULL;
		c = accept4(VMM_FD_CTL, NULL, NULL, SOCK_CLOEXEC);
		if (c < 0)
			continue;
		setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		while (serve_one(c))
			;
		close(c);
	}
}

__attribute__((constructor)) static void start(void)
{
	const char *on = getenv("CAISSON_SHIM");
	pthread_t t;
	sigset_t all, old;
	struct stat st;

	interpose_ram(&ram);
	if (!on || fstat(VMM_FD_CTL, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fcntl(VMM_FD_CTL, F_SETFD, FD_CLOEXEC);
	unsetenv("CAISSON_SHIM");
	unsetenv("LD_PRELOAD");
	/* layers need it, bases do not; a jail without /proc has none */
	ram.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	/* the VMM's signals are its main thread's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&t, NULL, control, NULL) != 0)
		_exit(127);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
