/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One slot's life: built once, used once, destroyed. Building and destroying
 * run in worker processes (a namespace, nft, or the last close of a tap would
 * hold the loop for tens of milliseconds); the rest is quick.
 *
 *   (free) -- slot_build --> READY -- slot_destroy --> DYING --> (free)
 *
 * A build that fails goes straight to DYING, so there is one way to undo.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/worker.h"
#include "noded/cgroup.h"
#include "noded/conf.h"
#include "noded/proc.h"
#include "noded/slotdir.h"
#include "proto/noded.h"

struct slot;

struct slot_ops {
	/* e == NULL: READY; else nothing of it is left and s may be freed. */
	void (*on_built)(struct slot *s, const struct err *e);
	/* e == NULL: all is gone, free s; else it is still DYING. */
	void (*on_destroyed)(struct slot *s, const struct err *e);
	void (*on_started)(struct slot *s, bool is_vmm, const struct err *e);
	void (*on_ended)(struct slot *s, bool is_vmm, int status,
			 const char *said);
};

struct slot {
	unsigned number;
	enum noded_slot_state state;
	bool is_building, destroy_wanted, had_vmm;
	bool is_gone; /* all but the wait for our own children */
	struct loop *loop;
	const struct noded_conf *conf;
	const struct cgroups *cgroups;
	const struct slot_ops *ops;
	void *owner;
	struct worker job;
	struct err why; /* a build that failed */
	struct proc vmm, monitor;
	int tap; /* kept until the end: see slot_destroy() */
	int socks[SLOT_SOCKS];
	uint64_t netns;
	uint64_t since_us; /* of the job in hand */
};

struct slot *slot_new(struct loop *l, const struct noded_conf *conf,
		      const struct cgroups *g, const struct slot_ops *ops,
		      void *owner, unsigned number);
struct slot *slot_free(struct slot *s); /* forgets, destroys nothing */

int slot_build(struct slot *s, struct err *e);
/* A slot of an earlier noded: 0 with its processes watched, or -ENOENT if
 * nothing lives in it (it is to be destroyed then). */
int slot_adopt(struct slot *s, struct err *e);

/* fds: the argv memfd, then extras; borrowed. on_started follows after 0. */
int slot_spawn_vmm(struct slot *s, const struct noded_req *q, const int *fds,
		   size_t n_fds, struct err *e);
int slot_spawn_monitor(struct slot *s, struct err *e);

/* Kill everything, wait until it is gone, remove every trace. While a build is
 * on its way it follows that. Repeating joins. on_destroyed follows after 0. */
int slot_destroy(struct slot *s, struct err *e);
