/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes below a path, told as they happen (inotify). A change may be told
 * twice, never silently not at all: whatever may have been missed (the kernel's
 * queue or ours was full, no more watches) is told as `overflow`, and the
 * reader must look itself. A new folder is watched first and read then, so that
 * what was made in it meanwhile is told.
 *
 * Forked half only (filework.h): the process lives as long as the request.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guestd/filework.h"

#define WATCH_ALIVE_MS	15000u
#define WATCH_DIRS_MAX	65536u
#define WATCH_QUEUE_MAX (4u << 20) /* bytes of lines that nobody took yet */

int watch_run(struct file_ctx *c);

/* ---- the kernel's events ---- */

struct watch_event {
	int wd;
	uint32_t mask, cookie;
	const char *name; /* "" = the watched thing itself */
};

/* The event at *at of what was read, and *at behind it: 1, 0 at the end, or
 * -EBADMSG. Pure. */
int watch_event_next(const uint8_t *p, size_t n, size_t *at,
		     struct watch_event *ret);
/* One line of the answer; path and to may be NULL. */
void watch_line(struct buf *to_buf, const char *type, const char *path,
		const char *to, bool is_dir);

/* ---- which descriptor is which folder ---- */

struct watch_dirs {
	struct watch_dir *dir; /* by descriptor, ascending */
	size_t n, cap, n_alive;
};

/* Paths are relative to what is watched; "" is itself. 0, or -ENOSPC at
 * WATCH_DIRS_MAX. */
int watch_dirs_set(struct watch_dirs *s, int wd, const char *path);
const char *watch_dirs_get(const struct watch_dirs *s, int wd); /* or NULL */
void watch_dirs_del(struct watch_dirs *s, int wd);
/* A folder is called `to` now: it and all below it. to NULL: it is gone; each
 * descriptor is given to drop(). */
void watch_dirs_move(struct watch_dirs *s, const char *from, const char *to,
		     void (*drop)(void *arg, int wd), void *arg);
void watch_dirs_fini(struct watch_dirs *s);
