/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

#define CHANGES                                                                \
	(IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE |      \
	 IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |         \
	 IN_EXCL_UNLINK)
#define READ_BYTES 65536u
#define DEPTH_MAX  256u
/* How long the second half of a rename is waited for. */
#define PAIR_MS 20

struct watcher {
	struct file_ctx *c;
	int in;
	char path[FILE_PATH_MAX]; /* without / at its end */
	struct watch_dirs dirs;
	struct buf out;
	bool overflow; /* to be told */
	bool limited;  /* no more watches; told once */
	bool scanning; /* before `ready`: nothing is told */
	bool over;

	/* the first half of a rename */
	char *from;
	uint32_t cookie;
	bool from_dir;

	/* the last line, if it was a write */
	char *written;
};

/* ---- lines ---- */

static bool is_ours(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, FILE_TEMP_PREFIX,
		       strlen(FILE_TEMP_PREFIX)) == 0;
}

/* rel: relative to what is watched, "" is itself. */
static char *whole(const struct watcher *w, const char *rel)
{
	return xasprintf("%s%s%s", *w->path || !*rel ? w->path : "",
			 *rel ? "/" : "", rel);
}

static void forget_written(struct watcher *w)
{
	free(w->written);
	w->written = NULL;
}

static void say(struct watcher *w, const char *type, const char *rel,
		const char *to, bool is_dir)
{
	bool write = strcmp(type, "write") == 0;
	owned_str path = NULL;
	owned_str goal = NULL;

	if (w->scanning || is_ours(rel))
		return;
	/* the same write again, before anybody could look */
	if (write && w->written && strcmp(w->written, rel) == 0)
		return;
	forget_written(w);
	if (buf_len(&w->out) > WATCH_QUEUE_MAX) {
		w->overflow = true;
		return;
	}
	path = whole(w, rel);
	goal = to ? whole(w, to) : NULL;
	watch_line(&w->out, type, path, goal, is_dir);
	if (write)
		w->written = xstrdup(rel);
}

/* ---- watches ---- */

static void no_more(struct watcher *w)
{
	w->overflow |= !w->limited;
	w->limited = true;
}

static int add_watch(struct watcher *w, int fd, const char *rel, uint32_t how)
{
	char self[32];
	int wd;

	/* by descriptor: the name may mean another thing by now */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->in, self, CHANGES | how);
	if (wd < 0)
		return -errno;
	if (watch_dirs_set(&w->dirs, wd, rel) < 0) {
		(void)inotify_rm_watch(w->in, wd);
		return -ENOSPC;
	}
	return 0;
}

static void watch_below(struct watcher *w, int dir, const char *name,
			const char *rel, unsigned depth);

static void scan(struct watcher *w, int fd_take, const char *rel,
		 unsigned depth)
{
	DIR *d = fdopendir(fd_take);
	struct dirent *entry;

	if (!d) {
		fd_close(fd_take);
		w->overflow = true;
		return;
	}
	while ((entry = readdir(d))) {
		owned_str below = NULL;
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0 ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) <
			0)
			continue;
		if (w->scanning && filework_beat(w->c) < 0)
			break;
		below =
		    xasprintf("%s%s%s", rel, *rel ? "/" : "", entry->d_name);
		say(w, "create", below, NULL, S_ISDIR(st.st_mode));
		if (S_ISDIR(st.st_mode) && w->c->job->recursive)
			watch_below(w, dirfd(d), entry->d_name, below,
				    depth + 1);
	}
	(void)closedir(d);
}

/* Watch a folder, then read it. */
static void watch_below(struct watcher *w, int dir, const char *name,
			const char *rel, unsigned depth)
{
	int fd =
	    openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0) {
		/* gone again, or no folder any more: its own event follows */
		w->overflow |= errno == EMFILE || errno == EACCES;
		return;
	}
	r = depth > DEPTH_MAX ? -ENOSPC : add_watch(w, fd, rel, IN_ONLYDIR);
	if (r == -ENOSPC)
		no_more(w);
	else if (r < 0)
		w->overflow = true;
	if (r < 0)
		fd_close(fd);
	else
		scan(w, fd, rel, depth);
}

static void drop_watch(void *arg, int wd)
{
	struct watcher *w = arg;

	(void)inotify_rm_watch(w->in, wd);
}

