/* SPDX-License-Identifier: Apache-2.0 */

/* GET and HEAD of one file. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/filework.h"

#define SEND_MAX    (1u << 20)
#define UNSIZED_MAX (16u << 20)

/* What the conditions say: 0 = go on, or the status of the answer. */
static int conditions(const struct file_job *job, const char *etag)
{
	int r;

	if (job->if_match[0]) {
		r = file_etag_listed(job->if_match, etag, false);
		if (r <= 0)
			return r < 0 ? r : 412;
	}
	if (job->if_none_match[0]) {
		r = file_etag_listed(job->if_none_match, etag, true);
		if (r != 0)
			return r < 0 ? r : 304;
	}
	return 0;
}

/* Which bytes; false: the range holds none of the file's. */
static bool choose(const struct file_job *job, struct file_result *r,
		   uint64_t *ret_from)
{
	struct file_range range = job->range;
	uint64_t n;

	*ret_from = 0;
	r->length = (int64_t)r->size;
	if (range.given && job->if_range[0] &&
	    !file_if_range(job->if_range, r->etag, r->date))
		range.given = false;
	if (!range.given)
		return true;
	if (!file_range_apply(&range, r->size, ret_from, &n))
		return false;
	r->status = 206;
	r->has_range = 1;
	r->range_from = *ret_from;
	r->length = (int64_t)n;
	return true;
}

/* By reading, where the file system has no sendfile. */
static int send_copied(struct file_ctx *c, int fd, off_t at, uint64_t n)
{
	static char text[FILE_PIECE_MAX];

	while (n > 0) {
		ssize_t k =
		    pread(fd, text, n < sizeof(text) ? n : sizeof(text), at);

		/* a file that shrank meanwhile is a cut answer, not a short
		 * file */
		if (k <= 0 || write_all(c->sock, text, (size_t)k) < 0)
			return 1;
		at += k;
		n -= (uint64_t)k;
	}
	return 0;
}

static int send_sized(struct file_ctx *c, int fd, uint64_t from, uint64_t n)
{
	off_t at = (off_t)from;

	(void)posix_fadvise(fd, at, (off_t)n, POSIX_FADV_SEQUENTIAL);
	while (n > 0) {
		ssize_t k = sendfile(c->sock, fd, &at,
				     n < SEND_MAX ? (size_t)n : SEND_MAX);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && (errno == EINVAL || errno == ENOSYS))
			return send_copied(c, fd, at, n);
		if (k <= 0)
			return 1;
		n -= (uint64_t)k;
	}
	return 0;
}

/* Some files of proc say a page or nothing, and have no blocks. A file that is
 * one hole has none either, but keeps its bytes. */
static bool size_is_known(int fd, const struct stat *st)
{
	char one;

	if (st->st_blocks > 0 || st->st_size > 65536)
		return true;
	if (st->st_size == 0)
		return pread(fd, &one, 1, 0) == 0;
	/* the last byte is there and nothing behind it */
	return pread(fd, &one, 1, st->st_size - 1) == 1 &&
	       pread(fd, &one, 1, st->st_size) == 0;
}

static int changed(struct file_ctx *c, const char *etag)
{
	return filework_error(c, 412, "generation_changed", "if-match",
			      "read it again without if-match",
			      "the file \"%.200s\" has another content now: "
			      "its tag is %s",
			      c->job->path, etag);
}

static int no_such_range(struct file_ctx *c, struct file_result *r)
{
	r->status = 416;
	snprintf(r->code, sizeof(r->code), "offset_gone");
	snprintf(r->field, sizeof(r->field), "range");
	snprintf(r->remedy, sizeof(r->remedy), "ask for bytes below %llu",
		 (unsigned long long)r->size);
	snprintf(r->msg, sizeof(r->msg),
		 "the file has %llu bytes, none of them in the range",
		 (unsigned long long)r->size);
	(void)filework_answer(c, r);
	return 1;
}

static int read_sized(struct file_ctx *c, int fd, const struct stat *st)
{
	struct file_result r = { .status = 200, .accept_ranges = 1 };
	uint64_t from;
	int condition;

	snprintf(r.type, sizeof(r.type), "application/octet-stream");
	r.size = (uint64_t)st->st_size;
	file_etag(st, r.etag);
	file_date(st->st_mtim.tv_sec, r.date);
	condition = conditions(c->job, r.etag);
	if (condition < 0)
		return filework_error(c, 400, "invalid_field", "if-match", NULL,
				      "expected quoted entity tags or *");
	if (condition == 304) {
		r.status = 304;
		r.type[0] = '\0';
		return filework_answer(c, &r) < 0;
	}
	if (condition == 412)
		return changed(c, r.etag);
	if (!choose(c->job, &r, &from))
		return no_such_range(c, &r);
	filework_settle(st);
	if (filework_answer(c, &r) < 0)
		return 1;
	return send_sized(c, fd, from, (uint64_t)r.length);
}

/* Files of proc and sysfs are made while they are read, and what they say of
 * their size means something else. So they are read first: the answer can say
 * its length, and a client sees whether it has all of it. */
static int read_unsized(struct file_ctx *c, int fd)
{
	struct file_result r = { .status = 200, .accept_ranges = 1 };
	char *text = malloc(UNSIZED_MAX + 1);
	uint64_t from;
	ssize_t n = 0;

	if (!text)
		return filework_refuse(c, ENOMEM, "path", "cannot read",
				       c->job->path);
	while (r.size <= UNSIZED_MAX) {
		n = pread(fd, text + r.size, UNSIZED_MAX + 1 - r.size,
			  (off_t)r.size);
		if (n <= 0)
			break;
		r.size += (uint64_t)n;
	}
	if (n < 0 && (r.size == 0 || errno != EAGAIN))
		return filework_refuse(c, errno == EAGAIN ? ENXIO : errno,
				       "path", "cannot read", c->job->path);
	if (r.size > UNSIZED_MAX)
		return filework_error(
		    c, 413, "too_large", "path",
		    "read it with a program in the sandbox",
		    "\"%.200s\" does not say its size and has "
		    "more than 16 MiB",
		    c->job->path);
	snprintf(r.type, sizeof(r.type), "application/octet-stream");
	if (c->job->if_match[0] && strcmp(c->job->if_match, "*") != 0)
		return changed(c, "none");
	if (!choose(c->job, &r, &from))
		return no_such_range(c, &r);
	if (filework_answer(c, &r) < 0)
		return 1;
	return write_all(c->sock, text + from, (size_t)r.length) < 0;
}

int filework_read(struct file_ctx *c)
{
	struct stat st;
	owned_fd fd = filework_open(AT_FDCWD, c->job->path, true, &st);

	if (fd < 0)
		return filework_refuse(c, -fd, "path", "cannot read",
				       c->job->path);
	if (S_ISDIR(st.st_mode))
		return filework_refuse(c, EISDIR, "path", "cannot read",
				       c->job->path);
	return size_is_known(fd, &st) ? read_sized(c, fd, &st)
				      : read_unsized(c, fd);
}
