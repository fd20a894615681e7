/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exit codes. A command's own code passes through; what is ours lies where
 * shells and env(1) keep it: 125 our failure, 126 refused, 127 not found, 124
 * timeout. A code is never made up: an exit fact without a code is 125 with a
 * note that says why.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

enum {
	CLI_OK = 0,
	CLI_TIMEOUT = 124,
	CLI_OURS = 125,
	CLI_REFUSED = 126,
	CLI_NOT_FOUND = 127,
};

struct fault;

int exit_of_err(const struct err *e);
int exit_of_fault(const struct fault *f);
/* From an exit fact {reason, code, signal, …}. note (may be empty) is for
 * stderr. */
int exit_of_fact(const json_t *fact, char *note, size_t n);
/* "SIGKILL" or "KILL" or 9 as text -> 9; 0 if unknown. */
int signal_number(const char *name);
