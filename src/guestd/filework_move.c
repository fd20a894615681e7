/* SPDX-License-Identifier: Apache-2.0 */

/* Moving and making: rename, or copy beside the goal and rename there. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "guestd/filework.h"
#include "guestd/list.h"
#include "net/json.h"

#define DEPTH_MAX  256u
#define XATTR_MAX  65536u
#define COPY_BYTES (8u << 20)

/* ---- copy one thing ---- */

/* Extended attributes by path below /proc/self/fd, which also works for what
 * cannot be opened. What the goal cannot hold is left out. */
static void copy_xattrs(int from, int to)
{
	static char names[XATTR_MAX], value[XATTR_MAX];
	ssize_t n = flistxattr(from, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		ssize_t k = fgetxattr(from, names + i, value, sizeof(value));

		if (k >= 0)
			(void)fsetxattr(to, names + i, value, (size_t)k, 0);
	}
}

static int copy_metadata(int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (fchown(fd, st->st_uid, st->st_gid) < 0 ||
	    fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* The data between holes. */
static int copy_part(struct file_ctx *c, int from, int to, off_t at, off_t end)
{
	if (lseek(to, at, SEEK_SET) < 0)
		return -errno;
	while (at < end) {
		size_t want = end - at < (off_t)COPY_BYTES ? (size_t)(end - at)
							   : COPY_BYTES;
		ssize_t n = sendfile(to, from, &at, want);

		if (n < 0)
			return -errno;
		if (n == 0)
			return 0; /* it shrank */
		if (filework_beat(c) < 0)
			return -ECANCELED;
	}
	return 0;
}

static int copy_data(struct file_ctx *c, int from, int to, off_t size)
{
	off_t at = 0;
	int r = 0;

	if (ftruncate(to, size) < 0)
		return -errno;
	while (at < size && r == 0) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		if (data < 0)
			data = at;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole <= data)
			hole = size;
		r = copy_part(c, from, to, data, hole);
		at = hole;
	}
	return r;
}

