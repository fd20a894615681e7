/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reaper: PID 1 inherits every orphan of the guest, so one place waits for
 * all children. Whoever forks a process registers it here and is told its
 * status and resource use once; anything else is reaped silently.
 */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"

struct children;

struct child {
	struct list link; /* private */
	pid_t pid;	  /* 0 while not registered */
	bool is_worker;	  /* set by its owner: part of guestd, not of the
			   * workload */
	void (*on_exit)(struct child *c, int status, const struct rusage *ru);
};

/* One per process: it owns SIGCHLD. */
struct children *children_new(struct loop *l);
struct children *children_free(struct children *s);
/* Call in the same round as the fork. c must live until on_exit or del. */
void children_add(struct children *s, struct child *c, pid_t pid,
		  void (*on_exit)(struct child *, int, const struct rusage *));
/* Is this a registered process that is_worker? */
bool children_is_worker(const struct children *s, pid_t pid);
/* Forget: the process is reaped silently later. No-op if not registered. */
void children_del(struct child *c);

/*
 * fork() for processes that will run something else: the child has default
 * signal dispositions and an empty mask, as a program expects at exec.
 */
pid_t children_fork(void);
/* The same, and the child begins in that cgroup (a directory; -1 = ours):
 * moving a process there afterwards waits for all CPUs. *ret_inside false: it
 * must be moved, since the kernel would not (an old one, or the cgroup is
 * full). */
pid_t children_fork_into(int cgroup, bool *ret_inside);
