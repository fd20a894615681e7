/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Readiness loop on epoll, one per thread. Objects embed their sources; a
 * source is removed before its descriptor is closed; callbacks never block and
 * may free their owner or any other source's owner (a round works on a list
 * that it swapped out, and a removed source is never touched again).
 *
 * Level-triggered unless LOOP_EDGE is asked for.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct loop;

enum loop_events {
	LOOP_IN = 1,
	LOOP_OUT = 2,
	LOOP_HUP = 4, /* always reported, together with LOOP_ERR as HUP */
	LOOP_EDGE = 8,
};

struct loop_io {
	struct loop *loop; /* NULL while not added */
	int fd;
	unsigned events;  /* asked for */
	unsigned pending; /* private */
	struct list link; /* private */
	void (*on_io)(struct loop_io *io, unsigned events);
};

struct loop_timer {
	struct loop *loop; /* NULL while not armed */
	uint64_t at_ms;	   /* CLOCK_MONOTONIC */
	size_t index;	   /* private: place in the heap */
	uint64_t seq;	   /* private: order among equal times */
	void (*on_timer)(struct loop_timer *t);
};

/* Runs once at the end of the current round (or the next, if added from the
 * outside); may be added again from its own callback. */
struct loop_defer {
	struct loop *loop; /* NULL while not queued */
	struct list link;
	void (*on_defer)(struct loop_defer *d);
};

struct loop_signal {
	struct loop *loop;
	int signo;
	struct list link;
	void (*on_signal)(struct loop_signal *s);
};

/* A process by pidfd; need not be our child. */
struct loop_proc {
	struct loop_io io;
	pid_t pid;
	/* status: wait status if it was our child and was reaped here, else -1
	 */
	void (*on_exit)(struct loop_proc *p, int status);
};

struct loop *loop_new(void); /* never NULL; aborts if epoll cannot be had */
struct loop *loop_free(struct loop *l); /* all sources must be removed */

/* Run until loop_stop(); returns the value given to it. */
int loop_run(struct loop *l);
/* One round: wait at most timeout_ms (-1 = for ever), dispatch what is ready.
 * Returns 0, or 1 if loop_stop() was called. */
int loop_once(struct loop *l, int timeout_ms);
void loop_stop(struct loop *l, int value);
/* Monotonic milliseconds, read once per round. */
uint64_t loop_now_ms(const struct loop *l);

/* fd stays the caller's. 0 or -errno (EPERM for regular files). */
int loop_io_add(struct loop *l, struct loop_io *io, int fd, unsigned events,
		void (*on_io)(struct loop_io *, unsigned));
int loop_io_set(struct loop_io *io, unsigned events);
void loop_io_del(struct loop_io *io); /* no-op if not added */

/* (Re-)arm to fire once after delay_ms. */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t delay_ms,
		    void (*on_timer)(struct loop_timer *));
void loop_timer_del(struct loop_timer *t); /* no-op if not armed */

void loop_defer_add(struct loop *l, struct loop_defer *d,
		    void (*on_defer)(struct loop_defer *));
void loop_defer_del(struct loop_defer *d);

/* Blocks signo in this thread and delivers it here by signalfd. */
int loop_signal_add(struct loop *l, struct loop_signal *s, int signo,
		    void (*on_signal)(struct loop_signal *));
void loop_signal_del(struct loop_signal *s);

/* Takes pidfd over, also on failure (closed by loop_proc_del, which on_exit may
 * call but need not: the source is removed before on_exit). */
int loop_proc_add_take(struct loop *l, struct loop_proc *p, int pidfd,
		       pid_t pid, void (*on_exit)(struct loop_proc *, int));
void loop_proc_del(struct loop_proc *p);