static int copy_file(struct file_ctx *c, int from_dir, const char *from,
		     int to_dir, const char *to)
{
	struct stat st;
	owned_fd in = filework_open(from_dir, from, false, &st);
	owned_fd out = -1;
	int r;

	if (in < 0)
		return in;
	out = openat(to_dir, to,
		     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	(void)flock(out, LOCK_EX | LOCK_NB);
	r = copy_data(c, in, out, st.st_size);
	if (r < 0)
		return r;
	copy_xattrs(in, out);
	return copy_metadata(out, &st);
}

static int copy_special(int from_dir, const char *from, int to_dir,
			const char *to, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	char target[FILE_PATH_MAX];

	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(from_dir, from, target, sizeof(target));

		if (n < 0 || (size_t)n >= sizeof(target))
			return n < 0 ? -errno : -ENAMETOOLONG;
		target[n] = '\0';
		if (symlinkat(target, to_dir, to) < 0)
			return -errno;
	} else if (mknodat(to_dir, to, st->st_mode, st->st_rdev) < 0) {
		return -errno;
	}
	if (fchownat(to_dir, to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) <
	    0)
		return -errno;
	if (!S_ISLNK(st->st_mode) &&
	    fchmodat(to_dir, to, st->st_mode & 07777, 0) < 0)
		return -errno;
	(void)utimensat(to_dir, to, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/* ---- copy a tree ---- */

static int copy_entries(struct file_ctx *c, DIR *d, int to, unsigned depth)
{
	struct dirent *entry;
	int r = 0;

	while (r == 0) {
		errno = 0;
		entry = readdir(d);
		if (!entry)
			return -errno;
		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		r = filework_copy_tree(c, dirfd(d), entry->d_name, to,
				       entry->d_name, depth + 1);
		if (r == -ENOENT)
			r = 0; /* gone meanwhile */
	}
	return r;
}

static int copy_folder(struct file_ctx *c, int from_dir, const char *from,
		       int to_dir, const char *to, unsigned depth)
{
	struct stat st;
	owned_fd out = -1;
	int fd = filework_open(from_dir, from, false, &st), r;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return fd < 0 ? fd : -ENOMEM;
	r = mkdirat(to_dir, to, 0700) < 0 ? -errno : 0;
	if (r == 0) {
		out = openat(to_dir, to,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = out < 0 ? -errno : 0;
	}
	if (r == 0) {
		(void)flock(out, LOCK_EX | LOCK_NB);
		r = copy_entries(c, d, out, depth);
	}
	if (r == 0) {
		copy_xattrs(dirfd(d), out);
		r = copy_metadata(out, &st);
	}
	(void)closedir(d);
	return r;
}

int filework_copy_tree(struct file_ctx *c, int from_dir, const char *from,
		       int to_dir, const char *to, unsigned depth)
{
	struct stat st;

	if (depth > DEPTH_MAX)
		return -ENAMETOOLONG;
	if (filework_beat(c) < 0)
		return -ECANCELED;
	if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return copy_folder(c, from_dir, from, to_dir, to, depth);
	if (S_ISREG(st.st_mode))
		return copy_file(c, from_dir, from, to_dir, to);
	return copy_special(from_dir, from, to_dir, to, &st);
}

/* ---- move ---- */

/* A file may replace what is no folder; a folder an empty one. */
static int rename_there(const struct file_place *from,
			const struct file_place *to, const char *name,
			bool replace)
{
	struct stat st;

	if (renameat2(from->dir, name, to->dir, to->name,
		      replace ? 0 : RENAME_NOREPLACE) == 0)
		return 0;
	if (replace || errno != EINVAL)
		return -errno;
	/* a file system without the flag, or a folder into itself */
	if (fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from->dir, name, to->dir, to->name) < 0 ? -errno : 0;
}

/* All of a tree at once: fsync of each file would take minutes. */
static int sync_all(struct file_ctx *c, int dir)
{
	owned_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	filework_long(c, FILE_TREE_MS);
	return syncfs(fd) < 0 ? -errno : 0;
}

static int move_across(struct file_ctx *c, const struct file_place *from,
		       const struct file_place *to, char where[256])
{
	struct file_place temp = { .dir = to->dir };
	char name[40], ignored[256];
	struct stat st;
	int r;

	if (!c->job->replace &&
	    fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	filework_temp_name(name);
	r = filework_copy_tree(c, from->dir, from->name, to->dir, name, 0);
	if (r == 0)
		r = sync_all(c, to->dir);
	if (r == 0)
		r = rename_there(&temp, to, name, c->job->replace);
	if (r < 0) {
		(void)filework_remove_tree(c, to->dir, name, ignored);
		return r;
	}
	return filework_remove_tree(c, from->dir, from->name, where);
}

static int find_places(const struct file_job *job, struct file_place *from,
		       struct file_place *to)
{
	int r = filework_place(job->path, false, from);

	if (r == 0)
		r = filework_place(job->to, false, to);
	return r;
}

int filework_move(struct file_ctx *c)
{
	struct file_place from = { .dir = -1 }, to = { .dir = -1 };
	char where[256] = "";
	int r = find_places(c->job, &from, &to);

	if (r == -EISDIR)
		return filework_error(c, 400, "bad_path", "path",
				      "name the things themselves, without / "
				      "at the end",
				      "path or to has no last name");
	if (r == 0) {
		r = rename_there(&from, &to, from.name, c->job->replace);
		if (r == -EXDEV)
			r = move_across(c, &from, &to, where);
	}
	if (r == 0) {
		filework_sync_dir(to.dir);
		filework_sync_dir(from.dir);
		r = list_answer_entry(c, 200, to.dir, to.name, c->job->to);
	} else if (where[0]) {
		r = filework_refuse(c, -r, "path",
				    "moved, but the old tree cannot be deleted "
				    "at",
				    where);
	} else {
		r = filework_refuse(c, -r, r == -EEXIST ? "to" : "path",
				    "cannot move",
				    r == -EEXIST ? c->job->to : c->job->path);
	}
	filework_place_fini(&from);
	filework_place_fini(&to);
	return r;
}

/* ---- mkdir ---- */

static int make(struct file_ctx *c, const struct file_place *at,
		const struct file_owner *o)
{
	mode_t mode = c->job->mode < 0 ? 0755 : (mode_t)c->job->mode;
	owned_fd fd = -1;

	if (mkdirat(at->dir, at->name, 0700) < 0)
		return -errno;
	fd = openat(at->dir, at->name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchown(fd, o->uid, o->gid) < 0 || fchmod(fd, mode) < 0)
		return -errno;
	filework_sync_dir(at->dir);
	return 0;
}

int filework_mkdir(struct file_ctx *c)
{
	struct file_place at = { .dir = -1 };
	char path[FILE_PATH_MAX];
	struct file_owner o;
	struct err e = { 0 };
	size_t n = strlen(c->job->path);
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "%s", c->job->path);
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	if (filework_owner(c->job, &o, &e) < 0)
		return filework_error(c, 400, "invalid_field", "owner",
				      "name a user of the sandbox, or a number",
				      "owner: %.280s", e.msg);
	r = c->job->parents ? filework_parents(path, &o) : 0;
	if (r == 0)
		r = filework_place(path, false, &at);
	if (r == 0)
		r = make(c, &at, &o);
	if ((r == -EEXIST || r == -EISDIR) && c->job->parents &&
	    stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		r = list_answer_entry(c, 200, AT_FDCWD, path, c->job->path);
	else if (r == 0)
		r = list_answer_entry(c, 201, at.dir, at.name, c->job->path);
	else
		r = filework_refuse(c, r == -EISDIR ? EEXIST : -r, "path",
				    "cannot make the folder", c->job->path);
	filework_place_fini(&at);
	return r;
}
