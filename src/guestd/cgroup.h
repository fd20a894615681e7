/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The guest's cgroups (v2), by descriptors held since boot:
 *
 *   /            kernel threads, nothing else
 *   caisson/     guestd and its file workers; cpu.weight 10000
 *   workload/    everything else, limited below the guest's memory
 *     ex_…/      one per exec
 *     strays/    what guest root had put beside guestd
 *
 * Guest root may move processes anywhere and make cgroups of its own, so freeze
 * looks at the whole tree. cgroupfs never blocks on a disk.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guestd/guestd.h"

#define CGROUP_PIDS_MAX 64

struct limits {
	uint64_t memory_bytes, pids;
};
/*
 * What the workload may take of a guest, so that guestd can always fork and
 * answer, and the out-of-memory killer comes before everything thrashes. Pure.
 * available: what the kernel says is free at boot; it has taken its own from
 * the total. threads_max, pid_max: the kernel's; 0 = unknown.
 */
struct limits cgroup_limits(uint64_t mem_total_bytes, uint64_t available_bytes,
			    uint64_t threads_max, uint64_t pid_max);

/* At boot: controllers, the two children, guestd into its own. Also opens
 * h->workload and h->own from h->cgroup. 0 / -errno. */
int cgroup_setup(struct held *h, uint64_t mem_total_bytes);

/* A cgroup for an exec; descriptor or -errno. */
int cgroup_make(int parent, const char *name);
/* It and those made below it. 0, -EBUSY while processes are in it. */
int cgroup_remove(int parent, const char *name);

/* Write text to a file of a cgroup directory; 0 / -errno. */
int cgroup_write(int dir, const char *file, const char *text);
/* Number behind `key ` in a flat-keyed file; -1 if there is none. */
int64_t cgroup_value(int dir, const char *file, const char *key);
/* Process ids in a cgroup and below it, at most max; total number or -errno. */
ssize_t cgroup_pids(int dir, pid_t *ret, size_t max);
/* Send a signal to every process in it and below it; number of processes. */
size_t cgroup_signal(int dir, int signo);

/* Freeze or thaw everything outside guestd's own cgroup. Asks only; see
 * cgroup_is_frozen(). 0 / -errno. */
int cgroup_freeze_all(const struct guestd *g, bool freeze);
/* Every cgroup asked to freeze reports that it is frozen. */
bool cgroup_is_frozen(const struct held *h);
