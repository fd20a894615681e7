/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/names.h"

#define DEPTH_MAX 1000u
#define PIECE	  65536u

struct pack {
	struct archive *a;
	struct archive_entry *entry;
	struct buf name; /* of what is packed now, below the top */
	struct pack_count *n;
	char piece[PIECE];
};

static const char *name_of(struct pack *k)
{
	return buf_len(&k->name) ? buf_cstr(&k->name) : ".";
}

static void say(struct pack *k, const char *what)
{
	owned_str name = name_shown_str(name_of(k));

	fprintf(stderr, "caisson: %.300s: %s\n", name, what);
}

static int fail(struct pack *k, int errnum)
{
	say(k, strerror(errnum));
	return -errnum;
}

static int put_header(struct pack *k, const struct stat *st)
{
	archive_entry_set_pathname(k->entry, name_of(k));
	archive_entry_set_mode(k->entry, st->st_mode & (S_IFMT | 0777));
	archive_entry_set_mtime(k->entry, st->st_mtim.tv_sec,
				st->st_mtim.tv_nsec);
	archive_entry_set_size(k->entry,
			       S_ISREG(st->st_mode) ? st->st_size : 0);
	/* a warning is about a name that is no UTF-8: written as it is */
	return archive_write_header(k->a, k->entry) <= ARCHIVE_FAILED ? -EPIPE
								      : 0;
}

static int put_file(struct pack *k, int dir, const char *file)
{
	owned_fd fd =
	    openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	off_t left;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(k, errno);
	if (!S_ISREG(st.st_mode))
		return 0; /* another thing by now */
	r = put_header(k, &st);
	for (left = st.st_size; r == 0 && left > 0;) {
		size_t want = left < (off_t)PIECE ? (size_t)left : PIECE;
		ssize_t n = read(fd, k->piece, want);

		/* shorter than its header says: no reader could go on */
		if (n <= 0)
			return fail(k, n < 0 ? errno : ESTALE);
		if (archive_write_data(k->a, k->piece, (size_t)n) != n)
			return -EPIPE;
		left -= n;
		k->n->bytes += (uint64_t)n;
	}
	k->n->entries += r == 0;
	return r;
}

static int put_symlink(struct pack *k, int dir, const char *file,
		       const struct stat *st)
{
	char target[NAME_PATH_MAX];
	ssize_t n = readlinkat(dir, file, target, sizeof(target) - 1);

	if (n < 0)
		return fail(k, errno);
	target[n] = '\0';
	if (!name_link_stays(name_of(k), target)) {
		k->n->left_out++;
		say(k, "a link that leaves the tree: left out");
		return 0;
	}
	archive_entry_set_symlink(k->entry, target);
	k->n->entries++;
	return put_header(k, st);
}

static int put_tree(struct pack *k, int dir, const char *file, unsigned depth);

static int put_children(struct pack *k, int fd_take, unsigned depth)
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
			r = errno ? fail(k, errno) : 0;
			break;
		}
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (buf_printf(&k->name, "%s%s", n ? "/" : "", entry->d_name) <
		    0)
			r = fail(k, ENAMETOOLONG);
		else
			r = put_tree(k, dirfd(d), entry->d_name, depth);
		k->name.end = k->name.start + n;
	}
	closedir(d);
	return r;
}

static int put_folder(struct pack *k, int dir, const char *file,
		      const struct stat *st, unsigned depth)
{
	int fd, r;

	if (depth == DEPTH_MAX)
		return fail(k, ELOOP);
	fd = openat(dir, file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(k, errno);
	k->n->entries++;
	r = put_header(k, st);
	if (r < 0) {
		fd_close(fd);
		return r;
	}
	return put_children(k, fd, depth + 1);
}

static int put_tree(struct pack *k, int dir, const char *file, unsigned depth)
{
	struct stat st;

	archive_entry_clear(k->entry);
	if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		/* removed meanwhile */
		return errno == ENOENT ? 0 : fail(k, errno);
	if (S_ISREG(st.st_mode))
		return put_file(k, dir, file);
	if (S_ISLNK(st.st_mode))
		return put_symlink(k, dir, file, &st);
	if (S_ISDIR(st.st_mode))
		return put_folder(k, dir, file, &st, depth);
	k->n->left_out++;
	say(k, "a device, FIFO or socket: left out");
	return 0;
}

static int open_archive(struct pack *k, int out_fd, bool zstd)
{
	k->a = archive_write_new();
	k->entry = archive_entry_new();
	if (!k->a || !k->entry ||
	    archive_write_set_format_pax_restricted(k->a) != ARCHIVE_OK)
		return -ENOMEM;
	if (zstd && (archive_write_add_filter_zstd(k->a) != ARCHIVE_OK ||
		     archive_write_set_filter_option(
			 k->a, "zstd", "compression-level", "3") != ARCHIVE_OK))
		return -ENOMEM;
	return archive_write_open_fd(k->a, out_fd) == ARCHIVE_OK ? 0 : -EPIPE;
}

int pack_run(int top_fd, int out_fd, bool zstd, struct pack_count *ret)
{
	struct pack *k = xnew(struct pack);
	int r, fd;

	k->n = ret;
	buf_init(&k->name, NAME_PATH_MAX);
	r = open_archive(k, out_fd, zstd);
	fd = openat(top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = fail(k, errno);
	if (r == 0)
		r = put_children(k, take_fd(&fd), 1);
	fd_close(fd);
	if (r == 0 && archive_write_close(k->a) != ARCHIVE_OK)
		r = -EPIPE;
	archive_entry_free(k->entry);
	if (r < 0)
		archive_write_fail(k->a); /* no end that looks whole */
	archive_write_free(k->a);
	buf_fini(&k->name);
	free(k);
	return r;
}
