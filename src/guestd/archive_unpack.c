/* SPDX-License-Identifier: Apache-2.0 */

/* An archive into a tree, entry by entry. */

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/archive_tree.h"
#include "guestd/archives.h"
#include "net/json.h"

/* zstd's window is 128 MiB at most; the rest is lists of pieces. */
#define MEMORY_MAX (192ull << 20)

struct unpack {
	struct file_ctx *c;
	struct archive *a;
	struct archive_tree tree;
	uint64_t entries, bytes;
	char piece[FILE_PIECE_MAX];
	bool complete; /* all of the body was read */
	bool told;     /* the refusal is on its way */
};

/* ---- refusals ---- */

static int tell(struct unpack *u, struct file_result *r)
{
	r->counted = 1;
	r->entries = u->entries;
	r->bytes = u->bytes;
	u->told = true;
	(void)filework_answer(u->c, r);
	return -EINVAL;
}

/* `why` says what is wrong with the entry. */
static int refuse(struct unpack *u, const char *name, const char *why)
{
	struct file_result r = { .status = 400 };

	snprintf(r.code, sizeof(r.code), "bad_path");
	snprintf(r.field, sizeof(r.field), "archive");
	snprintf(r.remedy, sizeof(r.remedy), "leave that entry out");
	snprintf(r.msg, sizeof(r.msg),
		 "entry \"%.150s\" %s; %llu entries before it were unpacked",
		 name, why, (unsigned long long)u->entries);
	return tell(u, &r);
}

static int refuse_errno(struct unpack *u, int errnum, const char *name)
{
	struct file_result r;

	if (errnum == ELOOP)
		return refuse(u, name,
			      "goes through a symbolic link that the archive "
			      "made");
	filework_errno_result(&r, errnum, "path", "cannot unpack entry", name);
	return tell(u, &r);
}

/* libarchive's word: the bytes are no archive, or memory is gone. */
static int refuse_archive(struct unpack *u)
{
	struct file_result r = { .status = 400 };
	const char *text = archive_error_string(u->a);
	bool memory = archive_errno(u->a) == ENOMEM;

	if (u->c->gone)
		return -ECANCELED;
	if (memory)
		r.status = 413;
	snprintf(r.code, sizeof(r.code), "%s",
		 memory ? "too_large" : "invalid_field");
	snprintf(r.field, sizeof(r.field), "archive");
	snprintf(r.remedy, sizeof(r.remedy), "send pax, GNU or ustar tar%s",
		 u->c->job->zstd ? " in zstd, with a window of at most 128 MiB"
				 : "; for zstd use format=tar.zst");
	snprintf(r.msg, sizeof(r.msg),
		 "this is no such archive: %.200s; %llu entries before were "
		 "unpacked",
		 text ? text : "it cannot be read",
		 (unsigned long long)u->entries);
	return tell(u, &r);
}

/* ---- one entry ---- */

static struct timespec mtime_of(struct archive_entry *entry)
{
	struct timespec t = { 0, UTIME_NOW };

	if (archive_entry_mtime_is_set(entry)) {
		t.tv_sec = archive_entry_mtime(entry);
		t.tv_nsec = archive_entry_mtime_nsec(entry);
	}
	return t;
}

/* Room for a thing that is no folder. */
static int make_room(int dir, const char *last)
{
	if (unlinkat(dir, last, 0) == 0 || errno == ENOENT)
		return 0;
	/* EPERM is what some file systems say of folders */
	return errno == EPERM ? -EISDIR : -errno;
}

static void set_xattrs(struct archive_entry *entry, int fd)
{
	const char *name;
	const void *value;
	size_t n;

	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &n) == ARCHIVE_OK)
		/* what the file system cannot hold is left out */
		(void)fsetxattr(fd, name, value, n, 0);
}

static int write_at(int fd, const char *p, size_t n, off_t at)
{
	while (n > 0) {
		ssize_t k = pwrite(fd, p, n, at);

		if (k < 0)
			return -errno;
		p += k;
		n -= (size_t)k;
		at += k;
	}
	return 0;
}

