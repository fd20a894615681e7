/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The end of a whole tree: SIGTERM to everyone, 2 s for those who want to tidy
 * up, then SIGKILL until nobody is left. Signal handlers, double forks and
 * sessions of their own do not help: the cgroup knows them all.
 */

#include <stdbool.h>

#include "guestd/exec.h"

/* Calls exec_check_end() when the tree is gone, or cannot be ended (a process
 * in the kernel's uninterruptible sleep is named in left_behind). */
void exec_kill_tree(struct exec *x);
/* Has wait4() something to tell about the leader already? */
bool exec_leader_has_ended(const struct exec *x);
