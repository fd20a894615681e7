/* SPDX-License-Identifier: Apache-2.0 */

/* Name and link target from an archive: what is let through stays below the
 * top, and what is shown holds no control character. */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/copyspec.h"
#include "cli/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Walk a target from its link's folder; below zero is out. */
static void stays(const char *name, const char *target)
{
	long depth = 0;

	for (const char *s = name; (s = strchr(s, '/')); s++)
		depth++;
	CHECK(*target != '/');
	while (*target) {
		size_t k = strcspn(target, "/");

		if (k == 2 && !memcmp(target, "..", 2))
			CHECK(--depth >= 0);
		else if (k > 0 && !(k == 1 && *target == '.'))
			depth++;
		target += k;
		target += *target == '/';
	}
}

static void check_name(const char *name)
{
	size_t n = strlen(name);

	CHECK(n < NAME_PATH_MAX && name[0] != '/');
	CHECK(strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0);
	CHECK(!strstr(name, "/../") && !strstr(name, "//"));
	CHECK(n < 3 || strcmp(name + n - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	owned_str shown = name_shown((const char *)p, n);
	owned_str text = xstrndup((const char *)p, n);
	const char *target = memchr(p, '\0', n);
	char name[NAME_PATH_MAX];
	struct copyspec s;

	CHECK(text_utf8_prefix(shown, strlen(shown)) == strlen(shown));
	for (const char *c = shown; *c; c++)
		CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
	if (copyspec_parse(text, &s))
		CHECK(s.place == COPY_STREAM || *s.path);
	copyspec_fini(&s);
	if (name_of_entry(text, name) < 0)
		return 0;
	check_name(name);
	if (target) {
		owned_str to = xstrndup(
		    target + 1, (size_t)((const char *)p + n - target - 1));

		if (name_link_stays(name, to))
			stays(name, to);
	}
	return 0;
}
