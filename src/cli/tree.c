/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

#define DEPTH_MAX 64

/* Sealed artifacts carry the immutable flag. */
static void release(int dir, const char *name)
{
	owned_fd fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int flags;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int unlink_one(int dir, const char *name, int flags)
{
	if (unlinkat(dir, name, flags) == 0 || errno == ENOENT)
		return 0;
	if (errno != EPERM && errno != EACCES)
		return -errno;
	release(dir, name);
	return unlinkat(dir, name, flags) < 0 && errno != ENOENT ? -errno : 0;
}

static int empty(int dir, dev_t dev, int depth)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		fd_close(fd);
		return -errno;
	}
	while (r == 0 && (de = readdir(d))) {
		struct stat st;
		owned_fd below = -1;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (fstatat(dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			r = unlink_one(dir, de->d_name, 0);
			continue;
		}
		if (st.st_dev != dev || depth == DEPTH_MAX) {
			r = -EXDEV;
			continue;
		}
		below = openat(dir, de->d_name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = below < 0 ? -errno : empty(below, dev, depth + 1);
		if (r == 0)
			r = unlink_one(dir, de->d_name, AT_REMOVEDIR);
	}
	closedir(d);
	return r;
}

int tree_remove(const char *path, struct err *e)
{
	const char *last = strrchr(path, '/');
	owned_fd dir = -1;
	struct stat st;
	int r;

	if (*path != '/' || last == path || !last[1])
		return err_set(e, -EINVAL, ERR_INVALID,
			       "%s is not a folder to remove", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_errno(e, errno, "%s", path);
	if (fstat(dir, &st) < 0)
		return err_errno(e, errno, "%s", path);
	r = empty(dir, st.st_dev, 0);
	if (r == 0)
		r = unlink_one(AT_FDCWD, path, AT_REMOVEDIR);
	return r < 0 ? err_errno(e, -r, "remove %s", path) : 0;
}
