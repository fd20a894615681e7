/* SPDX-License-Identifier: Apache-2.0 */

/* A tree as tar, written to the parent as it is read. */

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
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
#include "guestd/archives.h"

#define LINKS_MAX   32768u /* files with several names that are known as one */
#define LINK_SLOTS  ((size_t)LINKS_MAX * 2)
#define EXTENTS_MAX 4096u
#define READ_BYTES  (256u << 10)
#define XATTR_MAX   65536u

struct link {
	dev_t dev;
	ino_t ino;
	char *name; /* NULL: free */
};

struct pack {
	struct file_ctx *c;
	struct archive *a;
	struct buf name; /* of the entry, relative to the tree */
	struct link *links;
	unsigned n_links;
};

static la_ssize_t on_bytes(struct archive *a, void *arg, const void *p,
			   size_t n)
{
	struct pack *k = arg;

	if (write_all(k->c->sock, p, n) < 0) {
		archive_set_error(a, EPIPE, "nobody reads");
		return -1;
	}
	return (la_ssize_t)n;
}

/* The name under which this file is in the archive already, or NULL; then it is
 * remembered. */
static const char *known_as(struct pack *k, const struct stat *st)
{
	size_t at =
	    (size_t)(st->st_ino * 2654435761u + st->st_dev) % LINK_SLOTS;

	if (!k->links)
		k->links = xnew_n(struct link, LINK_SLOTS);
	for (; k->links[at].name; at = (at + 1) % LINK_SLOTS)
		if (k->links[at].ino == st->st_ino &&
		    k->links[at].dev == st->st_dev)
			return k->links[at].name;
	/* beyond that they are stored as files of their own */
	if (k->n_links < LINKS_MAX) {
		k->n_links++;
		k->links[at] = (struct link){ st->st_dev, st->st_ino,
					      xstrdup(buf_cstr(&k->name)) };
	}
	return NULL;
}

static void add_xattrs(struct archive_entry *entry, int fd)
{
	static char names[XATTR_MAX], value[XATTR_MAX];
	ssize_t n = flistxattr(fd, names, sizeof(names));

	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
		ssize_t v = fgetxattr(fd, names + i, value, sizeof(value));

		if (v >= 0)
			archive_entry_xattr_add_entry(entry, names + i, value,
						      (size_t)v);
	}
}

/* Where the data is; too many pieces are told as one. */
static void add_extents(struct archive_entry *entry, int fd, off_t size)
{
	off_t at = 0;
	unsigned n = 0;

	while (at < size && n < EXTENTS_MAX) {
		off_t data = lseek(fd, at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0 || hole <= data)
			n = EXTENTS_MAX;
		else
			archive_entry_sparse_add_entry(entry, data,
						       hole - data);
		if (data == 0 && hole >= size)
			n = EXTENTS_MAX; /* no hole at all */
		at = hole;
		n++;
	}
	if (n >= EXTENTS_MAX)
		archive_entry_sparse_clear(entry);
	else if (n == 0 && size > 0) /* one hole: an empty piece at its end */
		archive_entry_sparse_add_entry(entry, size, 0);
}

static int put(struct pack *k, const void *p, size_t n)
{
	return archive_write_data(k->a, p, n) == (la_ssize_t)n ? 0 : -EIO;
}

/* libarchive wants the bytes of holes, too, and leaves them out itself. */
static int put_hole(struct pack *k, off_t n)
{
	static const char zeros[READ_BYTES];

	while (n > 0) {
		size_t want =
		    n < (off_t)sizeof(zeros) ? (size_t)n : sizeof(zeros);

		if (put(k, zeros, want) < 0)
			return -EIO;
		n -= (off_t)want;
	}
	return 0;
}

static int put_data(struct pack *k, int fd, off_t at, off_t end)
{
	static char text[READ_BYTES];

	while (at < end) {
		size_t want = end - at < (off_t)sizeof(text)
				  ? (size_t)(end - at)
				  : sizeof(text);
		ssize_t n = pread(fd, text, want, at);

		/* shorter than its header says: no reader could go on */
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (put(k, text, (size_t)n) < 0)
			return -EIO;
		at += n;
	}
	return 0;
}

static int put_content(struct pack *k, struct archive_entry *entry, int fd,
		       off_t size)
{
	la_int64_t from, n;
	off_t at = 0;

	if (archive_entry_sparse_reset(entry) == 0)
		return put_data(k, fd, 0, size);
	while (archive_entry_sparse_next(entry, &from, &n) == ARCHIVE_OK) {
		if (put_hole(k, from - at) < 0 ||
		    put_data(k, fd, from, from + n) < 0)
			return -EIO;
		at = from + n;
	}
	return put_hole(k, size - at);
}

