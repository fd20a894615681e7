/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "These bytes were hashed and are what their name says", remembered beside an
 * artifact as (dev, ino, size, mtime, ctime). It holds while all five are
 * equal: any write or bit flip through the file system changes ctime, and then
 * the file is hashed again. So a restart does not read gigabytes, and a changed
 * file is never served.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct verdict {
	uint64_t magic;
	uint64_t dev, ino, size;
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

struct verdict verdict_of(const struct stat *st);
bool verdict_holds(const struct verdict *v, const struct stat *st);
/* From a record of n bytes; false if it is not one. Pure. */
bool verdict_decode(const void *p, size_t n, struct verdict *ret);