/* After a hole in the events: watch what came meanwhile. */
static void look_again(struct watcher *w)
{
	int fd = open(w->c->job->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || !w->c->job->recursive) {
		fd_close(fd);
		return;
	}
	w->scanning = true;
	scan(w, fd, "", 0);
	w->scanning = false;
}

/* ---- events ---- */

static void new_folder(struct watcher *w, const char *rel)
{
	owned_str path = NULL;
	owned_fd dir = -1;
	const char *slash = strrchr(rel, '/');

	if (!w->c->job->recursive || is_ours(rel))
		return;
	path = slash ? xasprintf("%s/%.*s", w->path, (int)(slash - rel), rel)
		     : xasprintf("%s/", w->path);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		watch_below(w, dir, slash ? slash + 1 : rel, rel, 1);
}

/* The other half of the rename did not come: it left the tree. */
static void flush_from(struct watcher *w)
{
	owned_str from = TAKE(w->from);

	if (!from)
		return;
	say(w, "remove", from, NULL, w->from_dir);
	if (w->from_dir)
		watch_dirs_move(&w->dirs, from, NULL, drop_watch, w);
}

static void on_moved_to(struct watcher *w, const char *rel, uint32_t cookie,
			bool is_dir)
{
	owned_str from = NULL;

	if (!w->from || w->cookie != cookie) {
		say(w, "create", rel, NULL, is_dir);
		if (is_dir)
			new_folder(w, rel);
		return;
	}
	from = TAKE(w->from);
	if (is_ours(from)) { /* a whole file came in place of one */
		say(w, "write", rel, NULL, is_dir);
		if (is_dir)
			new_folder(w, rel);
		return;
	}
	/* what the goal was before is gone */
	if (is_dir) {
		watch_dirs_move(&w->dirs, rel, NULL, drop_watch, w);
		watch_dirs_move(&w->dirs, from, rel, drop_watch, w);
	}
	say(w, "rename", from, rel, is_dir);
}

