/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names and link targets of archives. The input is "name NUL target NUL top".
 * Whatever is let through is checked again in another way: by walking it.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "guestd/archives.h"
#include "guestd/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The lowest depth that a walk from `depth` reaches. */
static long lowest(long depth, const char *path)
{
	long low = depth;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.')
			depth--;
		else if (n > 0 && !(n == 1 && path[0] == '.'))
			depth++;
		low = depth < low ? depth : low;
		path += n + (path[n] == '/');
	}
	return low;
}

static void check_name(const char *name)
{
	CHECK(name[0] != '/' && strlen(name) < FILE_PATH_MAX);
	CHECK(!strstr(name, "//"));
	CHECK(lowest(0, name) == 0);
	CHECK(!*name || name[strlen(name) - 1] != '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xcalloc(1, size + 3);
	char name[FILE_PATH_MAX], cursor[FILE_PATH_MAX];
	const char *target, *top;
	long depth = 0;

	memcpy(text, data, size);
	target = text + strlen(text) + 1;
	top = target < text + size ? target + strlen(target) + 1 : "";
	if (target >= text + size)
		target = "";
	if (list_cursor_parse(text, cursor) == 0) {
		owned_str again = list_cursor(cursor);

		check_name(cursor);
		CHECK(strcmp(again, text) == 0);
	}
	if (archive_name(text, name) < 0)
		return 0;
	check_name(name);
	if (top > text + size || top[0] != '/')
		top = "/top";
	if (!archive_link_stays(top, name, target))
		return 0;
	CHECK(*target);
	for (const char *p = name; (p = strchr(p, '/')); p++)
		depth++;
	if (target[0] != '/')
		CHECK(lowest(depth, target) >= 0);
	return 0;
}
