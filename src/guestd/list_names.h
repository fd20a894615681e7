/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The smallest names of a folder beyond a bound, in order, in memory that
 * depends on their number alone. */

#include <dirent.h>
#include <stddef.h>

struct list_names {
	char **name;
	size_t n, cap;
};

/* At most max names that are >= from ("" = all), by bytes. 0 or -errno. */
int list_names_read(struct list_names *s, DIR *d, const char *from, size_t max);
void list_names_fini(struct list_names *s);
