/* SPDX-License-Identifier: Apache-2.0 */

/* The smallest names of a folder beyond a bound, in order. */

#include "guestd/list_names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* name[0] is the greatest: a heap. */
static void sift_down(struct list_names *s, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		char *swap;

		if (child >= s->n)
			return;
		if (child + 1 < s->n &&
		    strcmp(s->name[child + 1], s->name[child]) > 0)
			child++;
		if (strcmp(s->name[child], s->name[at]) <= 0)
			return;
		swap = s->name[at];
		s->name[at] = s->name[child];
		s->name[child] = swap;
		at = child;
	}
}

static void sift_up(struct list_names *s, size_t at)
{
	while (at > 0 && strcmp(s->name[(at - 1) / 2], s->name[at]) < 0) {
		char *swap = s->name[at];

		s->name[at] = s->name[(at - 1) / 2];
		s->name[(at - 1) / 2] = swap;
		at = (at - 1) / 2;
	}
}

static void offer(struct list_names *s, size_t max, const char *name)
{
	if (s->n == max) {
		if (strcmp(name, s->name[0]) >= 0)
			return;
		free(s->name[0]);
		s->name[0] = xstrdup(name);
		sift_down(s, 0);
		return;
	}
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 32;
		char **more = xnew_n(char *, cap);

		if (s->n)
			memcpy(more, s->name, s->n * sizeof(*more));
		free(s->name);
		s->name = more;
		s->cap = cap;
	}
	s->name[s->n] = xstrdup(name);
	sift_up(s, s->n++);
}

int list_names_read(struct list_names *s, DIR *d, const char *from, size_t max)
{
	struct dirent *entry;

	*s = (struct list_names){ 0 };
	for (;;) {
		const char *name;

		errno = 0;
		entry = readdir(d);
		if (!entry)
			break;
		name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    strcmp(name, from) < 0)
			continue;
		offer(s, max, name);
	}
	if (errno != 0)
		return -errno;
	if (s->n)
		qsort(s->name, s->n, sizeof(*s->name), by_bytes);
	return 0;
}

void list_names_fini(struct list_names *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->name[i]);
	free(s->name);
	*s = (struct list_names){ 0 };
}
