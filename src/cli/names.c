/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/names.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

#define PART_MAX 255u

/* The code point of the n bytes, which are one of valid UTF-8. */
static uint32_t code_point(const unsigned char *p, size_t n)
{
	uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return c;
}

static bool may_show(uint32_t c)
{
	return c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0) &&
	       c != '\\' && !(c >= 0x2028 && c <= 0x202e) &&
	       !(c >= 0x2066 && c <= 0x2069) && c != 0x200e && c != 0x200f &&
	       c != 0x61c && c != 0xfeff;
}

static size_t length_of(unsigned char first)
{
	return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

char *name_shown(const char *s, size_t n)
{
	char *out = xcalloc(4 * n + 1, 1), *to = out;
	size_t valid = text_utf8_prefix(s, n);

	for (size_t at = 0; at < n;) {
		size_t len = 1;

		if (at >= valid) /* behind a byte that is none */
			valid = at + text_utf8_prefix(s + at, n - at);
		if (at < valid) {
			const unsigned char *p = (const unsigned char *)s + at;

			len = length_of(*p);
			if (len <= n - at && may_show(code_point(p, len))) {
				memcpy(to, s + at, len);
				to += len;
				at += len;
				continue;
			}
		}
		for (; len > 0 && at < n; len--)
			to +=
			    snprintf(to, 5, "\\x%02x", (unsigned char)s[at++]);
	}
	return out;
}

char *name_shown_str(const char *s)
{
	return name_shown(s ? s : "", s ? strlen(s) : 0);
}

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

int name_of_entry(const char *name, char ret[NAME_PATH_MAX])
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
		if (n > PART_MAX || used + n + 2 > NAME_PATH_MAX)
			return -ENAMETOOLONG;
		if (used)
			ret[used++] = '/';
		memcpy(ret + used, p, n);
		used += n;
	}
	ret[used] = '\0';
	return 0;
}

bool name_link_stays(const char *name, const char *target)
{
	unsigned above = 0; /* how many ".." are left */
	bool named = false;
	size_t n;

	if (!*target || *target == '/')
		return false;
	for (const char *p = name; (p = strchr(p, '/')); p++)
		above++;
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
