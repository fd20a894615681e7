/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/archive_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

#define MADE_MAX   (1u << 20)
#define LATE_MAX   (1u << 16)
#define LATE_BYTES (16u << 20)

struct made_link {
	dev_t dev;
	ino_t ino; /* 0: free */
};

struct late_folder {
	char *name;
	mode_t mode;
	struct timespec mtime;
};

int archive_tree_open(struct archive_tree *t, const char *path)
{
	char self[32], below[FILE_PATH_MAX + 1];
	ssize_t n;
	int r;

	t->top = t->last = -1;
	snprintf(below, sizeof(below), "%s/", path);
	r = filework_parents(below, &t->owner);
	if (r < 0)
		return r;
	t->top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->top < 0)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", t->top);
	n = readlink(self, t->path, sizeof(t->path) - 1);
	if (n < 0)
		return -errno;
	t->path[n] = '\0';
	return 0;
}

void archive_tree_fini(struct archive_tree *t)
{
	for (size_t i = 0; i < t->n_late; i++)
		free(t->late[i].name);
	free(t->late);
	free(t->made);
	t->last = fd_close(t->last);
	t->top = fd_close(t->top);
}

/* ---- links of the archive ---- */

static size_t place(const struct archive_tree *t, dev_t dev, ino_t ino)
{
	size_t at =
	    (size_t)(ino * 0x9e3779b97f4a7c15u + dev) & (t->cap_made - 1);

	while (t->made[at].ino &&
	       (t->made[at].ino != ino || t->made[at].dev != dev))
		at = (at + 1) & (t->cap_made - 1);
	return at;
}

static bool is_made(const struct archive_tree *t, const struct stat *st)
{
	if (t->too_many)
		return true;
	return t->cap_made && t->made[place(t, st->st_dev, st->st_ino)].ino;
}

static void grow(struct archive_tree *t)
{
	struct archive_tree old = *t;

	t->cap_made = old.cap_made ? 2 * old.cap_made : 256;
	t->made = xnew_n(struct made_link, t->cap_made);
	for (size_t i = 0; i < old.cap_made; i++)
		if (old.made[i].ino)
			t->made[place(t, old.made[i].dev, old.made[i].ino)] =
			    old.made[i];
	free(old.made);
}

void archive_tree_made(struct archive_tree *t, int dir, const char *name)
{
	struct stat st;
	size_t at;

	if (t->n_made >= MADE_MAX ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		t->too_many = true;
		return;
	}
	if (2 * (t->n_made + 1) > t->cap_made)
		grow(t);
	at = place(t, st.st_dev, st.st_ino);
	t->n_made += t->made[at].ino == 0;
	t->made[at] = (struct made_link){ st.st_dev, st.st_ino };
}

/* ---- folders ---- */

/* One part of the way. */
static int step(struct archive_tree *t, int at, const char *part)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	struct stat st;
	int fd = openat(at, part, flags | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(at, part, 0755) < 0)
			return -errno;
		fd = openat(at, part, flags | O_NOFOLLOW);
		if (fd >= 0 && fchownat(fd, "", t->owner.uid, t->owner.gid,
					AT_EMPTY_PATH) < 0) {
			int r = -errno;

			fd_close(fd);
			return r;
		}
		return fd < 0 ? -errno : fd;
	}
	if (fd >= 0 || (errno != ENOTDIR && errno != ELOOP))
		return fd < 0 ? -errno : fd;
	if (fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return -ENOTDIR;
	if (is_made(t, &st))
		return -ELOOP;
	/* it was there before: the guest's own */
	fd = openat(at, part, flags);
	return fd < 0 ? -errno : fd;
}

int archive_tree_folder(struct archive_tree *t, const char *name,
			const char **ret_last)
{
	const char *slash = strrchr(name, '/');
	char folder[FILE_PATH_MAX];
	char *part = folder, *end;
	int at;

	*ret_last = slash ? slash + 1 : name;
	if (!slash)
		return t->top;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - name), name);
	if (t->last >= 0 && strcmp(folder, t->last_name) == 0)
		return t->last;
	at = fcntl(t->top, F_DUPFD_CLOEXEC, 3);
	for (; at >= 0 && part; part = end) {
		int next;

		end = strchr(part, '/');
		if (end)
			*end++ = '\0';
		next = step(t, at, part);
		fd_close(at);
		at = next;
	}
	if (at < 0)
		return at;
	fd_close(t->last);
	t->last = at;
	snprintf(t->last_name, sizeof(t->last_name), "%.*s",
		 (int)(slash - name), name);
	return at;
}

static void add_late(struct archive_tree *t, const char *name, mode_t mode,
		     const struct timespec *mtime)
{
	if (t->n_late >= LATE_MAX || t->late_bytes > LATE_BYTES)
		return; /* it keeps the mode that it was made with */
	if (!t->late)
		t->late = xnew_n(struct late_folder, LATE_MAX);
	t->late_bytes += strlen(name);
	t->late[t->n_late++] =
	    (struct late_folder){ xstrdup(name), mode, *mtime };
}

int archive_tree_mkdir(struct archive_tree *t, const char *name, mode_t mode,
		       const struct timespec *mtime)
{
	const char *last;
	struct stat st;
	int dir = archive_tree_folder(t, name, &last), fd;

	if (dir < 0)
		return dir;
	if (mkdirat(dir, last, 0700 | (mode & 0777)) < 0) {
		if (errno != EEXIST)
			return -errno;
		if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISDIR(st.st_mode))
			return 1;
		/* a link to a folder, if the archive may go through it */
		fd = step(t, dir, last);
		fd_close(fd);
		return fd < 0 ? fd : 1;
	}
	if (fchownat(dir, last, t->owner.uid, t->owner.gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	add_late(t, name, mode, mtime);
	return 0;
}

void archive_tree_finish(struct archive_tree *t)
{
	while (t->n_late > 0) {
		struct late_folder *l = &t->late[--t->n_late];
		struct timespec times[2] = { { 0, UTIME_OMIT }, l->mtime };
		const char *last;
		int dir = archive_tree_folder(t, l->name, &last);
		owned_fd fd = -1;

		if (dir >= 0)
			fd = openat(dir, last,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					O_CLOEXEC);
		if (fd >= 0) {
			(void)fchmod(fd, l->mode & 07777);
			(void)futimens(fd, times);
		}
		free(l->name);
	}
}
