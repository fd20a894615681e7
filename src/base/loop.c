/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

#define EVENTS_PER_ROUND 64
#define SIGNALS_AT_ONCE	 8

struct loop {
	int epoll_fd;
	uint64_t now_ms;
	bool running, stopped;
	int value;
	size_t n_io;
	/* sources that are ready in this round and were not called yet */
	struct list ready;
	struct list defers;
	/* binary heap, the next timer first */
	struct loop_timer **heap;
	size_t n_timers, cap_timers;
	uint64_t timer_seq;
	struct list signals;
	sigset_t mask;
	struct loop_io signal_io; /* its fd is -1 until the first signal */
};

static uint64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct loop *loop_new(void)
{
	struct loop *l = xnew(struct loop);

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	CHECK(l->epoll_fd >= 0);
	l->now_ms = clock_ms();
	l->signal_io.fd = -1;
	list_init(&l->ready);
	list_init(&l->defers);
	list_init(&l->signals);
	sigemptyset(&l->mask);
	return l;
}

struct loop *loop_free(struct loop *l)
{
	if (!l)
		return NULL;
	CHECK(!l->running);
	CHECK(list_empty(&l->signals));
	if (l->signal_io.fd >= 0) {
		loop_io_del(&l->signal_io);
		close(l->signal_io.fd);
	}
	CHECK(l->n_io == 0 && l->n_timers == 0 && list_empty(&l->defers));
	close(l->epoll_fd);
	free(l->heap);
	free(l);
	return NULL;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

void loop_stop(struct loop *l, int value)
{
	l->stopped = true;
	l->value = value;
}

/* descriptors */

static uint32_t to_epoll(unsigned events)
{
	return (events & LOOP_IN ? (uint32_t)EPOLLIN : 0) |
	       (events & LOOP_OUT ? (uint32_t)EPOLLOUT : 0) |
	       (events & LOOP_EDGE ? (uint32_t)EPOLLET : 0);
}

int loop_io_add(struct loop *l, struct loop_io *io, int fd, unsigned events,
		void (*on_io)(struct loop_io *, unsigned))
{
	struct epoll_event ev = { .events = to_epoll(events), .data.ptr = io };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	io->loop = l;
	io->fd = fd;
	io->events = events;
	io->pending = 0;
	io->on_io = on_io;
	list_init(&io->link);
	l->n_io++;
	return 0;
}

int loop_io_set(struct loop_io *io, unsigned events)
{
	struct epoll_event ev = { .events = to_epoll(events), .data.ptr = io };

	CHECK(io->loop);
	/* With LOOP_EDGE, setting the same again is how to be told once more
	 * about what is still ready. */
	if (io->events == events && !(events & LOOP_EDGE))
		return 0;
	if (epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
		return -errno;
	io->events = events;
	return 0;
}

void loop_io_del(struct loop_io *io)
{
	if (!io->loop)
		return;
	/* fails only if the descriptor was closed before, which would leave the
	 * kernel with a pointer to us for as long as a duplicate lives */
	CHECK(epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL) == 0);
	list_del(&io->link);
	io->pending = 0;
	io->loop->n_io--;
	io->loop = NULL;
}

static void collect(struct loop *l, const struct epoll_event *ev, int n)
{
	for (int i = 0; i < n; i++) {
		struct loop_io *io = ev[i].data.ptr;
		uint32_t e = ev[i].events;

		io->pending = (e & EPOLLIN ? LOOP_IN : 0u) |
			      (e & EPOLLOUT ? LOOP_OUT : 0u) |
			      (e & (EPOLLHUP | EPOLLERR) ? LOOP_HUP : 0u);
		list_add_tail(&l->ready, &io->link);
	}
}

static void dispatch_io(struct loop *l)
{
	while (!list_empty(&l->ready)) {
		struct loop_io *io =
		    list_entry(list_first(&l->ready), struct loop_io, link);
		/* an earlier callback may have asked for less meanwhile */
		unsigned events = io->pending & (io->events | LOOP_HUP);

		list_del(&io->link);
		io->pending = 0;
		if (events)
			io->on_io(io, events);
	}
}

/* timers: a heap by (at_ms, seq), so that equal times keep their order */

static bool earlier(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->seq < b->seq);
}

