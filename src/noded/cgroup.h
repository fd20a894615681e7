/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cgroups of our slots: V2ROOT/CAISSON/slot-N/{vmm,monitor}.
 *
 * A slot's identity is its cgroup: processes enter it at birth
 * (CLONE_INTO_CGROUP), cannot leave it, and it outlives noded. Always the v2
 * hierarchy, also beside a v1 one (hybrid hosts): v1 can neither kill a group
 * at once nor kill what is frozen. Limits are set where v2 has the controllers.
 *
 * All calls are short file operations on cgroupfs, except cgroup_wait_empty().
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct cgroups {
	int dir; /* V2ROOT/CAISSON */
	bool has_memory, has_pids;
};

enum cgroup_role { CGROUP_SLOT, CGROUP_VMM, CGROUP_MONITOR };

/* Find the v2 hierarchy and make our cgroup. *e names the remedy. */
int cgroups_open(struct cgroups *g, const char *name, struct err *e);
void cgroups_close(struct cgroups *g);
int cgroups_remove(const char *name); /* our cgroup itself, once empty */

int cgroup_create(const struct cgroups *g, unsigned slot, struct err *e);
/*
 * Make a role's empty group anew. On Linux 6.18 whoever is cloned into a group
 * that cgroup.kill was ever used on is killed at birth, so a group serves one
 * process and is replaced for the next. -EBUSY while processes live in it.
 */
int cgroup_renew(const struct cgroups *g, unsigned slot, enum cgroup_role role,
		 struct err *e);
/* 0, also if absent; -EBUSY while processes live in it. */
int cgroup_remove(const struct cgroups *g, unsigned slot);
bool cgroup_exists(const struct cgroups *g, unsigned slot);
/* For clone3(); a descriptor or a negative errno. */
int cgroup_fd(const struct cgroups *g, unsigned slot, enum cgroup_role role);
/* Where controllers exist. bytes and pids are of the role's whole group. */
int cgroup_limit(const struct cgroups *g, unsigned slot, enum cgroup_role role,
		 uint64_t bytes, unsigned pids, struct err *e);

/* 0, also if there is nothing to kill; kills forkers too. */
int cgroup_kill(const struct cgroups *g, unsigned slot, enum cgroup_role role);
bool cgroup_populated(const struct cgroups *g, unsigned slot,
		      enum cgroup_role role);
/* Blocks; 0 or -ETIMEDOUT. */
int cgroup_wait_empty(const struct cgroups *g, unsigned slot, int timeout_ms);
/* The first process of the group: the one that is 1 in its pid namespace; 0 if
 * none lives. */
pid_t cgroup_leader(const struct cgroups *g, unsigned slot,
		    enum cgroup_role role);
uint32_t cgroup_oom_kills(const struct cgroups *g, unsigned slot);

/* "key value\n" lines, as in cgroup.events; 0 if the key is absent. Pure. */
uint64_t cgroup_key(const char *text, const char *key);
/* Is the last number of the NSpid line of a /proc/PID/status 1? Pure. */
bool cgroup_status_is_init(const char *status);
