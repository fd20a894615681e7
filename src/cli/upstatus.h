/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What runs here, in words: from RUN/state.json and from the API. */

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/stack.h"

/* Wait until the supervisor said "up" once; false at the deadline. */
bool upstatus_wait(const struct stack *s, unsigned timeout_ms);
/* A few lines of facts (or JSON); CLI_OK if everything is ready. */
int upstatus_print(struct cli *c, const struct stack *s);
/* Units as words: "postgres ready · noded, sandboxd ready · api restarting
 * (exit status 1)". Pure. */
void upstatus_units(const json_t *state, struct buf *out);
