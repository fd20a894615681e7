/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of a slot, VMM or monitor: birth into its cgroup and namespaces
 * (clone3), the report of how its way into the jail went, and its end. After a
 * restart of noded it is somebody else's child, so only its end is learnt.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "noded/jail.h"

#define PROC_SAID_MAX 16384 /* what a VMM may write to stderr in its life */

struct proc {
	struct loop *loop;
	pid_t pid;   /* 0 = none alive */
	bool is_vmm; /* which of its slot's two; the owner's */
	bool is_starting, timed_out;
	struct loop_proc lp;
	struct loop_io report;
	int report_fd;
	struct loop_timer deadline;
	int said_fd; /* memfd behind its stderr, -1 = none */
	/* It has executed its program (e == NULL), or could not. */
	void (*on_started)(struct proc *p, const struct err *e);
	/* The end; said: last words on stderr, escaped by the logger. */
	void (*on_ended)(struct proc *p, int status, const char *said);
};

void proc_init(struct proc *p, struct loop *l,
	       void (*on_started)(struct proc *, const struct err *),
	       void (*on_ended)(struct proc *, int, const char *));
/* Kill nothing, forget it. */
void proc_fini(struct proc *p);

/*
 * Start it; j's report_fd is set here, and stderr_fd too if keep_said. Nothing
 * is running after a failure; after 0 on_started follows.
 */
int proc_start(struct proc *p, struct jail *j, int cgroup_fd, bool keep_said,
	       struct err *e);
/* Watch one that lives already. */
int proc_adopt(struct proc *p, pid_t pid, struct err *e);
int proc_pidfd(const struct proc *p); /* borrowed */
