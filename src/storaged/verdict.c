/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/verdict.h"

#include <string.h>

#define MAGIC 0x3154434944524556ull /* "VERDICT1" */

struct verdict verdict_of(const struct stat *st)
{
	return (struct verdict){
		.magic = MAGIC,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = st->st_mtim.tv_nsec,
		.ctime_s = st->st_ctim.tv_sec,
		.ctime_ns = st->st_ctim.tv_nsec,
	};
}

bool verdict_holds(const struct verdict *v, const struct stat *st)
{
	const struct verdict now = verdict_of(st);

	return memcmp(v, &now, sizeof(now)) == 0;
}

bool verdict_decode(const void *p, size_t n, struct verdict *ret)
{
	struct verdict v;

	if (n != sizeof(v))
		return false;
	memcpy(&v, p, sizeof(v));
	if (v.magic != MAGIC)
		return false;
	*ret = v;
	return true;
}
