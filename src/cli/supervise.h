/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The supervisor that `up` leaves running: starts the units in order, watches
 * them, restarts what dies with growing pauses and leaves the others alone.
 *
 * Every unit runs in a cgroup of its own below CGROUP/daemons, the supervisor
 * in CGROUP/supervisor, so that `down` and a new `up` find exactly what is ours
 * also after the supervisor was killed. RUN/supervisor.lock is held (flock) as
 * long as it lives; RUN/state.json says what it knows. To stop it is to kill
 * it: it does nothing on SIGTERM that a crash would not do.
 */

#include "base/err.h"
#include "cli/stack.h"

/* notify_fd (-1 for none, taken over): lines for the one who started it:
 *   unit NAME MS      ready after so many milliseconds
 *   up                all are ready
 *   failed NAME WORDS it gives up
 * Returns an exit code: 0 after SIGTERM or SIGINT. */
int supervise_take(const struct stack *s, int notify_fd);

/* flock RUN/supervisor.lock: a descriptor, or -EWOULDBLOCK if it is held. */
int supervisor_lock(const struct stack *s, struct err *e);
char *cg_path(const struct stack *s, const char *below);
