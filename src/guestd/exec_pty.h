/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Terminals of execs: a pair of the guest's devpts. Nothing here blocks or
 * looks a path of the root file system up. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "guestd/spec.h"

/* pts: the directory of devpts. The master does not block. 0 / -errno, *e. */
int pty_open(int pts, struct exec_size size, int *ret_master, int *ret_slave,
	     struct err *e);
/* SIGWINCH goes to the foreground job if the size changed. 0 / -errno. */
int pty_resize(int master, struct exec_size size);
/* The end-of-file character, see exec_stdin.h. 0 or -EAGAIN: call again. */
int pty_write_end(int master, bool *in_line);
/* In the child, a session leader: descriptor 0 becomes its controlling
 * terminal, owned by uid. 0 / -errno. */
int pty_take_over(uid_t uid);
