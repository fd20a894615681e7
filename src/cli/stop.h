/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ending what `up` started, in order and without trusting anything that a dead
 * supervisor left behind: processes are found by their cgroups. The same path
 * serves `down`, a failed `up`, and a new `up` after a crash. Root; blocking,
 * with bounds.
 */

#include <stdbool.h>

#include "base/err.h"
#include "cli/stack.h"

/* End the supervisor and all daemons, keep sandboxes alive: what a new `up`
 * finds after a crash. say is called with short lines for people; may be NULL.
 */
int stop_daemons(const struct stack *s, void (*say)(const char *line),
		 struct err *e);
/* All of it: daemons, sandboxes, PostgreSQL, cgroups, RUN. */
int stop_all(const struct stack *s, void (*say)(const char *line),
	     struct err *e);
/* Is anything of ours alive? */
bool stop_needed(const struct stack *s);
