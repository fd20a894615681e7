/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Running share/caisson/templates/build: artifacts of a template in a folder,
 * or the digest of its inputs. Root; blocking. */

#include "base/err.h"
#include "cli/meter.h"
#include "cli/stack.h"

/* What the inputs are now: "sha256:…", allocated; NULL with *e. */
char *builder_inputs(const struct stack *s, const char *name, struct err *e);
/*
 * Build into DATA/build/NAME. A readable signal_fd (-1 for none) stops it:
 * -ECANCELED with *ret_signo set; the cache stays, so the next build goes on
 * from there. The builder's words are in *ret_log (allocated) for a failure.
 */
int builder_run(const struct stack *s, const char *name, bool refresh,
		int signal_fd, struct meter *m, char **ret_log, int *ret_signo,
		struct err *e);
char *builder_out(const struct stack *s, const char *name);
