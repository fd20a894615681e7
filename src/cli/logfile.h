/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log files that daemons append to through an inherited descriptor. Rotation
 * copies and truncates, because a rename would not be seen by the writer; what
 * is written between the two is lost (a few lines, once in 16 MiB). A pipe
 * through the supervisor would lose more: its death would end the writers.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define LOGFILE_MAX (16u << 20)

/* If path is larger than max: its content becomes path.1. 1 if it was. */
int logfile_rotate(const char *path, uint64_t max);
/* The last n lines (at most 16 KiB) to out. */
int logfile_tail(const char *path, unsigned n_lines, struct buf *out);
