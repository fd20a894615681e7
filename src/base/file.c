/* SPDX-License-Identifier: Apache-2.0 */
/* The file helpers of base/text.h. */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

int file_read(const char *path, size_t max, char **ret, size_t *ret_n,
	      struct err *e)
{
	owned_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct buf b;

	if (fd < 0)
		return err_errno(e, errno, "open %s", path);
	buf_init(&b, 0);
	for (;;) {
		uint8_t *to = buf_reserve(&b, 16384);
		ssize_t got = to ? read(fd, to, 16384) : -1;

		if (!to)
			errno = ENOMEM;
		else if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int saved = errno;

			buf_fini(&b);
			return err_errno(e, saved, "read %s", path);
		}
		buf_commit(&b, (size_t)got);
		if (buf_len(&b) > max) {
			buf_fini(&b);
			return err_set(e, -EFBIG, ERR_INVALID,
				       "%s is larger than %zu bytes", path,
				       max);
		}
		if (got == 0)
			break;
	}
	*ret = xcalloc(buf_len(&b) + 1, 1);
	if (buf_len(&b))
		memcpy(*ret, buf_data(&b), buf_len(&b));
	if (ret_n)
		*ret_n = buf_len(&b);
	buf_fini(&b);
	return 0;
}

/* After a rename only the directory's fsync makes it last. */
static int sync_dir_of(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	owned_str dir = slash == path ? xstrdup("/")
			: slash	      ? xstrndup(path, (size_t)(slash - path))
				      : xstrdup(".");
	owned_fd fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_errno(e, errno, "sync directory %s", dir);
	return 0;
}

int file_write_atomic(const char *path, const void *p, size_t n, unsigned mode,
		      struct err *e)
{
	owned_str tmp = NULL;
	owned_fd fd = -1;
	char id[9];
	int r;

	random_id(id, 8);
	tmp = xasprintf("%s.%s.tmp", path, id);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		  mode & 0700);
	if (fd < 0)
		return err_errno(e, errno, "create %s", tmp);
	r = write_all(fd, p, n);
	if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		r = -errno;
	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(tmp);
		return err_errno(e, -r, "write %s", path);
	}
	return sync_dir_of(path, e);
}

int mkdir_p(const char *path, unsigned mode, struct err *e)
{
	owned_str s = xstrdup(path);
	struct stat st;

	for (char *at = s + 1; *s; at++) {
		char keep = *at;

		if (keep != '/' && keep != 0)
			continue;
		*at = 0;
		if (mkdir(s, mode) < 0 && errno != EEXIST)
			return err_errno(e, errno, "create directory %s", s);
		*at = keep;
		if (!keep)
			break;
	}
	if (stat(path, &st) < 0)
		return err_errno(e, errno, "create directory %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, -ENOTDIR, ERR_CONFLICT,
			       "%s exists and is not a directory", path);
	return 0;
}