static void on_self(struct watcher *w, const struct watch_event *e,
		    const char *rel)
{
	if (e->mask & IN_IGNORED)
		watch_dirs_del(&w->dirs, e->wd);
	if (*rel)
		return; /* the folder above tells it */
	if (e->mask &
	    (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
		if (!w->over)
			watch_line(&w->out, "gone", NULL, NULL, false);
		w->over = true;
	} else if (e->mask & (IN_MODIFY | IN_CLOSE_WRITE)) {
		say(w, "write", "", NULL, false);
	} else if (e->mask & IN_ATTRIB) {
		say(w, "attrib", "", NULL, (e->mask & IN_ISDIR) != 0);
	}
}

static void on_named(struct watcher *w, const struct watch_event *e,
		     const char *folder)
{
	owned_str rel =
	    xasprintf("%s%s%s", folder, *folder ? "/" : "", e->name);
	bool is_dir = (e->mask & IN_ISDIR) != 0;

	if (e->mask & IN_MOVED_FROM) {
		flush_from(w);
		w->from = TAKE(rel);
		w->cookie = e->cookie;
		w->from_dir = is_dir;
	} else if (e->mask & IN_MOVED_TO) {
		on_moved_to(w, rel, e->cookie, is_dir);
	} else if (e->mask & IN_CREATE) {
		say(w, "create", rel, NULL, is_dir);
		if (is_dir)
			new_folder(w, rel);
	} else if (e->mask & (IN_MODIFY | IN_CLOSE_WRITE)) {
		say(w, "write", rel, NULL, is_dir);
	} else if (e->mask & IN_ATTRIB) {
		say(w, "attrib", rel, NULL, is_dir);
	} else if (e->mask & IN_DELETE) {
		say(w, "remove", rel, NULL, is_dir);
	}
}

static void on_event(struct watcher *w, const struct watch_event *e)
{
	const char *known;
	owned_str folder = NULL;

	if (e->mask & IN_Q_OVERFLOW) {
		flush_from(w);
		w->overflow = true;
		return;
	}
	known = watch_dirs_get(&w->dirs, e->wd);
	if (!known)
		return; /* of a folder that left */
	folder = xstrdup(known);
	if (*e->name)
		on_named(w, e, folder);
	else
		on_self(w, e, folder);
}

static int take_events(struct watcher *w)
{
	static uint8_t text[READ_BYTES]
	    __attribute__((aligned(__alignof__(struct inotify_event))));
	struct watch_event e;
	ssize_t n = read(w->in, text, sizeof(text));
	size_t at = 0;
	int r;

	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : -EIO;
	while ((r = watch_event_next(text, (size_t)n, &at, &e)) > 0)
		on_event(w, &e);
	/* whoever reads the line sees what was written before this read */
	forget_written(w);
	return r;
}

/* ---- the loop ---- */

static int give(struct watcher *w)
{
	while (buf_len(&w->out) > 0) {
		ssize_t n = send(w->c->sock, buf_data(&w->out),
				 buf_len(&w->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN ? 0 : -EPIPE;
		buf_consume(&w->out, (size_t)n);
	}
	return 0;
}

/* The hole is told where it is, and the watches are made whole again. */
static void tell_overflow(struct watcher *w)
{
	if (!w->overflow || buf_len(&w->out) > WATCH_QUEUE_MAX)
		return;
	w->overflow = false;
	forget_written(w);
	watch_line(&w->out, "overflow", NULL, NULL, false);
	look_again(w);
	/* what the look itself found out of reach is told with it */
	w->overflow = false;
}

/* 0 = go on, < 0 = the end. */
static int one_round(struct watcher *w, uint64_t *alive_at_ms)
{
	bool full = buf_len(&w->out) > WATCH_QUEUE_MAX;
	struct pollfd p[2] = {
		{ .fd = w->c->sock,
		  .events = buf_len(&w->out) > 0 ? POLLIN | POLLOUT : POLLIN },
		{ .fd = full ? -1 : w->in, .events = POLLIN },
	};
	uint64_t now = now_mono_us() / 1000;
	int wait = w->from		? PAIR_MS
		   : now < *alive_at_ms ? (int)(*alive_at_ms - now)
					: 0;
	int r = poll(p, 2, wait);

	if (r < 0 && errno != EINTR)
		return -errno;
	/* it says nothing: a word is its end */
	if (p[0].revents & (POLLIN | POLLHUP | POLLERR))
		return -EPIPE;
	if (p[1].revents && take_events(w) < 0)
		return -EIO;
	if (r == 0 && w->from)
		flush_from(w);
	tell_overflow(w);
	now = now_mono_us() / 1000;
	if (now >= *alive_at_ms) {
		if (buf_len(&w->out) == 0)
			watch_line(&w->out, "alive", NULL, NULL, false);
		*alive_at_ms = now + WATCH_ALIVE_MS;
	}
	return give(w);
}

static int open_top(struct watcher *w, int *ret_fd)
{
	const struct file_job *job = w->c->job;
	size_t n = strlen(job->path);
	struct stat st;
	int fd, r;

	while (n > 0 && job->path[n - 1] == '/')
		n--;
	snprintf(w->path, sizeof(w->path), "%.*s", (int)n, job->path);
	w->in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->in < 0)
		return -errno;
	fd = filework_open(AT_FDCWD, job->path, true, &st);
	if (fd < 0)
		return fd;
	r = add_watch(w, fd, "", 0);
	if (r < 0 || !S_ISDIR(st.st_mode) || !job->recursive)
		fd = fd_close(fd);
	*ret_fd = fd;
	return r;
}

int watch_run(struct file_ctx *c)
{
	static struct watcher w;
	struct file_result r = { .status = 200, .length = -1 };
	uint64_t alive_at_ms = now_mono_us() / 1000 + WATCH_ALIVE_MS;
	int fd = -1, result;

	w.c = c;
	buf_init(&w.out, 0);
	result = open_top(&w, &fd);
	if (result == -ENOSPC || result == -EMFILE)
		return filework_error(
		    c, 503, "capacity", "path",
		    "raise fs.inotify.max_user_watches (or "
		    "_instances) in the sandbox",
		    "the sandbox's kernel has no more watches");
	if (result < 0)
		return filework_refuse(c, -result, "path", "cannot watch",
				       c->job->path);
	w.scanning = true;
	if (fd >= 0)
		scan(&w, fd, "", 0);
	w.scanning = false;
	snprintf(r.type, sizeof(r.type), "application/x-ndjson");
	if (filework_answer(c, &r) < 0)
		return 1;
	watch_line(&w.out, "ready", NULL, NULL, false);
	if (give(&w) < 0)
		return 1;
	do
		result = one_round(&w, &alive_at_ms);
	while (result == 0 && !w.over);
	/* the last lines */
	if (result == 0)
		result = write_all(c->sock, buf_data(&w.out), buf_len(&w.out));
	return result < 0;
}
