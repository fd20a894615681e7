/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `up` needs of the machine: programs and kernel features (all that is
 * missing is named at once, with the remedy), system users, folders with their
 * owners. Root; blocking. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/stack.h"

struct host_facts {
	bool root, cgroup2, tun, qemu, nft, postgres, useradd, parts;
	bool needs_vm; /* the engine is not "null" */
};

void host_look(const struct stack *s, struct host_facts *ret);
/* A line for each thing that is missing, then one apt command for all of them.
 * Returns how many are missing. Pure. */
int host_missing(const struct host_facts *f, const char *libexec,
		 struct buf *out);
/* Create the users that are absent: caisson, caisson-node, caisson-store,
 * caisson-db. */
int host_users(struct err *e);
int host_dirs(const struct stack *s, struct err *e);
/* What reaches a daemon's log; rotated to NAME.log.1 when it grows. */
char *host_log_path(const struct stack *s, const char *name);
