/* SPDX-License-Identifier: Apache-2.0 */
/* The artifacts of store.h: opening, judging and publishing them. */
#include "storaged/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "storaged/copy.h"
#include "storaged/verdict.h"

#define BLOB_PATH_MAX (3 + ST_DIGEST_MAX + 4)

/* xx/HEX or, with ending ".ok", its verdict's. digest is a valid one. */
static void blob_path(const char *digest, const char *ending,
		      char ret[BLOB_PATH_MAX])
{
	snprintf(ret, BLOB_PATH_MAX, "%.2s/%s%s", digest, digest, ending);
}

static bool judged(const struct store *s, const char *digest,
		   const struct stat *st)
{
	char path[BLOB_PATH_MAX];
	struct verdict v;
	uint8_t raw[sizeof(v) + 1];
	owned_fd fd = -1;
	ssize_t n;

	blob_path(digest, ".ok", path);
	fd = openat(s->blobs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, raw, sizeof(raw));
	return n > 0 && verdict_decode(raw, (size_t)n, &v) &&
	       verdict_holds(&v, st);
}

/* Failing to remember costs a hash later, nothing else. */
static void remember(const struct store *s, const char *digest,
		     const struct stat *st)
{
	const struct verdict v = verdict_of(st);
	char path[BLOB_PATH_MAX];
	owned_str whole = NULL;
	struct err e = { 0 };

	blob_path(digest, ".ok", path);
	whole = xasprintf("%s/blobs/sha256/%s", s->path, path);
	if (file_write_atomic(whole, &v, sizeof(v), 0400, &e) < 0)
		unlink(whole);
}

int store_blob_open(const struct store *s, const char *digest, int *ret,
		    uint64_t *ret_size, struct err *e)
{
	char path[BLOB_PATH_MAX];
	owned_fd fd = -1;
	struct stat st;

	blob_path(digest, "", path);
	fd = openat(s->blobs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no artifact %.12s... on this node", digest);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "artifact %.12s...", digest);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EBADMSG, ERR_INTERNAL,
			       "artifact %.12s... is no file", digest);
	*ret_size = (uint64_t)st.st_size;
	*ret = take_fd(&fd);
	return judged(s, digest, &st) ? STORE_VERIFIED : STORE_UNVERIFIED;
}

static int quarantine(const struct store *s, const char *digest, struct err *e)
{
	char path[BLOB_PATH_MAX], to[ST_DIGEST_MAX + 24];

	snprintf(to, sizeof(to), "%s.%lld", digest, (long long)now_unix_ms());
	blob_path(digest, "", path);
	if (renameat(s->blobs, path, s->quarantine, to) < 0)
		return err_errno(e, errno,
				 "artifact %.12s... was changed and cannot be "
				 "put aside",
				 digest);
	blob_path(digest, ".ok", path);
	unlinkat(s->blobs, path, 0);
	return err_set(e, -EBADMSG, ERR_INTERNAL,
		       "artifact %.12s... was changed after it was stored; it "
		       "is in %s/quarantine, import it again",
		       digest, s->path);
}

int store_blob_verify(const struct store *s, const char *digest, struct err *e)
{
	char hex[DIGEST_HEX];
	struct stat before, after;
	owned_fd fd = -1;
	uint64_t size;
	int r = store_blob_open(s, digest, &fd, &size, e);

	if (r < 0)
		return r;
	if (fstat(fd, &before) < 0)
		return err_errno(e, errno, "artifact %.12s...", digest);
	r = copy_hash(fd, -1, hex, &size);
	if (r < 0)
		return err_errno(e, -r, "read artifact %.12s...", digest);
	if (strcmp(hex, digest) != 0)
		return quarantine(s, digest, e);
	if (fstat(fd, &after) < 0)
		return err_errno(e, errno, "artifact %.12s...", digest);
	/* else somebody writes right now: the next one to open it looks again
	 */
	if (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
	    after.st_ctim.tv_nsec == before.st_ctim.tv_nsec)
		remember(s, digest, &after);
	return 0;
}

/* A finished file of tmp/ becomes the artifact, unless a good one is there. */
static int place(const struct store *s, const char *tmp, const char *digest,
		 struct err *e)
{
	char path[BLOB_PATH_MAX], folder[3];
	owned_fd old = -1, in = -1;
	uint64_t size;
	struct stat st;

	if (store_blob_open(s, digest, &old, &size, NULL) == STORE_VERIFIED)
		return unlinkat(s->tmp, tmp, 0) < 0
			   ? err_errno(e, errno, "drop a copy")
			   : 0;
	snprintf(folder, sizeof(folder), "%.2s", digest);
	if (mkdirat(s->blobs, folder, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make blobs/sha256/%s", folder);
	blob_path(digest, "", path);
	if (renameat(s->tmp, tmp, s->blobs, path) < 0)
		return err_errno(e, errno, "publish %.12s...", digest);
	in = openat(s->blobs, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in < 0 || fsync(in) < 0 || fsync(s->blobs) < 0)
		return err_errno(e, errno, "sync blobs/sha256/%s", folder);
	if (fstatat(s->blobs, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(e, errno, "publish %.12s...", digest);
	remember(s, digest, &st);
	return 0;
}

static int copy_to_tmp(const struct store *s, int dir, const char *name,
		       const char *tmp, char ret_hex[DIGEST_HEX],
		       uint64_t *ret_size, struct err *e)
{
	owned_fd from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	owned_fd to = -1;
	int r;

	if (from < 0)
		return err_errno(e, errno, "open %s", name);
	to = openat(s->tmp, tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return err_errno(e, errno, "make a copy of %s", name);
	r = copy_hash(from, to, ret_hex, ret_size);
	if (r < 0)
		return err_errno(e, -r, "copy %s", name);
	if (fchmod(to, 0440) < 0 || fsync(to) < 0)
		return err_errno(e, errno, "sync the copy of %s", name);
	return 0;
}

int store_publish(const struct store *s, int dir, const char *name,
		  const char *expected, char ret_digest[ST_DIGEST_MAX],
		  uint64_t *ret_size, struct err *e)
{
	char tmp[25];
	int r;

	_Static_assert(ST_DIGEST_MAX == DIGEST_HEX, "same text");
	random_id(tmp, 24);
	r = copy_to_tmp(s, dir, name, tmp, ret_digest, ret_size, e);
	if (r == 0 && expected[0] && strcmp(expected, ret_digest) != 0)
		r = err_set(e, -EBADMSG, ERR_INVALID,
			    "the bytes have digest %.12s..., expected "
			    "%.12s...",
			    ret_digest, expected);
	r = r < 0 ? r : place(s, tmp, ret_digest, e);
	if (r < 0) {
		unlinkat(s->tmp, tmp, 0);
		return r;
	}
	r = store_throw(s, dir, name);
	return r < 0 ? err_errno(e, -r, "drop %s", name) : 0;
}
