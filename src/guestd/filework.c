/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/filework.h"

/* The low-level digest: the EVP interface brings a loader of plug-ins along,
 * which a static program cannot have. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"

#define PIECE_MAX (1u << 20)

int filework_path(const char *text, char ret[FILE_PATH_MAX])
{
	size_t n = strlen(text);

	if (text[0] != '/' || n >= FILE_PATH_MAX)
		return -EINVAL;
	memcpy(ret, text, n + 1);
	return 0;
}

static int report(int sock, const struct file_result *r)
{
	return write_all(sock, r, sizeof(*r)) < 0 || r->status >= 400;
}

/* An errno as an answer. */
static int refuse(int sock, int errnum, const char *doing)
{
	struct file_result r = { .status = 500 };
	const char *code = "internal";

	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		r.status = 404;
		code = "not_found";
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		r.status = 403;
		code = "policy_denied";
		break;
	case ENOSPC:
	case EDQUOT:
		r.status = 507;
		code = "no_space";
		break;
	case EFBIG:
		r.status = 413;
		code = "too_large";
		break;
	case ENOTEMPTY:
	case EEXIST:
	case EBUSY:
	case ETXTBSY:
		r.status = 409;
		code = "wrong_state";
		break;
	case EISDIR:
	case ENAMETOOLONG:
	case ELOOP:
	case EINVAL:
	case ENXIO:
		r.status = 400;
		code = "bad_path";
		break;
	default:
		break;
	}
	snprintf(r.code, sizeof(r.code), "%s", code);
	snprintf(r.msg, sizeof(r.msg), "%s: %s", doing, strerror(errnum));
	return report(sock, &r);
}

