/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Progress on stderr: a bar that is painted over on a terminal, else a plain
 * line for each phase and every 5 s. */

#include <stdbool.h>

#include "cli/progress.h"

struct meter {
	struct progress p;
	bool terminal, quiet, painted;
	uint64_t painted_ms;
};

void meter_init(struct meter *m, bool quiet);
void meter_line(struct meter *m, const char *line); /* "progress …" */
void meter_set(struct meter *m, uint64_t done, uint64_t total,
	       const char *phase);
void meter_tick(struct meter *m); /* now and then: time goes on */
void meter_end(struct meter *m);  /* leave the line */