static void describe(struct archive_entry *entry, const char *name,
		     const struct stat *st)
{
	archive_entry_set_pathname(entry, name);
	archive_entry_set_mode(entry, st->st_mode);
	archive_entry_set_uid(entry, st->st_uid);
	archive_entry_set_gid(entry, st->st_gid);
	archive_entry_set_mtime(entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	if (S_ISBLK(st->st_mode) || S_ISCHR(st->st_mode))
		archive_entry_set_rdev(entry, st->st_rdev);
}

static int put_header(struct pack *k, struct archive_entry *entry)
{
	/* a warning is about a name that is no UTF-8, which is written as it
	 * is */
	return archive_write_header(k->a, entry) <= ARCHIVE_FAILED ? -EIO : 0;
}

static int put_file(struct pack *k, struct archive_entry *entry, int dir,
		    const char *file)
{
	struct stat st;
	const char *first;
	owned_fd fd = filework_open(dir, file, false, &st);
	int r;

	if (fd < 0)
		return fd;
	if (!S_ISREG(st.st_mode))
		return -ENOENT; /* another thing by now */
	describe(entry, buf_cstr(&k->name), &st);
	first = st.st_nlink > 1 ? known_as(k, &st) : NULL;
	if (first) {
		archive_entry_set_hardlink(entry, first);
		archive_entry_set_size(entry, 0);
		return put_header(k, entry);
	}
	add_xattrs(entry, fd);
	add_extents(entry, fd, st.st_size);
	r = put_header(k, entry);
	return r < 0 ? r : put_content(k, entry, fd, st.st_size);
}

static int put_other(struct pack *k, struct archive_entry *entry, int dir,
		     const char *file, const struct stat *st)
{
	char target[FILE_PATH_MAX];
	ssize_t n;

	describe(entry, buf_cstr(&k->name), st);
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, file, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		archive_entry_set_symlink(entry, target);
	}
	return put_header(k, entry);
}

static int put_tree(struct pack *k, int dir, const char *file, unsigned depth);

static int put_folder(struct pack *k, int fd_take, unsigned depth)
{
	DIR *d = fdopendir(fd_take);
	size_t n = buf_len(&k->name);
	struct dirent *entry;
	int r = 0;

	if (!d) {
		fd_close(fd_take);
		return -ENOMEM;
	}
	while (r == 0) {
		errno = 0;
		entry = readdir(d);
		if (!entry) {
			r = -errno;
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		if (buf_puts(&k->name, entry->d_name) < 0)
			r = -ENAMETOOLONG;
		else
			r = put_tree(k, dirfd(d), entry->d_name, depth + 1);
		k->name.end = k->name.start + n;
		if (r == -ENOENT)
			r = 0; /* gone meanwhile */
	}
	(void)closedir(d);
	return r;
}

/* k->name is the entry's name. */
static int put_tree(struct pack *k, int dir, const char *file, unsigned depth)
{
	struct archive_entry *entry = NULL;
	struct stat st;
	int fd = -1, r;

	if (depth > ARCHIVE_DEPTH_MAX)
		return -ENAMETOOLONG;
	if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISSOCK(st.st_mode))
		return 0; /* means nothing elsewhere */
	if (S_ISDIR(st.st_mode)) {
		fd = filework_open(dir, file, false, &st);
		if (fd < 0)
			return fd;
		if (buf_puts(&k->name, "/") < 0) {
			fd_close(fd);
			return -ENAMETOOLONG;
		}
	}
	entry = archive_entry_new();
	if (S_ISREG(st.st_mode))
		r = put_file(k, entry, dir, file);
	else
		r = put_other(k, entry, dir, file, &st);
	archive_entry_free(entry);
	if (r == 0 && fd >= 0)
		return put_folder(k, fd, depth);
	fd_close(fd);
	return r;
}

/* ---- all of it ---- */

static int open_archive(struct pack *k)
{
	k->a = archive_write_new();
	if (!k->a || archive_write_set_format_pax(k->a) != ARCHIVE_OK ||
	    (k->c->job->zstd &&
	     archive_write_add_filter_zstd(k->a) != ARCHIVE_OK))
		return -ENOMEM;
	(void)archive_write_set_format_option(k->a, "pax", "xattrheader",
					      "SCHILY");
	(void)archive_write_set_bytes_per_block(k->a, 10240);
	(void)archive_write_set_bytes_in_last_block(k->a, 1);
	return archive_write_open(k->a, k, NULL, on_bytes, NULL) == ARCHIVE_OK
		   ? 0
		   : -ENOMEM;
}

static int pack(struct pack *k, int fd, const struct stat *st)
{
	struct file_place at = { .dir = -1 };
	int r;

	if (S_ISDIR(st->st_mode))
		return put_folder(k, fd, 0);
	fd_close(fd);
	/* one file: by its own name, also where a link led to it */
	r = filework_place(k->c->job->path, true, &at);
	if (r == 0)
		r = buf_puts(&k->name, at.name);
	if (r == 0)
		r = put_tree(k, at.dir, at.name, 0);
	filework_place_fini(&at);
	return r;
}

int archive_pack_run(struct file_ctx *c)
{
	const struct rlimit files = { ARCHIVE_DEPTH_MAX + 64,
				      ARCHIVE_DEPTH_MAX + 64 };
	struct pack k = { .c = c };
	struct file_result answer = { .status = 200, .length = -1 };
	struct stat st;
	int fd = filework_open(AT_FDCWD, c->job->path, true, &st), r;

	if (fd < 0)
		return filework_refuse(c, -fd, "path", "cannot pack",
				       c->job->path);
	(void)setrlimit(RLIMIT_NOFILE, &files);
	snprintf(answer.type, sizeof(answer.type), "application/%s",
		 c->job->zstd ? "zstd" : "x-tar");
	buf_init(&k.name, (size_t)ARCHIVE_DEPTH_MAX * 512);
	if (filework_answer(c, &answer) < 0 || open_archive(&k) < 0) {
		fd_close(fd);
		return 1;
	}
	r = pack(&k, fd, &st);
	/* without its end an archive is seen to be cut */
	if (r == 0 && archive_write_close(k.a) != ARCHIVE_OK)
		r = -EIO;
	return r != 0;
}
