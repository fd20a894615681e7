/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

#define TAIL_MAX 16384

int logfile_rotate(const char *path, uint64_t max)
{
	owned_fd from = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	owned_str old = NULL;
	owned_str fresh = NULL;
	owned_fd to = -1;
	struct stat st;
	off_t at = 0;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size <= max)
		return 0;
	old = xasprintf("%s.1", path);
	fresh = xasprintf("%s.tmp", path);
	to = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		  0640);
	if (to < 0)
		return -errno;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n <= 0)
			break; /* better a short copy than a full disk */
	}
	if (rename(fresh, old) < 0 || ftruncate(from, 0) < 0)
		return -errno;
	return 1;
}

int logfile_tail(const char *path, unsigned n_lines, struct buf *out)
{
	owned_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[TAIL_MAX];
	struct stat st;
	ssize_t n, i;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	n = pread(fd, text, sizeof(text),
		  st.st_size > TAIL_MAX ? st.st_size - TAIL_MAX : 0);
	if (n < 0)
		return -errno;
	for (i = n; i > 0; i--) {
		/* the newline at the very end ends the last line */
		if (text[i - 1] == '\n' && i != n && n_lines-- == 1)
			break;
	}
	return buf_put(out, text + i, (size_t)(n - i));
}
