/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output to descriptors that belong to others as well (a terminal, a pipe):
 * O_NONBLOCK is theirs to set, so pieces are written only when poll says that
 * they fit. One queue in the order of arrival, with the log offset that is
 * reached by each piece: what on_progress reports has really been written.
 *
 * A pipe that is writable takes PIPE_BUF bytes without blocking, a socket is
 * sent to with MSG_DONTWAIT, a terminal gets small pieces (one that was stopped
 * by Ctrl-S reports itself as not writable), a file is written at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

#define OUTLET_FDS 2

struct outlet;

struct outlet_port {
	struct loop_io io;
	struct outlet *owner;
	int fd, kind;
};

struct outlet {
	struct loop *loop;
	struct outlet_port ports[OUTLET_FDS];
	struct list pieces;
	size_t n_bytes; /* queued */
	struct loop_defer more;
	bool broken; /* a reader is gone, or the disk is full: see err */
	int error;   /* negative errno */
	/* Everything below the offset is written. */
	void (*on_progress)(struct outlet *o, uint64_t offset);
	void (*on_broken)(struct outlet *o);
};

/* fds stay the caller's. */
void outlet_init(struct outlet *o, struct loop *l, int fd_out, int fd_err,
		 void (*on_progress)(struct outlet *, uint64_t),
		 void (*on_broken)(struct outlet *));
void outlet_fini(struct outlet *o);
/* which: 0 out, 1 err. Copies; n may be 0 (an offset alone). Callbacks come
 * from the loop. */
void outlet_put(struct outlet *o, int which, const void *p, size_t n,
		uint64_t offset);
