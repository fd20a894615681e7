/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a VMM or monitor process goes through between birth and exec: its root
 * (jail-root.c), limits, ids, descriptors, and the end of all privileges. Runs
 * in the child, which is born in new mount, pid, ipc, uts and network
 * namespaces (the network one stays empty: inside the slot's own, the tap's
 * rules would be bypassed).
 *
 * There is no way back but exec or death; a failure is reported as (step,
 * errno) on report_fd, which the exec closes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JAIL_FDS_MAX 16

enum jail_step {
	JAIL_STEP_NONE,
	JAIL_STEP_FDS,
	JAIL_STEP_SOURCES, /* something to be shown inside is not there */
	JAIL_STEP_ROOT,
	JAIL_STEP_PIVOT,
	JAIL_STEP_LIMITS,
	JAIL_STEP_IDS,
	JAIL_STEP_ARGV,
	JAIL_STEP_EXEC,
	JAIL_STEP_MAX_,
};

struct jail {
	/* root */
	const char *build_at; /* a directory of the host to build on */
	const char *shim;     /* shown as /caisson/shim.so; NULL = none */
	const char *slot_dir; /* shown read-only as /slot, the working
			       * directory; NULL = none */
	bool kvm;	      /* show /dev/kvm */
	/* ids and limits */
	uid_t uid;   /* and gid */
	gid_t group; /* a supplementary one, 0 = none */
	unsigned max_fds, max_procs;
	/* fds[i] becomes 3 + i */
	int fds[JAIL_FDS_MAX];
	size_t n_fds;
	int stderr_fd;
	/* program */
	int exe_fd;
	int argv_fd; /* sealed memfd, or -1: argv */
	const char *const *argv;
	const char *const *envp;
	int report_fd;
};

struct jail_report {
	int32_t step;
	int32_t errnum;
};

__attribute__((noreturn)) void jail_enter(const struct jail *j);
/* Words for a step: "read its command line". */
const char *jail_step_name(int step);

/* jail-root.c: 0, or -errno with *ret_step set. */
int jail_root_enter(const struct jail *j, int *ret_step);
