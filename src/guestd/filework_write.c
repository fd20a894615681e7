/* SPDX-License-Identifier: Apache-2.0 */

/*
 * PUT of one file: the bytes go to a file without a name on the same file
 * system (or with one of ours, where there are none without), which gets the
 * name once all of them are there, agree with the digest and are on the disk.
 */

/* The low-level digest: the EVP interface brings a loader of plug-ins along,
 * which a static program cannot have. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/filework.h"
#include "guestd/list.h"
#include "net/json.h"

/* Write-back begins early, so that the final fsync has little left to do. */
#define FLUSH_BYTES (32u << 20)

struct write_job {
	struct file_ctx *c;
	struct file_place at;
	char temp[40]; /* "" = it has no name */
	int fd;
	struct file_owner owner;
	mode_t mode;
	bool exists;
	char etag[FILE_ETAG_MAX]; /* of what is to be replaced */
	uint64_t size, flushed;
	SHA256_CTX sum;
	uint8_t digest[32];
};

/* ---- before the bytes ---- */

/* What the conditions say of what is there now. 0, or a status. */
static int conditions(const struct write_job *w)
{
	const struct file_job *job = w->c->job;
	int r;

	if (job->if_match[0]) {
		r = w->exists ? file_etag_listed(job->if_match, w->etag, false)
			      : 0;
		if (r <= 0)
			return r < 0 ? r : 412;
	}
	if (job->if_none_match[0] && w->exists) {
		r = file_etag_listed(job->if_none_match, w->etag, true);
		if (r != 0)
			return r < 0 ? r : 412;
	}
	return 0;
}

