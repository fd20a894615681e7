/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbered slots, made ahead of need. noded builds one in milliseconds, but
 * those belong to nobody's create: `ahead` slots stand ready, and one that was
 * taken is replaced later. A number comes back only after noded said that
 * nothing of its last life is left; a destroy that fails is repeated until it
 * succeeds, and until then the number is not free.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sandboxd/fault.h"
#include "sandboxd/peer.h"

struct node;

enum slot_state {
	SLOT_FREE,
	SLOT_CREATING,
	SLOT_READY,
	SLOT_USED,
	SLOT_DYING,
};

struct slot {
	struct node *node;
	uint32_t number;
	enum slot_state state;
	uint64_t netns;
	struct list link;
	struct call call;
	struct loop_timer retry;
	void (*on_destroyed)(struct slot *s); /* NULL = nobody waits */
	void *owner;
};

struct slot_want {
	struct list link; /* in no list: does not wait */
	/* s NULL: f says why there is none. */
	void (*on_slot)(struct slot_want *w, struct slot *s,
			const struct fault *f);
};

struct slots {
	struct node *node;
	struct slot *all;
	uint32_t n, ahead;
	struct list free, ready, wants;
	uint32_t creating, used, dying;
	struct loop_timer refill;
};

void slots_init(struct slots *ss, struct node *node, uint32_t n,
		uint32_t ahead);
void slots_fini(struct slots *ss);
/* on_slot follows from the loop, or now if one stands ready. */
void slots_take(struct slots *ss, struct slot_want *w,
		void (*on_slot)(struct slot_want *, struct slot *,
				const struct fault *));
void slots_want_cancel(struct slot_want *w);
/* Could one be had without anything ending first? */
bool slots_has_room(const struct slots *ss);
/* Whatever its state. on_destroyed (may be NULL) when its number is free. */
void slot_destroy(struct slot *s, void (*on_destroyed)(struct slot *),
		  void *owner);
/* Make slots up to `ahead`, not while a create is in flight. */
void slots_refill_soon(struct slots *ss);
/* Re-adoption: mark a number as used (true) or as something to destroy. */
struct slot *slots_adopt(struct slots *ss, uint32_t number, uint64_t netns);
/* Slots that stood ready are not in noded's list any more. */
void slots_forget_ready(struct slots *ss, const bool *present);
