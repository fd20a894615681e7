/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One thing of the file system as JSON, e.g. for a list. */

#include <sys/stat.h>

#include "net/json.h"

/* file: how it is reached from dir; name and path: what the entry says. */
json_t *list_entry(int dir, const char *file, const char *name,
		   const char *path, const struct stat *st);
