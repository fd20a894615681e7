/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keeper of a node's artifacts: answers proto/storaged.h on
 * RUN/storaged.sock for caisson-node, root and its own user. What takes longer
 * than microseconds (hashing, copying, fsync) runs in worker processes while
 * others are served; answers may therefore come in another order than their
 * questions. Drafts belong to their connection and go with it.
 */

#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"

struct storaged_conf {
	const char *run, *data;
	uid_t node_uid;
	gid_t node_gid;
	uint64_t floor_bytes;
};

struct storaged;

int storaged_new(struct loop *l, const struct storaged_conf *conf,
		 struct storaged **ret, struct err *e);
struct storaged *storaged_free(struct storaged *s);
int storaged_listen(struct storaged *s, struct err *e);
/* Serve one connection that is already there (tests); takes fd. */
void storaged_serve_take(struct storaged *s, int fd);
