/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Removing a tree of any depth and size, while others change it. Folders are
 * entered by descriptor and without following links, so a folder that is
 * swapped for a link is removed as a link. The way back up is ".." and must
 * lead to the very folder we came from. Only the OPEN_MAX_ innermost folders
 * are kept open; those above are read again from their start, which is cheap
 * because what was read of them before is gone.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "guestd/filework.h"

#define OPEN_MAX_  64u
#define LEVELS_MAX 100000u
/* Somebody who fills a folder while we empty it is given up on. */
#define TRIES_MAX 64u

struct level {
	DIR *d; /* NULL: closed for now */
	dev_t dev;
	ino_t ino;
	unsigned tries;
	char name[256]; /* in the folder above */
};

struct removal {
	struct file_ctx *c;
	struct level *level;
	size_t n, cap;
	char *where; /* [256] */
};

static int fail(struct removal *r, int errnum, const char *name)
{
	snprintf(r->where, 256, "%s", name);
	return -errnum;
}

static int push(struct removal *r, int dir, const char *name)
{
	struct level *l;
	struct stat st;
	int fd;

	if (r->n >= LEVELS_MAX)
		return fail(r, ENAMETOOLONG, name);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
			   ? 0
			   : fail(r, errno, name);
	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 64;
		struct level *more = realloc(r->level, cap * sizeof(*r->level));

		if (!more) {
			fd_close(fd);
			return fail(r, ENOMEM, name);
		}
		r->level = more;
		r->cap = cap;
	}
	l = &r->level[r->n];
	*l = (struct level){ 0 };
	snprintf(l->name, sizeof(l->name), "%s", name);
	if (fstat(fd, &st) < 0 || !(l->d = fdopendir(fd))) {
		fd_close(fd);
		return fail(r, EIO, name);
	}
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	if (r->n >= OPEN_MAX_ && r->level[r->n - OPEN_MAX_].d) {
		(void)closedir(r->level[r->n - OPEN_MAX_].d);
		r->level[r->n - OPEN_MAX_].d = NULL;
	}
	r->n++;
	return 0;
}

/* Open the level above again, from the one below it. */
static DIR *reopen(const struct level *up, const struct level *below)
{
	struct stat st;
	owned_fd fd =
	    openat(dirfd(below->d), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (st.st_dev != up->dev || st.st_ino != up->ino) {
		errno = EBUSY; /* it was moved away under us */
		return NULL;
	}
	d = fdopendir(fd);
	if (d)
		(void)take_fd(&fd);
	return d;
}

/* 0 = gone, 1 = a folder with something in it, -errno. Most things are files;
 * on a folder unlink says EISDIR (EPERM on some file systems). */
static int remove_one(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return 1;
	return errno == ENOTDIR ? -EPERM : -errno;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* One level is read to its end: leave it and remove it. `top` is the folder
 * that holds the whole tree. */
static int pop(struct removal *r, int top)
{
	struct level *l = &r->level[r->n - 1];
	struct level *up = r->n > 1 ? l - 1 : NULL;
	int result;

	if (up && !up->d) {
		up->d = reopen(up, l);
		if (!up->d)
			return fail(r, errno, l->name);
	}
	result = remove_one(up ? dirfd(up->d) : top, l->name);
	if (result < 0)
		return fail(r, -result, l->name);
	if (result > 0) {
		/* somebody put something in meanwhile */
		if (++l->tries > TRIES_MAX)
			return fail(r, EBUSY, l->name);
		rewinddir(l->d);
		return 0;
	}
	(void)closedir(l->d);
	r->n--;
	return 0;
}

static int run(struct removal *r, int top)
{
	while (r->n > 0) {
		struct level *l = &r->level[r->n - 1];
		struct dirent *entry;
		int result;

		if (filework_beat(r->c) < 0)
			return -ECANCELED;
		errno = 0;
		entry = readdir(l->d);
		if (!entry && errno != 0)
			return fail(r, errno, l->name);
		if (!entry) {
			result = pop(r, top);
		} else if (is_dots(entry->d_name)) {
			continue;
		} else {
			result = remove_one(dirfd(l->d), entry->d_name);
			if (result < 0)
				return fail(r, -result, entry->d_name);
			if (result > 0)
				result = push(r, dirfd(l->d), entry->d_name);
		}
		if (result < 0)
			return result;
	}
	return 0;
}

int filework_remove_tree(struct file_ctx *c, int dir, const char *name,
			 char ret_where[256])
{
	struct removal r = { .c = c, .where = ret_where };
	int result = remove_one(dir, name);

	ret_where[0] = '\0';
	if (result < 0)
		return fail(&r, -result, name);
	if (result > 0)
		result = push(&r, dir, name);
	if (result == 0)
		result = run(&r, dir);
	for (size_t i = 0; i < r.n; i++)
		if (r.level[i].d)
			(void)closedir(r.level[i].d);
	free(r.level);
	return result;
}

static int answer(struct file_ctx *c)
{
	const struct file_result r = { .status = 204 };

	return filework_answer(c, &r) < 0;
}

int filework_delete(struct file_ctx *c)
{
	struct file_place at;
	char where[256] = "", trimmed[FILE_PATH_MAX];
	size_t n = strlen(c->job->path);
	struct stat st;
	int r;

	/* "folder/" means the folder */
	snprintf(trimmed, sizeof(trimmed), "%s", c->job->path);
	while (n > 1 && trimmed[n - 1] == '/')
		trimmed[--n] = '\0';
	r = filework_place(trimmed, false, &at);
	if (r == -EISDIR)
		return filework_error(c, 400, "bad_path", "path",
				      "name the thing itself",
				      "the path \"%.200s\" has no last name "
				      "that could be deleted",
				      c->job->path);
	if (r == 0 && fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && c->job->recursive) {
		r = filework_remove_tree(c, at.dir, at.name, where);
	} else if (r == 0) {
		r = remove_one(at.dir, at.name);
		r = r > 0 ? -ENOTEMPTY : r;
	}
	if (r == 0)
		filework_sync_dir(at.dir);
	filework_place_fini(&at);
	if (r == 0)
		return answer(c);
	return filework_refuse(c, -r, "path",
			       where[0] ? "cannot delete all of it: in the tree"
					: "cannot delete",
			       where[0] ? where : c->job->path);
}