/* 0, -errno, or 1: the archive itself fails. */
static int put_content(struct unpack *u, struct archive_entry *entry, int fd)
{
	const void *p;
	size_t n;
	la_int64_t at, size = archive_entry_size(entry);
	int r;

	for (;;) {
		r = archive_read_data_block(u->a, &p, &n, &at);
		if (r == ARCHIVE_EOF)
			break;
		if (r < ARCHIVE_WARN)
			return 1;
		if (at < 0 || at > size || n > (uint64_t)(size - at))
			return -EFBIG;
		r = write_at(fd, p, n, at);
		if (r < 0)
			return r;
		u->bytes += n;
		if (filework_beat(u->c) < 0)
			return 1;
	}
	/* a hole at the end has no block */
	return ftruncate(fd, size) < 0 ? -errno : 0;
}

static int put_file(struct unpack *u, struct archive_entry *entry, int dir,
		    const char *last)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, mtime_of(entry) };
	const struct file_owner *o = &u->tree.owner;
	owned_fd fd = -1;
	int r = make_room(dir, last);

	if (r < 0)
		return r;
	fd = openat(dir, last,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = put_content(u, entry, fd);
	if (r != 0) {
		/* a part of a file is no file */
		(void)unlinkat(dir, last, 0);
		return r;
	}
	if (fchown(fd, o->uid, o->gid) < 0 ||
	    fchmod(fd, archive_entry_perm(entry) & 07777) < 0)
		return -errno;
	set_xattrs(entry, fd);
	(void)futimens(fd, times);
	return 0;
}

