/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/names.h"

#define MEMORY_MAX (512ull << 20) /* zstd's window is 128 MiB at most */
#define SAID_MAX   20u		  /* words about entries; then only counted */
#define LATE_MAX   65536u	  /* folders whose mode comes last */
#define PIECE	   65536u

struct late {
	char *name;
	mode_t mode;
	struct timespec mtime;
};

struct unpack {
	int in, top;
	const struct unpack_limits *limits;
	struct unpack_count *n;
	struct archive *a;
	struct late *late;
	size_t n_late;
	uint64_t seen;
	unsigned said;
	int fatal; /* -errno: nothing more can be done */
	char piece[PIECE];
};

/* ---- words ---- */

static void say(struct unpack *u, const char *raw, const char *what)
{
	owned_str name = name_shown_str(raw);

	if (u->said++ < SAID_MAX)
		fprintf(stderr, "caisson: %.200s: %s\n", name, what);
	else if (u->said == SAID_MAX + 1)
		fprintf(stderr, "caisson: … (others are only counted)\n");
}

static void refuse(struct unpack *u, const char *raw, const char *what)
{
	u->n->refused++;
	say(u, raw, what);
}

static void leave_out(struct unpack *u, const char *raw, const char *what)
{
	u->n->left_out++;
	say(u, raw, what);
}

/* ---- ways ---- */

