/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "storaged/name.h"
#include "storaged/qcow2.h"

static int open_dir(const struct store *s, const char *name, int *ret,
		    struct err *e)
{
	if (mkdirat(s->dir, name, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make %s/%s", s->path, name);
	*ret = openat(s->dir, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0)
		return err_errno(e, errno, "open %s/%s", s->path, name);
	return 0;
}

static DIR *list_dir(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		fd_close(fd);
	return d;
}

/* Remove the files of a folder; with `ending` only those that end so. */
static void empty_dir(int dir, const char *ending)
{
	DIR *d = list_dir(dir);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		size_t n = strlen(de->d_name), k = strlen(ending);

		if (de->d_name[0] == '.' && k == 0 &&
		    (!de->d_name[1] || de->d_name[1] == '.'))
			continue;
		if (n >= k && strcmp(de->d_name + n - k, ending) == 0)
			unlinkat(dir, de->d_name, 0);
	}
	if (d)
		closedir(d);
}

static int lock(struct store *s, struct err *e)
{
	s->lock = openat(s->dir, "storaged.lock",
			 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock < 0)
		return err_errno(e, errno, "%s/storaged.lock", s->path);
	/* a dead instance's last job may hold it for a moment */
	for (int i = 0; i < 50; i++) {
		const struct timespec pause = { .tv_nsec = 20000000 };

		if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	return err_set(e, -EBUSY, ERR_CONFLICT,
		       "another caisson-storaged uses %s; stop it first, or "
		       "give this one another --data",
		       s->path);
}

static int open_dirs(struct store *s, struct err *e)
{
	owned_fd blobs = -1;
	int r = open_dir(s, "blobs", &blobs, e);

	r = r < 0 ? r : open_dir(s, "blobs/sha256", &s->blobs, e);
	r = r < 0 ? r : open_dir(s, "drafts", &s->drafts, e);
	r = r < 0 ? r : open_dir(s, "overlays", &s->overlays, e);
	r = r < 0 ? r : open_dir(s, "refs", &s->refs, e);
	r = r < 0 ? r : open_dir(s, "tmp", &s->tmp, e);
	r = r < 0 ? r : open_dir(s, "trash", &s->trash, e);
	return r < 0 ? r : open_dir(s, "quarantine", &s->quarantine, e);
}

int store_open(struct store *s, const char *path, uint64_t floor_bytes,
	       struct err *e)
{
	int r = mkdir_p(path, 0700, e);

	*s = (struct store){ -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL, 0 };
	if (r < 0)
		return r;
	s->path = xstrdup(path);
	s->floor_bytes = floor_bytes;
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		r = err_errno(e, errno, "open %s", path);
	r = r < 0 ? r : lock(s, e);
	r = r < 0 ? r : open_dirs(s, e);
	if (r < 0) {
		store_close(s);
		return r;
	}
	empty_dir(s->drafts, "");
	empty_dir(s->tmp, "");
	empty_dir(s->trash, "");
	empty_dir(s->refs, ".tmp");
	return 0;
}

void store_close(struct store *s)
{
	s->dir = fd_close(s->dir);
	s->blobs = fd_close(s->blobs);
	s->drafts = fd_close(s->drafts);
	s->overlays = fd_close(s->overlays);
	s->refs = fd_close(s->refs);
	s->tmp = fd_close(s->tmp);
	s->trash = fd_close(s->trash);
	s->quarantine = fd_close(s->quarantine);
	s->lock = fd_close(s->lock);
	free(s->path);
	s->path = NULL;
}

int store_space(const struct store *s, uint64_t *ret_free, uint64_t *ret_total,
		struct err *e)
{
	struct statvfs st;

	if (fstatvfs(s->dir, &st) < 0)
		return err_errno(e, errno, "free space of %s", s->path);
	*ret_free = (uint64_t)st.f_bavail * st.f_frsize;
	*ret_total = (uint64_t)st.f_blocks * st.f_frsize;
	return 0;
}

int store_room(const struct store *s, struct err *e)
{
	uint64_t left = 0, total = 0;
	int r = store_space(s, &left, &total, e);

	if (r < 0)
		return r;
	if (left < s->floor_bytes)
		return err_set(e, -ENOSPC, ERR_EXHAUSTED,
			       "%s has %llu MiB left and nothing new is begun "
			       "below %llu MiB; free some space there",
			       s->path, (unsigned long long)(left >> 20),
			       (unsigned long long)(s->floor_bytes >> 20));
	return 0;
}

void store_draft_name(uint64_t id, char ret[17])
{
	snprintf(ret, 17, "%016llx", (unsigned long long)id);
}

int store_draft_new(const struct store *s, uint64_t id, int *ret, struct err *e)
{
	char name[17];
	int r = store_room(s, e);

	if (r < 0)
		return r;
	store_draft_name(id, name);
	*ret = openat(s->drafts, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		      0600);
	return *ret < 0 ? err_errno(e, errno, "make a draft") : 0;
}

int store_overlay_new(const struct store *s, const char *name, uint64_t size,
		      int *ret, struct err *e)
{
	owned_fd fd = -1;
	int r = store_room(s, e);

	if (r < 0)
		return r;
	fd = openat(s->overlays, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return err_errno(e, errno, "overlay %s", name);
	r = qcow2_empty_write(fd, size, e);
	if (r < 0) {
		unlinkat(s->overlays, name, 0);
		return r;
	}
	*ret = take_fd(&fd);
	return 0;
}

int store_throw(const struct store *s, int dir, const char *name)
{
	char to[25];

	random_id(to, 24);
	if (renameat(dir, name, s->trash, to) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

void store_sweep(const struct store *s)
{
	empty_dir(s->trash, "");
}

int store_overlay_list(const struct store *s, char *ret, size_t max,
		       uint32_t *ret_n, uint64_t *ret_total, struct err *e)
{
	DIR *d = list_dir(s->overlays);
	struct dirent *de;
	size_t n = 0, names = 0;

	if (!d)
		return err_errno(e, errno, "list %s/overlays", s->path);
	*ret_total = 0;
	while ((de = readdir(d))) {
		size_t len = strlen(de->d_name) + 1;

		if (!name_valid(de->d_name))
			continue;
		(*ret_total)++;
		if (names == ST_LIST_MAX || n + len > max)
			continue;
		memcpy(ret + n, de->d_name, len);
		n += len;
		names++;
	}
	closedir(d);
	*ret_n = (uint32_t)n;
	return 0;
}

static char *ref_path(const struct store *s, const char *name)
{
	return xasprintf("%s/refs/%s", s->path, name);
}

int store_ref_set(const struct store *s, const char *name, const char *text,
		  size_t n, struct err *e)
{
	owned_str path = ref_path(s, name);

	return file_write_atomic(path, text, n, 0600, e);
}

int store_ref_get(const struct store *s, const char *name, char *ret,
		  uint32_t *ret_n, struct err *e)
{
	owned_fd fd = openat(s->refs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return err_set(e, -ENOENT, ERR_NOT_FOUND, "no ref %s", name);
	if (fd < 0)
		return err_errno(e, errno, "ref %s", name);
	n = read(fd, ret, ST_REF_MAX);
	if (n < 0)
		return err_errno(e, errno, "ref %s", name);
	*ret_n = (uint32_t)n;
	return 0;
}

int store_ref_drop(const struct store *s, const char *name, struct err *e)
{
	if (unlinkat(s->refs, name, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "ref %s", name);
	return 0;
}
