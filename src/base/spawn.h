/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Start a helper program with exactly the descriptors named. No shell, no
 * search path: argv[0] is an absolute path unless exe_fd is given. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SPAWN_FDS_MAX	 32
#define SPAWN_GROUPS_MAX 8

struct spawn {
	const char *const *argv;
	const char *const *envp; /* NULL = an empty environment */
	int exe_fd;		 /* -1 = use argv[0] */
	int stdio[3];		 /* -1 = /dev/null */
	/* fds[i] becomes descriptor 3 + i in the child; everything else is
	 * closed. */
	const int *fds;
	size_t n_fds;
	bool set_ids; /* change to uid, gid, groups before exec */
	uid_t uid;
	gid_t gid;
	gid_t groups[SPAWN_GROUPS_MAX];
	size_t n_groups;
	bool new_session;     /* setsid */
	bool die_with_parent; /* PR_SET_PDEATHSIG SIGKILL */
	bool no_new_privs;
	const char *cwd; /* NULL = "/" */
};

/* Returns 0 with pid and a pidfd (CLOEXEC, the caller's), or a negative errno
 * with *e set, also when the exec itself failed: nothing is left running. */
int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd,
		struct err *e);