static int open_below(int top, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, top, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static int open_folder(int top, const char *path)
{
	return open_below(top, *path ? path : ".", O_PATH | O_DIRECTORY);
}

/* Make what is missing of the way to `path`, a part at a time. */
static int make_folders(int top, char *path)
{
	char *slash = path;

	for (;;) {
		owned_fd above = -1;
		char *last;
		int fd;

		slash = strchr(slash, '/');
		if (slash)
			*slash = '\0';
		last = strrchr(path, '/');
		if (last)
			*last = '\0';
		above = open_folder(top, last ? path : "");
		if (last)
			*last = '/';
		if (above < 0)
			return above;
		if (mkdirat(above, last ? last + 1 : path, 0755) < 0 &&
		    errno != EEXIST)
			return -errno;
		if (!slash)
			return open_folder(top, path);
		fd = open_folder(top, path);
		*slash++ = '/';
		if (fd < 0)
			return fd;
		fd_close(fd);
	}
}

/* The folder that holds name; *ret_last is the last part. */
static int folder_of(struct unpack *u, const char *name, const char **ret_last)
{
	const char *slash = strrchr(name, '/');
	char folder[NAME_PATH_MAX];
	int fd;

	*ret_last = slash ? slash + 1 : name;
	snprintf(folder, sizeof(folder), "%.*s",
		 slash ? (int)(slash - name) : 0, name);
	fd = open_folder(u->top, folder);
	return fd == -ENOENT && *folder ? make_folders(u->top, folder) : fd;
}

static int make_room(int dir, const char *last)
{
	if (unlinkat(dir, last, 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EPERM ? -EISDIR : -errno;
}

/* ---- entries ---- */

static void times_of(struct archive_entry *e, struct timespec ret[2])
{
	ret[0] = ret[1] = (struct timespec){ 0, UTIME_OMIT };
	if (archive_entry_mtime_is_set(e))
		ret[1] = (struct timespec){ archive_entry_mtime(e),
					    archive_entry_mtime_nsec(e) };
}

/* 0, -errno, or 1: the archive itself is at fault. */
static int put_content(struct unpack *u, struct archive_entry *e, int fd)
{
	la_int64_t at, size = archive_entry_size(e);
	const void *p;
	size_t n;
	int r;

	for (;;) {
		r = archive_read_data_block(u->a, &p, &n, &at);
		if (r == ARCHIVE_EOF)
			break;
		if (r < ARCHIVE_WARN)
			return 1;
		if (at < 0 || at > size || n > (uint64_t)(size - at))
			return -EFBIG;
		u->n->bytes += n;
		if (u->limits->bytes && u->n->bytes > u->limits->bytes)
			return -E2BIG;
		if (lseek(fd, at, SEEK_SET) < 0)
			return -errno;
		r = write_all(fd, p, n);
		if (r < 0)
			return r;
	}
	return ftruncate(fd, size) < 0 ? -errno : 0; /* a hole at the end */
}

static int put_file(struct unpack *u, struct archive_entry *e, int dir,
		    const char *last)
{
	struct timespec times[2];
	owned_fd fd = -1;
	int r = make_room(dir, last);

	if (r < 0)
		return r;
	fd = openat(dir, last,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = put_content(u, e, fd);
	if (r != 0) {
		(void)unlinkat(dir, last, 0); /* a part of a file is no file */
		return r;
	}
	times_of(e, times);
	(void)futimens(fd, times);
	return fchmod(fd, archive_entry_perm(e) & 0777) < 0 ? -errno : 0;
}

static int put_symlink(struct unpack *u, struct archive_entry *e, int dir,
		       const char *last, const char *name)
{
	const char *target = archive_entry_symlink(e);
	struct timespec times[2];
	int r;

	if (!target || !name_link_stays(name, target)) {
		leave_out(u, name, "a link that leaves the tree: left out");
		return 0;
	}
	r = make_room(dir, last);
	if (r < 0)
		return r;
	if (symlinkat(target, dir, last) < 0)
		return -errno;
	times_of(e, times);
	(void)utimensat(dir, last, times, AT_SYMLINK_NOFOLLOW);
	u->n->entries++;
	return 0;
}

/* Another name of a file of this tree. */
static int put_hardlink(struct unpack *u, const char *target, const char *name,
			int dir, const char *last)
{
	char first[NAME_PATH_MAX];
	const char *first_last;
	owned_fd from = -1;
	struct stat st;
	int r;

	if (name_of_entry(target, first) < 0 || !*first) {
		refuse(u, name, "a hard link out of the tree: refused");
		return 0;
	}
	if (!strcmp(first, name))
		return 0;
	from = folder_of(u, first, &first_last);
	if (from < 0)
		return from;
	if (fstatat(from, first_last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode)) {
		refuse(u, name, "a hard link to what is no file: refused");
		return 0;
	}
	r = make_room(dir, last);
	if (r < 0)
		return r;
	if (linkat(from, first_last, dir, last, 0) < 0)
		return -errno;
	u->n->entries++;
	return 0;
}

static int put_folder(struct unpack *u, struct archive_entry *e, int dir,
		      const char *last, const char *name)
{
	struct timespec times[2];
	struct stat st;

	if (mkdirat(dir, last, 0700) < 0) {
		if (errno != EEXIST)
			return -errno;
		if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		/* one that is there stays as it is */
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	}
	u->n->entries++;
	times_of(e, times);
	if (u->n_late == LATE_MAX) {
		return fchmodat(dir, last, archive_entry_perm(e) & 0777, 0) < 0
			   ? -errno
			   : 0;
	}
	if (!u->late)
		u->late = xnew_n(struct late, LATE_MAX);
	u->late[u->n_late++] =
	    (struct late){ xstrdup(name), archive_entry_perm(e) & 0777,
			   times[1] };
	return 0;
}

static int put_named(struct unpack *u, struct archive_entry *e,
		     const char *name)
{
	const char *link = archive_entry_hardlink(e), *last;
	owned_fd dir = folder_of(u, name, &last);
	int r;

	if (dir < 0)
		return dir;
	if (link)
		return put_hardlink(u, link, name, dir, last);
	switch (archive_entry_filetype(e)) {
	case AE_IFDIR:
		return put_folder(u, e, dir, last, name);
	case AE_IFLNK:
		return put_symlink(u, e, dir, last, name);
	case AE_IFREG:
		r = put_file(u, e, dir, last);
		u->n->entries += r == 0;
		return r;
	default:
		leave_out(u, name, "a device, FIFO or socket: left out");
		return 0;
	}
}

static bool is_fatal(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EIO || r == -EROFS ||
	       r == -ENOMEM || r == -E2BIG || r == -EMFILE;
}

static void put_entry(struct unpack *u, struct archive_entry *e)
{
	const char *raw = archive_entry_pathname(e);
	char name[NAME_PATH_MAX];
	int r;

	if (!raw) {
		refuse(u, "?", "an entry without a name: refused");
		return;
	}
	r = name_of_entry(raw, name);
	if (r < 0) {
		refuse(u, raw,
		       r == -EINVAL ? "absolute, or with .. in it: refused"
				    : "too long a name: refused");
		return;
	}
	if (!*name) {
		if (archive_entry_filetype(e) != AE_IFDIR)
			refuse(u, raw, "in place of the tree's top: refused");
		return;
	}
	r = put_named(u, e, name);
	if (r > 0)
		u->fatal = -EBADMSG;
	else if (is_fatal(r))
		u->fatal = r;
	else if (r == -ELOOP || r == -EXDEV || r == -ENOTDIR)
		refuse(u, raw, "through a link, or what is no folder: refused");
	else if (r < 0)
		refuse(u, raw, strerror(-r));
}

/* Made folders get their mode and time, innermost first. */
static void finish(struct unpack *u)
{
	while (u->n_late > 0) {
		struct late *l = &u->late[--u->n_late];
		struct timespec times[2] = { { 0, UTIME_OMIT }, l->mtime };
		owned_fd fd =
		    open_below(u->top, l->name, O_RDONLY | O_DIRECTORY);

		if (fd >= 0) {
			(void)futimens(fd, times);
			(void)fchmod(fd, l->mode);
		}
		free(l->name);
	}
	free(u->late);
}

/* ---- all of it ---- */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct unpack *u = arg;
	ssize_t n;

	do
		n = read(u->in, u->piece, sizeof(u->piece));
	while (n < 0 && errno == EINTR);
	*ret = u->piece;
	if (n < 0)
		archive_set_error(a, errno, "the transfer broke off");
	return n;
}

static void bound_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* its own memory counts, too */
	const struct rlimit data = { MEMORY_MAX, MEMORY_MAX };

	(void)setrlimit(RLIMIT_DATA, &data);
#endif
}

static int entries(struct unpack *u)
{
	struct archive_entry *e;
	int r;

	for (;;) {
		r = archive_read_next_header(u->a, &e);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			return -EBADMSG;
		if (u->limits->entries && u->seen >= u->limits->entries)
			return -E2BIG;
		u->seen++;
		put_entry(u, e);
		if (u->fatal)
			return u->fatal;
	}
}

static void say_end(struct unpack *u, int r)
{
	const char *why = archive_error_string(u->a);

	if (r == -EBADMSG)
		fprintf(stderr, "caisson: the archive cannot be read: %.200s\n",
			why ? why : "it ends early");
	else if (r == -E2BIG)
		fprintf(stderr, "caisson: the tree is over --max-bytes or "
				"--max-entries\n");
	else if (r < 0)
		fprintf(stderr, "caisson: cannot unpack here: %s\n",
			strerror(-r));
}

int unpack_run(int in_fd, int top_fd, const struct unpack_limits *l,
	       struct unpack_count *ret)
{
	struct unpack *u = xnew(struct unpack);
	int r;

	bound_memory();
	u->in = in_fd;
	u->top = top_fd;
	u->limits = l;
	u->n = ret;
	u->a = archive_read_new();
	if (!u->a || archive_read_support_format_tar(u->a) != ARCHIVE_OK ||
	    archive_read_support_filter_zstd(u->a) != ARCHIVE_OK)
		r = -ENOMEM;
	else if (archive_read_open(u->a, u, NULL, on_read, NULL) < ARCHIVE_WARN)
		r = -EBADMSG;
	else
		r = entries(u);
	finish(u);
	say_end(u, r);
	archive_read_free(u->a);
	free(u);
	return r;
}
