/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of the guest daemon share.
 *
 * guestd is PID 1 of the guest. It serves HTTP/2 over the record layer on one
 * virtio-serial port, and nothing else can talk to it. Its main loop must never
 * block: guest root may freeze the root file system or mount a dead one, so the
 * loop works on descriptors of proc, sysfs, cgroupfs and its own tmpfs that are
 * held since boot, and everything that needs a path of the root file system
 * happens in a forked process with a deadline (exec's child, file workers).
 *
 * Run with --root-less it is an ordinary process that serves the same protocol
 * on a socket; tests do that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

#define GUESTD_VERSION	1
#define GUESTD_USER_MAX 64

/* Held from boot; -1 where it could not be had (--root-less). */
struct held {
	int proc, sys;	/* directories */
	int cgroup;	/* root of the cgroup2 hierarchy */
	int workload;	/* its child for everything but guestd */
	int own;	/* its child for guestd and its workers */
	int pts;	/* directory of devpts */
	int null;	/* /dev/null, read-write */
	int random;	/* /dev/random, for the ioctls */
	int root;	/* the root directory */
	int machine_id; /* tmpfs files mounted over their names in /etc */
	int hostname;
	int hosts;
	/* Numbers up to it belonged to kernel threads when nothing else was
	 * running yet: 0 = unknown. */
	int kernel_pid;
};

struct children;
struct execs;
struct life;
struct port;
struct http_stream;

struct guestd {
	struct loop *loop;
	struct held held;
	bool root_less;
	char default_user[GUESTD_USER_MAX]; /* for execs that name none */
	struct children *children;
	struct life *life;
	struct execs *execs;
	unsigned n_workers; /* forked file workers alive */
	unsigned n_watchers, n_tunnels;
};

void held_init(struct held *h); /* everything -1 */
