/* SPDX-License-Identifier: Apache-2.0 */

/* What names and link targets of an archive may be. Pure. */

#include <errno.h>
#include <string.h>

#include "guestd/archives.h"

#define PART_MAX 255u

/* The next part of a path, or 0 at its end. */
static size_t next_part(const char **p)
{
	*p += strspn(*p, "/");
	return strcspn(*p, "/");
}

static bool is_part(const char *p, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(p, what, n) == 0;
}

int archive_name(const char *name, char ret[FILE_PATH_MAX])
{
	const char *p = name;
	size_t n, used = 0;

	if (*name == '/' || !*name)
		return -EINVAL;
	for (; (n = next_part(&p)) > 0; p += n) {
		if (is_part(p, n, "."))
			continue;
		if (is_part(p, n, ".."))
			return -EINVAL;
		if (n > PART_MAX || used + n + 2 > FILE_PATH_MAX)
			return -ENAMETOOLONG;
		if (used)
			ret[used++] = '/';
		memcpy(ret + used, p, n);
		used += n;
	}
	ret[used] = '\0';
	return 0;
}

/* Skip the parts of top at the start of an absolute target. */
static bool skip_top(const char *top, const char **target)
{
	size_t n;

	for (; (n = next_part(&top)) > 0; top += n) {
		size_t k = next_part(target);

		while (is_part(*target, k, ".")) {
			*target += k;
			k = next_part(target);
		}
		if (k != n || memcmp(*target, top, n) != 0)
			return false;
		*target += k;
	}
	return true;
}

bool archive_link_stays(const char *top, const char *name, const char *target)
{
	unsigned above = 0; /* how many ".." are left */
	bool named = false;
	size_t n;

	if (!*target)
		return false;
	if (*target == '/') {
		if (!skip_top(top, &target))
			return false;
	} else {
		for (const char *p = name; (p = strchr(p, '/')); p++)
			above++;
	}
	for (; (n = next_part(&target)) > 0; target += n) {
		if (is_part(target, n, "."))
			continue;
		if (!is_part(target, n, "..")) {
			named = true;
			continue;
		}
		if (named || above == 0)
			return false;
		above--;
	}
	return true;
}