static int look(struct write_job *w)
{
	struct stat st;

	w->exists = false;
	if (fstatat(w->at.dir, w->at.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -ENXIO;
	w->exists = true;
	file_etag(&st, w->etag);
	if (w->c->job->mode < 0)
		w->mode = st.st_mode & 07777;
	if (!w->owner.told) {
		w->owner.uid = st.st_uid;
		w->owner.gid = st.st_gid;
	}
	return 0;
}

static int open_temp(struct write_job *w)
{
	w->fd = openat(w->at.dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (w->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR ||
			  errno == ENOENT || errno == EINVAL)) {
		filework_temp_name(w->temp);
		w->fd = openat(
		    w->at.dir, w->temp,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	if (w->fd < 0) {
		w->temp[0] = '\0';
		return -errno;
	}
	(void)flock(w->fd, LOCK_EX | LOCK_NB);
	/* so that a disk that is too small says so before the upload */
	if (w->c->job->length > 0 &&
	    fallocate(w->fd, FALLOC_FL_KEEP_SIZE, 0, w->c->job->length) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
		return -errno;
	return 0;
}

/* ---- the bytes ---- */

/* 0 or -errno. */
static int receive(struct write_job *w)
{
	static char text[FILE_PIECE_MAX];
	ssize_t n;

	(void)SHA256_Init(&w->sum);
	while ((n = filework_piece(w->c, text, sizeof(text))) > 0) {
		int r = write_all(w->fd, text, (size_t)n);

		if (r < 0)
			return r;
		if (!w->c->job->no_sum)
			(void)SHA256_Update(&w->sum, text, (size_t)n);
		w->size += (uint64_t)n;
		if (w->size - w->flushed >= FLUSH_BYTES) {
			(void)sync_file_range(w->fd, (off_t)w->flushed,
					      (off_t)(w->size - w->flushed),
					      SYNC_FILE_RANGE_WRITE);
			w->flushed = w->size;
		}
	}
	(void)SHA256_Final(w->digest, &w->sum);
	return (int)n;
}

/* ---- the name ---- */

static int link_as(const struct write_job *w, const char *name)
{
	char self[32];

	if (linkat(w->fd, "", w->at.dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EINVAL)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", w->fd);
	return linkat(AT_FDCWD, self, w->at.dir, name, AT_SYMLINK_FOLLOW) < 0
		   ? -errno
		   : 0;
}

/* The name must not be taken: 0, or -EEXIST. */
static int take_new_name(struct write_job *w)
{
	int r;

	if (!w->temp[0])
		return link_as(w, w->at.name);
	r = linkat(w->at.dir, w->temp, w->at.dir, w->at.name, 0) < 0 ? -errno
								     : 0;
	if (r == 0) {
		(void)unlinkat(w->at.dir, w->temp, 0);
		w->temp[0] = '\0';
	} else if (r == -EPERM || r == -EOPNOTSUPP) {
		/* no hard links there */
		r = renameat2(w->at.dir, w->temp, w->at.dir, w->at.name,
			      RENAME_NOREPLACE) < 0
			? -errno
			: 0;
		if (r == 0)
			w->temp[0] = '\0';
	}
	return r;
}

static int replace(struct write_job *w)
{
	int r;

	if (!w->temp[0]) {
		filework_temp_name(w->temp);
		r = link_as(w, w->temp);
		if (r < 0) {
			w->temp[0] = '\0';
			return r;
		}
	}
	if (renameat(w->at.dir, w->temp, w->at.dir, w->at.name) < 0)
		return -errno;
	w->temp[0] = '\0';
	return 0;
}

/* Owner and mode before the name: nobody sees it with others. 0, -errno, or
 * 412 as the conditions say now. */
static int publish(struct write_job *w)
{
	int r;

	if (fchown(w->fd, w->owner.uid, w->owner.gid) < 0 ||
	    fchmod(w->fd, w->mode) < 0)
		return -errno;
	filework_long(w->c, FILE_SYNC_MS);
	if (fsync(w->fd) < 0)
		return -errno;
	/* somebody may have been quicker while the bytes came */
	r = look(w);
	if (r == 0)
		r = conditions(w);
	if (r != 0)
		return r;
	if (!w->exists) {
		r = take_new_name(w);
		if (r == -EEXIST &&
		    (w->c->job->if_none_match[0] || w->c->job->if_match[0]))
			return 412;
		w->exists = r == -EEXIST;
	}
	if (w->exists)
		r = replace(w);
	if (r == 0)
		filework_sync_dir(w->at.dir);
	return r;
}

/* ---- all of it ---- */

static int answer(struct write_job *w, bool existed)
{
	struct stat st = { 0 };
	char sum[2 * 32 + 1], etag[FILE_ETAG_MAX];
	json_t *v = json_object();

	if (fstat(w->fd, &st) < 0)
		w->c->gone = true;
	filework_settle(&st);
	file_etag(&st, etag);
	list_set_bytes(v, "path", w->c->job->path);
	json_set_take(v, "size", json_integer((json_int_t)w->size));
	if (!w->c->job->no_sum) {
		text_hex(w->digest, sizeof(w->digest), sum);
		json_set_take(v, "sha256", json_string(sum));
	}
	json_set_take(v, "etag", json_string(etag));
	return filework_json_take(w->c, existed ? 200 : 201, v);
}

static int refuse(struct write_job *w, int r)
{
	const char *path = w->c->job->path;

	if (r == 412)
		return filework_error(
		    w->c, 412, "generation_changed",
		    w->c->job->if_match[0] ? "if-match" : "if-none-match",
		    w->exists ? "read it and its tag again"
			      : "leave if-match out to create it",
		    w->exists ? "\"%.200s\" is there, with another content"
			      : "there is no \"%.200s\"",
		    path);
	return filework_refuse(w->c, -r, "path", "cannot write", path);
}

static int prepare(struct write_job *w)
{
	const struct file_job *job = w->c->job;
	int r = 0;

	w->mode = job->mode < 0 ? 0644 : (mode_t)job->mode;
	if (job->parents)
		r = filework_parents(job->path, &w->owner);
	if (r == 0)
		r = filework_place(job->path, true, &w->at);
	if (r == 0)
		r = look(w);
	if (r == 0)
		r = conditions(w);
	if (r == 0)
		r = open_temp(w);
	return r;
}

static int write_it(struct write_job *w)
{
	bool existed;
	int r = prepare(w);

	existed = w->exists;
	if (r == 0)
		r = receive(w);
	if (r == 0 && w->c->job->has_digest && !w->c->job->no_sum &&
	    memcmp(w->digest, w->c->job->digest, sizeof(w->digest)) != 0)
		return filework_error(w->c, 400, "invalid_field",
				      "content-digest", "send the file again",
				      "the %llu bytes that arrived have "
				      "another sha-256; nothing was changed",
				      (unsigned long long)w->size);
	if (r == 0)
		r = publish(w);
	return r == 0 ? answer(w, existed) : refuse(w, r);
}

int filework_write(struct file_ctx *c)
{
	static struct write_job w;
	struct err e = { 0 };
	int r;

	w.c = c;
	w.fd = w.at.dir = -1;
	if (filework_owner(c->job, &w.owner, &e) < 0)
		return filework_error(c, 400, "invalid_field", "owner",
				      "name a user of the sandbox, or a number",
				      "owner: %.280s", e.msg);
	r = write_it(&w);
	if (w.temp[0])
		(void)unlinkat(w.at.dir, w.temp, 0);
	fd_close(w.fd);
	if (r == 0 && w.at.dir >= 0)
		filework_clean(w.at.dir);
	filework_place_fini(&w.at);
	return r;
}
