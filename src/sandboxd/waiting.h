/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Warm VMs: a release's checkpoint restored, renewed for nobody, tried with a
 * command, its workload frozen again and its CPUs stopped. A create then only
 * continues, renews and opens one. They are this node's cache and nobody else's
 * business: a warm VM belongs to no sandbox until it is claimed, is given away
 * once, and has no journal, so that a restart destroys it.
 *
 * Kept for the RELEASES_MAX checkpoints that were used last, per_release each.
 * Made one at a time and only while no create is in flight: on few cores it
 * would otherwise be paid for by the create that emptied the pool. A release
 * whose VMs fail or die is left alone for a while that doubles.
 *
 * Memory of warm VMs (node.memory_warm_mib) is taken only where it fits, and
 * given up, least recently used release first, when a sandbox needs it.
 */

#include <stdint.h>

#include "sandboxd/ref.h"
#include "sandboxd/vm.h"

struct node;
struct waiting;

enum claim_path {
	CLAIM_WARM,    /* only to be renewed and opened */
	CLAIM_RESTORE, /* was being made: to be loaded */
	CLAIM_SPAWN,   /* made for this claim: to be loaded */
	CLAIM_PATHS_,
};
extern const char *const claim_path_names[CLAIM_PATHS_ + 1];

struct claim {
	enum claim_path path;
	struct list link; /* private */
	struct vm *vm;	  /* private: one that is still being made */
	/* v NULL: f says why. Otherwise it is the claimer's; set ops, owner. */
	void (*on_claimed)(struct claim *c, struct vm *v,
			   const struct fault *f);
};

struct waiting *waiting_new(struct node *n, uint32_t per_release);
struct waiting *waiting_free(struct waiting *w);
/* This checkpoint is used now: keep VMs of it warm. */
void waiting_use(struct waiting *w, const char *ref,
		 const struct checkpoint *ck);
/* The checkpoint is no more: destroy what was made of it. */
void waiting_forget(struct waiting *w, const char *ref);
/* One for this checkpoint: a warm one now (from within), else one that is being
 * made, else a new one, within timeout_ms. never_warm: not a warm one. */
void waiting_claim(struct waiting *w, struct claim *c, const char *ref,
		   const struct vm_size *size, bool never_warm,
		   uint64_t timeout_ms,
		   void (*on_claimed)(struct claim *, struct vm *,
				      const struct fault *));
void waiting_cancel(struct claim *c);
/* Give up what sandboxes (their memory is counted already) or, if is_slot, a
 * VM without a slot needs. */
void waiting_make_room(struct waiting *w, bool is_slot);
void waiting_refill_soon(struct waiting *w);
uint32_t waiting_count(const struct waiting *w); /* warm ones */
