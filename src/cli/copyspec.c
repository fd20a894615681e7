/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copyspec.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

bool copyspec_parse(const char *word, struct copyspec *ret)
{
	static const char sandbox[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t n = strspn(word, sandbox);

	*ret = (struct copyspec){ 0 };
	if (!strcmp(word, "-")) {
		ret->place = COPY_STREAM;
		return true;
	}
	if (n > 0 && word[n] == ':') {
		if (!word[n + 1])
			return false;
		ret->place = COPY_SANDBOX;
		ret->sandbox = xstrndup(word, n);
		ret->path = xstrdup(word + n + 1);
		return true;
	}
	ret->path = xstrdup(word);
	return *word != '\0';
}

void copyspec_fini(struct copyspec *s)
{
	free(s->sandbox);
	free(s->path);
}

/* The last part of a path without its trailing slashes; n = 0 if it has none
 * that could be a name. */
static const char *last_part(const char *path, size_t *n)
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/';)
		start--;
	*n = end - start;
	if ((*n == 1 && path[start] == '.') ||
	    (*n == 2 && !memcmp(path + start, "..", 2)))
		*n = 0;
	return path + start;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

char *copy_target(const char *src, bool tree, const char *dest,
		  enum copy_there there, const char **ret_why)
{
	size_t n, len = strlen(dest);
	const char *name = last_part(src, &n);
	bool slash = ends_with(dest, "/");

	if (there == COPY_FILE && (slash || tree)) {
		*ret_why = "is a file, not a folder";
		return NULL;
	}
	if (there == COPY_ABSENT && slash && !tree) {
		*ret_why = "is no folder; make it, or leave the slash away";
		return NULL;
	}
	if (there != COPY_FOLDER || (tree && n == 0))
		return xstrdup(dest); /* a tree's contents, or a new name */
	if (n == 0) {
		*ret_why = "is a folder, and the source has no name: give one";
		return NULL;
	}
	return xasprintf("%s%s%.*s", dest, len && slash ? "" : "/", (int)n,
			 name);
}

bool copy_range(const char *s, uint64_t *ret_from, uint64_t *ret_all)
{
	char *end;
	uint64_t from, to, all;

	if (strncmp(s, "bytes ", 6) != 0 || s[6] < '0' || s[6] > '9')
		return false;
	from = strtoull(s + 6, &end, 10);
	if (*end != '-' || end[1] < '0' || end[1] > '9')
		return false;
	to = strtoull(end + 1, &end, 10);
	if (*end != '/' || end[1] < '0' || end[1] > '9')
		return false;
	all = strtoull(end + 1, &end, 10);
	if (*end || from > to || to >= all || all > INT64_MAX)
		return false;
	*ret_from = from;
	*ret_all = all;
	return true;
}
