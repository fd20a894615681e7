/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Aligned text tables: the widest cell decides, two spaces between, no space
 * at the end of a line. Width is counted in code points, control characters
 * become '?' so that a name cannot paint the terminal. Plus ages and times. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct table {
	size_t n_columns, n_cells;
	char **cells;
};

void table_init(struct table *t, size_t n_columns);
void table_fini(struct table *t);
void table_cell(struct table *t, const char *text); /* next cell; copies */
void table_cellf(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Append the text. An unfinished last row is padded with "". */
void table_write(const struct table *t, struct buf *out);
void table_print(const struct table *t); /* to stdout */

/* "12s", "5m", "3h", "9d"; negative counts as 0. */
void format_age(int64_t seconds, char *ret, size_t n);
/* RFC 3339 UTC ("2026-12-01T10:00:00.000Z") -> unix milliseconds, -1 if it is
 * none. */
int64_t parse_rfc3339(const char *s);