static void heap_put(struct loop *l, size_t i, struct loop_timer *t)
{
	l->heap[i] = t;
	t->index = i;
}

static void heap_up(struct loop *l, size_t i, struct loop_timer *t)
{
	while (i > 0 && earlier(t, l->heap[(i - 1) / 2])) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, size_t i, struct loop_timer *t)
{
	for (;;) {
		size_t kid = 2 * i + 1;

		if (kid >= l->n_timers)
			break;
		if (kid + 1 < l->n_timers &&
		    earlier(l->heap[kid + 1], l->heap[kid]))
			kid++;
		if (!earlier(l->heap[kid], t))
			break;
		heap_put(l, i, l->heap[kid]);
		i = kid;
	}
	heap_put(l, i, t);
}

void loop_timer_del(struct loop_timer *t)
{
	struct loop *l = t->loop;
	struct loop_timer *last;

	if (!l)
		return;
	CHECK(t->index < l->n_timers && l->heap[t->index] == t);
	t->loop = NULL;
	last = l->heap[--l->n_timers];
	if (last == t)
		return;
	if (t->index > 0 && earlier(last, l->heap[(t->index - 1) / 2]))
		heap_up(l, t->index, last);
	else
		heap_down(l, t->index, last);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms,
		    void (*on_timer)(struct loop_timer *))
{
	loop_timer_del(t);
	if (l->n_timers == l->cap_timers) {
		size_t cap = l->cap_timers ? 2 * l->cap_timers : 16;
		struct loop_timer **heap =
		    reallocarray(l->heap, cap, sizeof(struct loop_timer *));

		CHECK(heap);
		l->heap = heap;
		l->cap_timers = cap;
	}
	/* Not the round's time: after a long start-up or a slow callback that
	 * one would make every timer fire too early. */
	if (__builtin_add_overflow(clock_ms(), delay_ms, &t->at_ms))
		t->at_ms = UINT64_MAX;
	t->loop = l;
	t->seq = ++l->timer_seq;
	t->on_timer = on_timer;
	heap_up(l, l->n_timers++, t);
}

static void dispatch_timers(struct loop *l)
{
	/* what is armed from here on waits for the next round: a timer that
	 * re-arms itself with 0 must not keep the loop from its descriptors */
	uint64_t last_seq = l->timer_seq;

	while (l->n_timers > 0) {
		struct loop_timer *t = l->heap[0];

		if (t->at_ms > l->now_ms || t->seq > last_seq)
			break;
		loop_timer_del(t);
		t->on_timer(t);
	}
}

/* deferred calls */

void loop_defer_add(struct loop *l, struct loop_defer *d,
		    void (*on_defer)(struct loop_defer *))
{
	if (d->loop)
		return;
	d->loop = l;
	d->on_defer = on_defer;
	list_add_tail(&l->defers, &d->link);
}

void loop_defer_del(struct loop_defer *d)
{
	if (!d->loop)
		return;
	list_del(&d->link);
	d->loop = NULL;
}

/* Move all entries of from to the empty list to. */
static void list_move_all(struct list *to, struct list *from)
{
	list_init(to);
	if (list_empty(from))
		return;
	list_add(from, to);
	list_del(from);
}

static void dispatch_defers(struct loop *l)
{
	struct list round;

	list_move_all(&round, &l->defers);
	while (!list_empty(&round)) {
		struct loop_defer *d =
		    list_entry(list_first(&round), struct loop_defer, link);

		loop_defer_del(d);
		d->on_defer(d);
	}
}

/* signals */

static void dispatch_signal(struct loop *l, int signo)
{
	struct list round;

	list_move_all(&round, &l->signals);
	while (!list_empty(&round)) {
		struct loop_signal *s =
		    list_entry(list_first(&round), struct loop_signal, link);

		list_del(&s->link);
		list_add_tail(&l->signals, &s->link);
		if (s->signo == signo)
			s->on_signal(s);
	}
}

