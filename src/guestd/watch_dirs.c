/* SPDX-License-Identifier: Apache-2.0 */

/* Which inotify descriptor is which folder. The kernel counts descriptors up
 * and does not use one again, so a list that is appended to stays sorted. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "guestd/watch.h"

struct watch_dir {
	int wd;
	char *path; /* NULL: gone */
};

static struct watch_dir *find(const struct watch_dirs *s, int wd)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->dir[mid].wd == wd)
			return &s->dir[mid];
		if (s->dir[mid].wd < wd)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* Room for one more: without those that are gone, or twice as large. */
static void make_room(struct watch_dirs *s)
{
	struct watch_dir *more;
	size_t n = 0;

	if (s->n < s->cap)
		return;
	s->cap = s->n_alive < s->cap / 2 ? s->cap : 2 * s->cap + 64;
	more = xnew_n(struct watch_dir, s->cap);
	for (size_t i = 0; i < s->n; i++)
		if (s->dir[i].path)
			more[n++] = s->dir[i];
	free(s->dir);
	s->dir = more;
	s->n = n;
}

static void insert(struct watch_dirs *s, int wd, const char *path)
{
	size_t at;

	make_room(s);
	/* out of order only where the kernel's count began again */
	for (at = s->n; at > 0 && s->dir[at - 1].wd > wd; at--)
		s->dir[at] = s->dir[at - 1];
	s->dir[at] = (struct watch_dir){ wd, xstrdup(path) };
	s->n++;
	s->n_alive++;
}

int watch_dirs_set(struct watch_dirs *s, int wd, const char *path)
{
	struct watch_dir *d = find(s, wd);

	if (d && d->path) {
		char *old = d->path;

		d->path = xstrdup(path);
		free(old);
		return 0;
	}
	if (s->n_alive >= WATCH_DIRS_MAX)
		return -ENOSPC;
	if (d) {
		d->path = xstrdup(path);
		s->n_alive++;
		return 0;
	}
	insert(s, wd, path);
	return 0;
}

const char *watch_dirs_get(const struct watch_dirs *s, int wd)
{
	const struct watch_dir *d = find(s, wd);

	return d ? d->path : NULL;
}

static void forget(struct watch_dirs *s, struct watch_dir *d)
{
	free(d->path);
	d->path = NULL;
	s->n_alive--;
}

void watch_dirs_del(struct watch_dirs *s, int wd)
{
	struct watch_dir *d = find(s, wd);

	if (d && d->path)
		forget(s, d);
}

void watch_dirs_move(struct watch_dirs *s, const char *from, const char *to,
		     void (*drop)(void *arg, int wd), void *arg)
{
	size_t n = strlen(from);

	for (size_t i = 0; i < s->n; i++) {
		struct watch_dir *d = &s->dir[i];
		char *old = d->path;

		if (!old || strncmp(old, from, n) != 0 ||
		    (old[n] != '\0' && old[n] != '/'))
			continue;
		if (to) {
			d->path = xasprintf("%s%s", to, old + n);
			free(old);
		} else {
			forget(s, d);
			drop(arg, d->wd);
		}
	}
}

void watch_dirs_fini(struct watch_dirs *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->dir[i].path);
	free(s->dir);
	*s = (struct watch_dirs){ 0 };
}
