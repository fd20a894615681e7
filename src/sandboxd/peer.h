/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The asking end of a typed channel: requests matched to answers by seq, each
 * with a deadline, so that a peer which errs, says nothing or dies always ends
 * a call in one way.
 *
 * A call is a member of whoever waits for it. Its on_done runs exactly once,
 * from the loop and never from within peer_call(), unless call_cancel() or
 * peer_free() came first. A cancelled call's answer is dropped and its
 * descriptors are closed; what it made must be undone by its owner.
 *
 * A peer with reconnect keeps connecting with back-off (50 ms .. 2 s). While it
 * is down calls fail at once with ERR_UNAVAILABLE: the layers above answer
 * typed, and whoever asked may repeat.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/channel.h"
#include "base/list.h"
#include "base/loop.h"

struct peer;
struct call;

struct answer {
	const struct err *e; /* NULL: success */
	const void *msg;     /* NULL if no answer came */
	size_t n;
	int *fds; /* closed afterwards unless taken */
	size_t n_fds;
};

struct call {
	struct peer *peer; /* NULL while idle */
	struct list link;
	uint32_t op, seq;
	bool dead; /* was made while the peer was down */
	struct loop_timer timer;
	void (*on_done)(struct call *c, const struct answer *a);
};

struct peer_kind {
	const char *what; /* as shown: "caisson-noded" */
	const struct channel_op *table;
	size_t n_ops;
	/* 0, or a negative errno with *e if the answer is a refusal. */
	int (*verdict)(const void *msg, struct err *e);
};

struct peer_ops {
	void (*on_up)(struct peer *p);
	/* After all calls ended. May be NULL. May free the peer. */
	void (*on_down)(struct peer *p, const struct err *e);
	/* seq 0. May be NULL. */
	void (*on_event)(struct peer *p, const void *msg, size_t n);
	/* An answer nobody waits for any more. May be NULL. */
	void (*on_late)(struct peer *p, const void *msg, size_t n);
};

extern const struct peer_kind peer_noded, peer_storaged, peer_monitor;

/* Connects from the loop; on_up follows. Without reconnect on_down comes once,
 * also if the first connect fails. */
struct peer *peer_new(struct loop *l, const struct peer_kind *kind,
		      const char *path, bool reconnect,
		      const struct peer_ops *ops, void *owner);
struct peer *peer_free(struct peer *p); /* silently ends all calls */
void *peer_owner(const struct peer *p);
bool peer_is_up(const struct peer *p);

/* msg begins with struct channel_hdr whose op is set; seq is filled in. */
void peer_call(struct peer *p, struct call *c, void *msg, size_t n,
	       const int *fds, size_t n_fds, uint64_t timeout_ms,
	       void (*on_done)(struct call *, const struct answer *));
/* Send without waiting for an answer. 0 or -errno. */
int peer_send(struct peer *p, void *msg, size_t n, const int *fds,
	      size_t n_fds);
void call_cancel(struct call *c); /* no-op if idle */
static inline bool call_is_busy(const struct call *c)
{
	return c->peer != NULL;
}
