/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Verbs of `template` that talk to the API alone. */

#include "cli/cli.h"

int template_info(struct cli *c, int argc, char **argv);
int template_tag(struct cli *c, int argc, char **argv);
int template_rm(struct cli *c, int argc, char **argv);