static int do_read(const struct file_job *job, int sock)
{
	struct file_result r = { .status = 200 };
	/* not blocking: a FIFO would wait for its other end */
	owned_fd fd =
	    open(job->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	owned_str text = NULL;
	uint64_t sent = 0;
	ssize_t n = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return refuse(sock, errno, "open the file");
	if (S_ISDIR(st.st_mode))
		return refuse(sock, EISDIR, "read the file");
	if (!S_ISREG(st.st_mode))
		return refuse(sock, ENXIO, "read something that is no file");
	/* files of /proc and /sys say 0 or a page and mean something else */
	r.size = (uint64_t)st.st_size;
	r.has_size = st.st_size > 0 && st.st_blocks > 0;
	if (report(sock, &r) != 0)
		return 1;
	text = malloc(PIECE_MAX);
	if (!text)
		return 1;
	while (!r.has_size || sent < r.size) {
		size_t want = PIECE_MAX;

		if (r.has_size && r.size - sent < want)
			want = (size_t)(r.size - sent);
		n = read(fd, text, want);
		if (n <= 0)
			break;
		if (write_all(sock, text, (size_t)n) < 0)
			return 1;
		sent += (uint64_t)n;
	}
	/* a file that shrank meanwhile is a cut answer, not a short file */
	return n < 0 || (r.has_size && sent < r.size);
}

static int do_delete(const struct file_job *job, int sock)
{
	struct file_result r = { .status = 204 };

	if (unlink(job->path) < 0 && (errno != EISDIR || rmdir(job->path) < 0))
		return refuse(sock, errno, "delete the file");
	return report(sock, &r);
}

/* ---- write ---- */

struct write_job {
	const struct file_job *job;
	int sock;
	char target[FILE_PATH_MAX]; /* links resolved */
	char temp[FILE_PATH_MAX + 32];
	int fd;
	uid_t uid;
	gid_t gid;
	bool exists, set_owner;
	mode_t mode;
	struct file_result r;
	SHA256_CTX sum;
};

static int find_owner(struct write_job *w, struct err *e)
{
	char name[140];
	char *group;
	gid_t own = 0;

	if (!w->job->owner[0])
		return 0;
	snprintf(name, sizeof(name), "%s", w->job->owner);
	group = strchr(name, ':');
	if (group)
		*group++ = '\0';
	if (user_lookup(name, &w->uid, &own, e) < 0)
		return e->code;
	w->gid = own;
	if (group && group_lookup(group, &w->gid, e) < 0)
		return e->code;
	w->set_owner = true;
	return 0;
}

static int make_parents(const struct write_job *w)
{
	char path[FILE_PATH_MAX];
	char *slash;

	snprintf(path, sizeof(path), "%s", w->job->path);
	for (slash = strchr(path + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) == 0) {
			if (w->set_owner && lchown(path, w->uid, w->gid) < 0)
				return -errno;
		} else if (errno != EEXIST) {
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

/* Where the bytes go: beside the file that the path means in the end. */
static int open_temp(struct write_job *w)
{
	char *slash;
	struct stat st;
	owned_str real = NULL;

	if (w->job->parents) {
		int r = make_parents(w);

		if (r < 0)
			return r;
	}
	real = realpath(w->job->path, NULL);
	if (!real && errno != ENOENT)
		return -errno;
	snprintf(w->target, sizeof(w->target), "%s",
		 real ? real : w->job->path);
	if (stat(w->target, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		if (!S_ISREG(st.st_mode))
			return -ENXIO;
		w->exists = true;
		w->mode = st.st_mode & 07777;
		if (!w->set_owner) {
			w->set_owner = true;
			w->uid = st.st_uid;
			w->gid = st.st_gid;
		}
	}
	slash = strrchr(w->target, '/');
	if (slash[1] == '\0')
		return -EISDIR;
	snprintf(w->temp, sizeof(w->temp), "%.*s/.caisson-XXXXXX",
		 (int)(slash - w->target), w->target);
	w->fd = mkostemp(w->temp, O_CLOEXEC);
	return w->fd < 0 ? -errno : 0;
}

static bool read_whole(int sock, void *to, size_t n)
{
	char *p = to;

	while (n > 0) {
		ssize_t r = read(sock, p, n);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

/* 1 = complete, 0 = the parent gave up, or -errno. */
static int receive(struct write_job *w)
{
	static char text[65536];
	uint32_t n;

	(void)SHA256_Init(&w->sum);
	for (;;) {
		if (!read_whole(w->sock, &n, sizeof(n)) || n > sizeof(text))
			return 0;
		if (n == 0)
			return 1;
		if (!read_whole(w->sock, text, n))
			return 0;
		if (write_all(w->fd, text, n) < 0)
			return -errno;
		(void)SHA256_Update(&w->sum, text, n);
		w->r.size += n;
	}
}

static int publish(struct write_job *w)
{
	char *slash;
	owned_fd dir = -1;

	if (w->set_owner && fchown(w->fd, w->uid, w->gid) < 0)
		return -errno;
	if (fchmod(w->fd, w->mode) < 0 || fsync(w->fd) < 0 ||
	    rename(w->temp, w->target) < 0)
		return -errno;
	w->temp[0] = '\0';
	slash = strrchr(w->target, '/');
	*slash = '\0';
	dir = open(*w->target ? w->target : "/",
		   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* the name, too, must survive a crash */
	if (dir >= 0)
		(void)fsync(dir);
	return 0;
}

static int do_write(const struct file_job *job, int sock)
{
	static struct write_job w;
	struct err e = { 0 };
	int r;

	w.job = job;
	w.sock = sock;
	w.fd = -1;
	w.mode = 0644;
	w.r.status = 201;
	if (find_owner(&w, &e) < 0) {
		w.r.status = 400;
		snprintf(w.r.code, sizeof(w.r.code), "invalid_field");
		snprintf(w.r.msg, sizeof(w.r.msg), "owner: %.280s", e.msg);
		return report(sock, &w.r);
	}
	r = open_temp(&w);
	if (r < 0)
		return refuse(sock, -r, "write the file");
	if (job->mode >= 0)
		w.mode = (mode_t)job->mode;
	r = receive(&w);
	if (r > 0)
		r = publish(&w);
	else if (r == 0)
		r = -ECANCELED;
	(void)close(w.fd);
	if (w.temp[0])
		(void)unlink(w.temp);
	if (r < 0)
		return refuse(sock, -r, "write the file");
	(void)SHA256_Final(w.r.sum, &w.sum);
	w.r.created = !w.exists;
	return report(sock, &w.r);
}

int filework_run(const struct file_job *job, int sock)
{
	switch (job->verb) {
	case FILE_READ:
		return do_read(job, sock);
	case FILE_WRITE:
		return do_write(job, sock);
	case FILE_DELETE:
		return do_delete(job, sock);
	}
	return 1;
}