static int put_symlink(struct unpack *u, struct archive_entry *entry, int dir,
		       const char *last, const char *name)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, mtime_of(entry) };
	const char *target = archive_entry_symlink(entry);
	int r;

	if (!target || !archive_link_stays(u->tree.path, name, target))
		return refuse(u, name, "is a link that leaves the tree");
	r = make_room(dir, last);
	if (r < 0)
		return r;
	if (symlinkat(target, dir, last) < 0)
		return -errno;
	archive_tree_made(&u->tree, dir, last);
	if (fchownat(dir, last, u->tree.owner.uid, u->tree.owner.gid,
		     AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	(void)utimensat(dir, last, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/* Another name of a file that is in the tree. */
static int put_hardlink(struct unpack *u, const char *target, const char *name)
{
	char first[FILE_PATH_MAX];
	const char *first_last, *last;
	struct stat st;
	owned_fd from = -1;
	int dir;

	if (archive_name(target, first) < 0 || !first[0])
		return refuse(u, name, "is a link that leaves the tree");
	dir = archive_tree_folder(&u->tree, first, &first_last);
	if (dir < 0)
		return dir;
	if (fstatat(dir, first_last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse(u, name, "is a link to what is no file");
	/* the tree keeps one folder at a time */
	from = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	dir = archive_tree_folder(&u->tree, name, &last);
	if (dir < 0 || strcmp(first, name) == 0)
		return dir < 0 ? dir : 0;
	if (make_room(dir, last) < 0 ||
	    linkat(from, first_last, dir, last, 0) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		archive_tree_made(&u->tree, dir, last);
	return 0;
}

static int put_named(struct unpack *u, struct archive_entry *entry,
		     const char *name)
{
	const struct timespec mtime = mtime_of(entry);
	const char *link = archive_entry_hardlink(entry), *last;
	int dir, r;

	if (link)
		return put_hardlink(u, link, name);
	switch (archive_entry_filetype(entry)) {
	case AE_IFDIR:
		r = archive_tree_mkdir(&u->tree, name,
				       archive_entry_perm(entry), &mtime);
		return r > 0 ? 0 : r;
	case AE_IFREG:
	case AE_IFLNK:
		break;
	default:
		return refuse(u, name, "is a device, FIFO or socket");
	}
	dir = archive_tree_folder(&u->tree, name, &last);
	if (dir < 0)
		return dir;
	if (archive_entry_filetype(entry) == AE_IFLNK)
		return put_symlink(u, entry, dir, last, name);
	return put_file(u, entry, dir, last);
}

/* 0, or < 0 with the refusal told. */
static int put_entry(struct unpack *u, struct archive_entry *entry)
{
	const char *raw = archive_entry_pathname(entry);
	char name[FILE_PATH_MAX];
	int r;

	if (!raw)
		return refuse(u, "", "has no name");
	r = archive_name(raw, name);
	if (r == -ENAMETOOLONG)
		return refuse(u, raw, "has a name that is too long");
	if (r < 0)
		return refuse(u, raw, "is absolute or has .. in its name");
	if (name[0] == '\0') {
		/* the top itself: it is there, and stays as it is */
		if (archive_entry_filetype(entry) == AE_IFDIR)
			return 0;
		return refuse(u, raw, "would replace the tree's top");
	}
	r = put_named(u, entry, name);
	if (r > 0)
		return refuse_archive(u);
	if (r < 0 && !u->told)
		return refuse_errno(u, -r, raw);
	u->entries += r == 0;
	return r;
}

/* ---- all of it ---- */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct unpack *u = arg;
	ssize_t n;

	*ret = u->piece;
	if (u->complete)
		return 0;
	n = filework_piece(u->c, u->piece, sizeof(u->piece));
	if (n < 0)
		archive_set_error(a, ECANCELED, "the client gave up");
	u->complete = n == 0;
	return n < 0 ? -1 : n;
}

static int open_archive(struct unpack *u)
{
	int r;

	u->a = archive_read_new();
	if (!u->a || archive_read_support_format_tar(u->a) != ARCHIVE_OK)
		return -ENOMEM;
	r = u->c->job->zstd ? archive_read_support_filter_zstd(u->a)
			    : archive_read_support_filter_none(u->a);
	if (r != ARCHIVE_OK)
		return -ENOMEM;
	return archive_read_open(u->a, u, NULL, on_read, NULL);
}

static int run(struct unpack *u)
{
	struct archive_entry *entry;
	bool first = true;
	int r = open_archive(u);

	while (r >= ARCHIVE_WARN) {
		r = archive_read_next_header(u->a, &entry);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			break;
		if (first && u->c->job->zstd &&
		    archive_filter_code(u->a, 0) != ARCHIVE_FILTER_ZSTD)
			break;
		first = false;
		if (filework_beat(u->c) < 0)
			return -ECANCELED;
		r = put_entry(u, entry);
		if (r < 0)
			return r;
	}
	return refuse_archive(u);
}

/* A bomb must meet a limit of its own, and the OOM killer us before the
 * sandbox's programs. */
static void bound_memory(void)
{
	const struct rlimit data = { MEMORY_MAX, MEMORY_MAX };
	owned_fd fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "500", 3);
#ifndef __SANITIZE_ADDRESS__ /* its own memory counts, too */
	(void)setrlimit(RLIMIT_DATA, &data);
#else
	(void)data;
#endif
}

static int finish(struct unpack *u)
{
	json_t *v = json_object();
	owned_fd fd = -1;

	while (!u->complete) {
		ssize_t n = filework_piece(u->c, u->piece, sizeof(u->piece));

		if (n < 0)
			return 1;
		u->complete = n == 0;
	}
	archive_tree_finish(&u->tree);
	fd = openat(u->tree.top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	filework_long(u->c, FILE_TREE_MS);
	if (fd >= 0 && syncfs(fd) < 0) {
		json_decref(v);
		(void)refuse_errno(u, errno, u->c->job->path);
		return 1;
	}
	json_set_take(v, "entries", json_integer((json_int_t)u->entries));
	json_set_take(v, "bytes", json_integer((json_int_t)u->bytes));
	return filework_json_take(u->c, 200, v);
}

int archive_unpack_run(struct file_ctx *c)
{
	static struct unpack u;
	struct err e = { 0 };
	int r;

	u.c = c;
	bound_memory();
	if (filework_owner(c->job, &u.tree.owner, &e) < 0)
		return filework_error(c, 400, "invalid_field", "owner",
				      "name a user of the sandbox, or a number",
				      "owner: %.280s", e.msg);
	r = archive_tree_open(&u.tree, c->job->path);
	if (r < 0)
		return filework_refuse(c, -r, "path", "cannot unpack into",
				       c->job->path);
	r = run(&u);
	if (r == 0)
		r = finish(&u);
	else
		r = 1;
	archive_tree_finish(&u.tree);
	archive_tree_fini(&u.tree);
	return r;
}
