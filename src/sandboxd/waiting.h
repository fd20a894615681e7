/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * VMMs that wait: started for a shape, with nothing loaded, so that a create
 * only has to load. They are this node's cache and nobody else's business; one
 * belongs to no sandbox until it is claimed, and is used for one life.
 *
 * Shapes are learnt from the checkpoints that exist here. Refilling starts only
 * when no create is in flight: on few cores it would otherwise be paid for by
 * the create that emptied the pool.
 */

#include <stdint.h>

#include "sandboxd/vm.h"

struct node;
struct waiting;

struct claim {
	struct list link; /* private */
	struct vm *vm;	  /* private: one that is still being made */
	/* v NULL: f says why. Otherwise it is the claimer's; set ops, owner. */
	void (*on_claimed)(struct claim *c, struct vm *v,
			   const struct fault *f);
};

struct waiting *waiting_new(struct node *n, uint32_t per_shape);
struct waiting *waiting_free(struct waiting *w);
/* Keep VMMs of this shape ready from now on. */
void waiting_learn(struct waiting *w, const struct vm_size *size);
/* One of the shape: a ready one now (from within), else one being made, else a
 * new one, within timeout_ms. */
void waiting_claim(struct waiting *w, struct claim *c,
		   const struct vm_size *size, uint64_t timeout_ms,
		   void (*on_claimed)(struct claim *, struct vm *,
				      const struct fault *));
void waiting_cancel(struct claim *c);
/* End one that waits, so that its slot can be used for another shape. 0, or
 * -ENOENT. */
int waiting_evict(struct waiting *w);
void waiting_refill_soon(struct waiting *w);
uint32_t waiting_count(const struct waiting *w); /* ready ones */
uint32_t waiting_total(const struct waiting *w); /* and those being made */