static void on_signalfd(struct loop_io *io, unsigned events)
{
	struct signalfd_siginfo si[SIGNALS_AT_ONCE];
	struct loop *l = io->loop;
	ssize_t n = read(io->fd, si, sizeof(si));

	(void)events;
	/* a short count leaves the rest for the next round */
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(si[0]); i++)
		dispatch_signal(l, (int)si[i].ssi_signo);
}

int loop_signal_add(struct loop *l, struct loop_signal *s, int signo,
		    void (*on_signal)(struct loop_signal *))
{
	sigset_t one;
	int fd, r;

	CHECK(!s->loop);
	sigemptyset(&one);
	if (sigaddset(&one, signo) < 0)
		return -EINVAL;
	r = pthread_sigmask(SIG_BLOCK, &one, NULL);
	if (r != 0)
		return -r;
	sigaddset(&l->mask, signo);
	fd = signalfd(l->signal_io.fd, &l->mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (l->signal_io.fd < 0) {
		r = loop_io_add(l, &l->signal_io, fd, LOOP_IN, on_signalfd);
		if (r < 0) {
			close(fd);
			return r;
		}
	}
	s->loop = l;
	s->signo = signo;
	s->on_signal = on_signal;
	list_add_tail(&l->signals, &s->link);
	return 0;
}

void loop_signal_del(struct loop_signal *s)
{
	struct loop *l = s->loop;

	if (!l)
		return;
	/* stays blocked and in the signalfd: unblocking would deliver what is
	 * pending, and the default action of most signals is to kill us */
	list_del(&s->link);
	s->loop = NULL;
}

/* processes */

static int status_of(const siginfo_t *si)
{
	if (si->si_code == CLD_EXITED)
		return W_EXITCODE(si->si_status & 0xff, 0);
	return si->si_status | (si->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

static void on_pidfd(struct loop_io *io, unsigned events)
{
	struct loop_proc *p = container_of(io, struct loop_proc, io);
	siginfo_t si = { 0 };
	int status = -1;

	(void)events;
	if (waitid(P_PIDFD, (id_t)io->fd, &si, WEXITED | WNOHANG) == 0) {
		if (si.si_pid == 0)
			return; /* alive: a spurious wake-up */
		status = status_of(&si);
	}
	loop_proc_del(p);
	p->on_exit(p, status);
}

int loop_proc_add_take(struct loop *l, struct loop_proc *p, int pidfd,
		       pid_t pid, void (*on_exit)(struct loop_proc *, int))
{
	int r;

	p->pid = pid;
	p->on_exit = on_exit;
	r = loop_io_add(l, &p->io, pidfd, LOOP_IN, on_pidfd);
	if (r < 0)
		fd_close(pidfd);
	return r;
}

void loop_proc_del(struct loop_proc *p)
{
	int fd = p->io.fd;

	if (!p->io.loop)
		return;
	loop_io_del(&p->io);
	p->io.fd = fd_close(fd);
}

/* rounds */

static int wait_ms(const struct loop *l, int timeout_ms)
{
	uint64_t left;

	if (!list_empty(&l->defers))
		return 0;
	if (l->n_timers == 0)
		return timeout_ms;
	if (l->heap[0]->at_ms <= l->now_ms)
		return 0;
	left = l->heap[0]->at_ms - l->now_ms;
	if (timeout_ms >= 0 && (uint64_t)timeout_ms < left)
		return timeout_ms;
	return left > 3600000 ? 3600000 : (int)left;
}

int loop_once(struct loop *l, int timeout_ms)
{
	struct epoll_event ev[EVENTS_PER_ROUND];
	int n;

	CHECK(!l->running);
	l->running = true;
	l->now_ms = clock_ms();
	n = epoll_wait(l->epoll_fd, ev, EVENTS_PER_ROUND,
		       wait_ms(l, timeout_ms));
	CHECK(n >= 0 || errno == EINTR);
	l->now_ms = clock_ms();
	collect(l, ev, n);
	dispatch_io(l);
	dispatch_timers(l);
	dispatch_defers(l);
	l->running = false;
	return l->stopped;
}

int loop_run(struct loop *l)
{
	while (!l->stopped)
		(void)loop_once(l, -1);
	l->stopped = false;
	return l->value;
}
