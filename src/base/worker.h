/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Work that blocks, done in a forked process that lives for one job.
 *
 * The child runs a function of this program (no exec), sends one report with
 * descriptors and exits; the parent's loop hears of it once, when the child is
 * gone. A job that passes its deadline is killed. What the job changed in the
 * world stays changed, also after a failure: undoing is the caller's.
 *
 * For single-threaded programs only (the child is a plain fork).
 */

#include <stddef.h>
#include <stdint.h>

#include "base/channel.h"
#include "base/err.h"
#include "base/loop.h"

#define WORKER_DATA_MAX 128u

struct worker_report {
	int32_t r;    /* 0 or a negative errno, with kind and msg */
	int32_t kind; /* enum err_kind */
	uint64_t a, b;
	char data[WORKER_DATA_MAX];
	char msg[ERR_MSG_MAX];
};

struct worker {
	struct loop_proc proc;
	struct loop_timer deadline;
	int sock;
	bool timed_out;
	void (*on_done)(struct worker *w, const struct worker_report *rep,
			int *fds, size_t n_fds);
};

/* The job. Fills *rep (zeroed; r is set from the value returned, msg from *e
 * if that is negative) and ret_fds[0..CHANNEL_FDS_MAX). */
typedef int worker_fn(void *arg, struct worker_report *rep, int *ret_fds,
		      size_t *ret_n_fds, struct err *e);

/*
 * Start fn(arg) in a child. on_done is called exactly once, from the loop, with
 * descriptors that it takes with take_fd() or leaves to be closed; w may be
 * freed or started again from there. A child that died without a report shows
 * as -EIO, one that was killed at its deadline as -ETIMEDOUT.
 */
int worker_start(struct loop *l, struct worker *w, worker_fn *fn, void *arg,
		 uint64_t timeout_ms,
		 void (*on_done)(struct worker *, const struct worker_report *,
				 int *, size_t),
		 struct err *e);
/* Kill it and wait for its end (a killed process goes at once unless it sits in
 * the kernel); on_done is not called. No-op if it does not run. */
void worker_stop(struct worker *w);
