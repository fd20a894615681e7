/* SPDX-License-Identifier: Apache-2.0 */

/* Where a path leads, and who owns what is made there. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"
#include "guestd/filework.h"

#define LINKS_MAX   40
#define CLEAN_LOOKS 4096
#define CLEAN_AGE_S 60

static bool as_number(const char *s, uint32_t *ret)
{
	int64_t v;

	/* (uid_t)-1 means "no change" to the kernel */
	if (!text_int(s, 0, UINT32_MAX - 1, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

static int find_user(const char *name, struct file_owner *ret, struct err *e)
{
	struct err lookup = { 0 };

	if (user_lookup(name, &ret->uid, &ret->gid, &lookup) >= 0)
		return 0;
	/* an image without users can still have files */
	if (as_number(name, &ret->uid)) {
		ret->gid = ret->uid;
		return 0;
	}
	if (strcmp(name, "root") == 0) {
		ret->uid = ret->gid = 0;
		return 0;
	}
	*e = lookup;
	return lookup.code;
}

int filework_owner(const struct file_job *job, struct file_owner *ret,
		   struct err *e)
{
	char name[FILE_OWNER_MAX];
	char *group;
	int r;

	*ret = (struct file_owner){ .told = job->owner[0] != '\0',
				    .uid = geteuid(),
				    .gid = getegid() };
	if (!ret->told) {
		if (job->default_user[0])
			return find_user(job->default_user, ret, e);
		return 0;
	}
	snprintf(name, sizeof(name), "%s", job->owner);
	group = strchr(name, ':');
	if (group)
		*group++ = '\0';
	r = find_user(name, ret, e);
	if (r < 0 || !group || as_number(group, &ret->gid))
		return r;
	return group_lookup(group, &ret->gid, e);
}

void filework_place_fini(struct file_place *p)
{
	p->dir = fd_close(p->dir);
}

/* Cut path, relative to *base (taken and replaced), into folder and name. */
static int split(int *base, const char *path, struct file_place *p)
{
	char folder[FILE_PATH_MAX];
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int at = *base;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EISDIR;
	if (strlen(name) > 255)
		return -ENAMETOOLONG;
	if (slash) {
		snprintf(folder, sizeof(folder), "%.*s",
			 (int)(slash - path) + 1, path);
		at = openat(*base, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (at < 0)
			return -errno;
		fd_close(*base);
		*base = at;
	} else if (at == AT_FDCWD) {
		return -EINVAL;
	}
	snprintf(p->name, sizeof(p->name), "%s", name);
	return 0;
}

int filework_place(const char *path, bool follow, struct file_place *p)
{
	char text[FILE_PATH_MAX];
	int at = AT_FDCWD, r = 0;

	p->dir = -1;
	snprintf(text, sizeof(text), "%s", path);
	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n;

		r = split(&at, text, p);
		if (r < 0)
			break;
		n = follow ? readlinkat(at, p->name, text, sizeof(text)) : -1;
		if (n < 0) {
			/* no link, or nothing there: this is the place */
			p->dir = at;
			return 0;
		}
		r = (size_t)n >= sizeof(text) ? -ENAMETOOLONG : -ELOOP;
		if (r == -ENAMETOOLONG)
			break;
		text[n] = '\0';
	}
	fd_close(at);
	return r;
}

int filework_parents(const char *path, const struct file_owner *o)
{
	char text[FILE_PATH_MAX];
	owned_fd at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *name = text, *slash;

	if (at < 0)
		return -errno;
	snprintf(text, sizeof(text), "%s", path);
	for (; (slash = strchr(name, '/')); name = slash + 1) {
		int next;
		bool made;

		*slash = '\0';
		if (!*name)
			continue;
		made = mkdirat(at, name, 0755) == 0;
		if (!made && errno != EEXIST && errno != EROFS)
			return -errno;
		next = openat(at, name,
			      O_PATH | O_DIRECTORY | O_CLOEXEC |
				  (made ? O_NOFOLLOW : 0));
		if (next < 0)
			return -errno;
		fd_close(at);
		at = next;
		if (made && fchownat(at, "", o->uid, o->gid, AT_EMPTY_PATH) < 0)
			return -errno;
	}
	return 0;
}

void filework_temp_name(char ret[40])
{
	char id[17];

	random_id(id, 16);
	snprintf(ret, 40, FILE_TEMP_PREFIX "%s", id);
}

/* Whoever works with a temporary file or folder holds a lock on it, from very
 * soon after it got its name. */
static void clean_one(int dir, const char *name)
{
	struct file_ctx quiet = { .sock = -1, .quiet = true };
	struct stat st = { 0 };
	char where[256];
	owned_fd fd = filework_open(dir, name, false, &st);

	if (fd < 0 || st.st_ctim.tv_sec > now_unix_ms() / 1000 - CLEAN_AGE_S ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	(void)filework_remove_tree(&quiet, dir, name, where);
}

void filework_clean(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!d) {
		fd_close(fd);
		return;
	}
	for (int i = 0; i < CLEAN_LOOKS && (entry = readdir(d)); i++)
		if (strncmp(entry->d_name, FILE_TEMP_PREFIX,
			    strlen(FILE_TEMP_PREFIX)) == 0)
			clean_one(dir, entry->d_name);
	(void)closedir(d);
}

int filework_open(int dir, const char *name, bool follow, struct stat *ret)
{
	const int flags = O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
	owned_fd path = openat(dir, name, O_PATH | flags);
	char self[32];
	int fd;

	/* First a handle that opens nothing: opening a device can do things,
	 * and opening a FIFO wakes its other end. */
	if (path < 0 || fstat(path, ret) < 0)
		return -errno;
	if (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode))
		return S_ISLNK(ret->st_mode) ? -ELOOP : -ENXIO;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && access("/proc/self", F_OK) < 0)
		fd =
		    openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags);
	if (fd < 0)
		return -errno;
	if (fstat(fd, ret) < 0 ||
	    (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode))) {
		fd_close(fd);
		return -ENXIO;
	}
	return fd;
}

void filework_sync_dir(int dir)
{
	owned_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		(void)fsync(fd);
}
