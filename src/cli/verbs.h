/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of the command line: verbs there are, and verbs that a later
 * version brings, each with what serves meanwhile. */

#include <stddef.h>

#include "cli/cli.h"

extern const struct verb cli_verbs[];
extern const size_t n_cli_verbs;
extern const struct verb_later cli_later[];
extern const size_t n_cli_later;
