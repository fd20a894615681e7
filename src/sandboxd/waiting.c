/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/waiting.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "sandboxd/engine_qemu.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/restore.h"
#include "sandboxd/stats.h"

#define RELEASES_MAX 4u
#define REFILL_MS    150u
/* The first commands of a new sandbox come now; another VM can wait as long as
 * one of its release is left. */
#define QUIET_MS	400u
#define PEER_DOWN_MS	2000u
#define BACKOFF_MIN_MS	2000u
#define BACKOFF_MAX_MS	300000u
#define MAKE_TIMEOUT_MS 20000u
#define WARM_TIMEOUT_MS 30000u
/* One that stood this long was not broken from the start. */
#define STOOD_MS 60000u

const char *const claim_path_names[CLAIM_PATHS_ + 1] = {
	[CLAIM_WARM] = "warm",
	[CLAIM_RESTORE] = "restore",
	[CLAIM_SPAWN] = "spawn",
};

/* A checkpoint of which VMs are kept warm. */
struct kept {
	struct list link; /* most recently used first */
	char ref[72];
	struct checkpoint ck;
	unsigned failures;
	uint64_t not_before_ms;
};

enum idle_state { IDLE_MAKING, IDLE_OPENING, IDLE_LOADING, IDLE_WARM };

/* A VM that no claim owns yet, or one being made for a claim. */
struct idle {
	struct list link;
	struct waiting *pool;
	struct vm *vm;
	char ref[72];
	enum idle_state state;
	struct restore restore;
	uint32_t cost_mib; /* counted as warm; 0 if a sandbox counts it */
	uint64_t begin_us, warm_at_ms;
	struct claim *claim;
	bool is_own; /* made for this claim */
};

struct waiting {
	struct node *node;
	uint32_t per_release;
	struct list kept, idle;
	unsigned n_kept;
	uint64_t quiet_until_ms;
	struct loop_timer refill;
};

struct waiting *waiting_new(struct node *n, uint32_t per_release)
{
	struct waiting *w = xnew(struct waiting);

	w->node = n;
	w->per_release = per_release;
	list_init(&w->kept);
	list_init(&w->idle);
	return w;
}

/* ---- what is kept, what is there ---- */

static struct kept *kept_find(struct waiting *w, const char *ref)
{
	struct kept *k;

	list_for_each (k, &w->kept, link) {
		if (strcmp(k->ref, ref) == 0)
			return k;
	}
	return NULL;
}

static void count_no_more(struct idle *i)
{
	struct node *n = i->pool->node;

	CHECK(n->memory_warm_mib >= i->cost_mib);
	n->memory_warm_mib -= i->cost_mib;
	i->cost_mib = 0;
}

/* The VM is somebody's from now on. */
static void idle_free(struct idle *i)
{
	restore_stop(&i->restore);
	count_no_more(i);
	list_del(&i->link);
	free(i);
}

static void idle_end(struct idle *i)
{
	struct vm *v = i->vm;

	idle_free(i);
	vm_end(v, NULL, NULL);
}

static void end_all_of(struct waiting *w, const char *ref)
{
	struct idle *i, *tmp;

	list_for_each_safe (i, tmp, &w->idle, link) {
		if (!i->claim && strcmp(i->ref, ref) == 0)
			idle_end(i);
	}
}

static void kept_drop(struct waiting *w, struct kept *k)
{
	end_all_of(w, k->ref);
	list_del(&k->link);
	w->n_kept--;
	free(k);
}

struct waiting *waiting_free(struct waiting *w)
{
	if (!w)
		return NULL;
	loop_timer_del(&w->refill);
	while (!list_empty(&w->idle))
		idle_free(list_entry(list_first(&w->idle), struct idle, link));
	while (!list_empty(&w->kept)) {
		struct kept *k =
		    list_entry(list_first(&w->kept), struct kept, link);

		list_del(&k->link);
		free(k);
	}
	free(w);
	return NULL;
}

static uint32_t count_of(const struct waiting *w, const char *ref)
{
	const struct idle *i;
	uint32_t n = 0;

	list_for_each (i, &w->idle, link) {
		n += !i->claim && strcmp(i->ref, ref) == 0;
	}
	return n;
}

uint32_t waiting_count(const struct waiting *w)
{
	const struct idle *i;
	uint32_t n = 0;

	list_for_each (i, &w->idle, link) {
		n += i->state == IDLE_WARM;
	}
	return n;
}

/* ---- making one ---- */

static const struct vm_ops idle_ops;

static struct idle *make_one(struct waiting *w, const char *ref,
			     const struct vm_size *size, uint64_t timeout_ms,
			     struct err *e)
{
	owned_fd argv_fd = -1;
	struct idle *i;
	int r = qemu_argv_waiting(w->node, size, &argv_fd, e);

	if (r < 0)
		return NULL;
	i = xnew(struct idle);
	i->pool = w;
	i->begin_us = now_mono_us();
	snprintf(i->ref, sizeof(i->ref), "%s", ref);
	restore_init(&i->restore);
	i->vm =
	    vm_new(w->node, size, argv_fd, NULL, 0, timeout_ms, &idle_ops, i);
	list_add_tail(&w->idle, &i->link);
	return i;
}

static void spawn_for(struct waiting *w, struct claim *c, const char *ref,
		      const struct vm_size *size, uint64_t timeout_ms)
{
	struct err e = { 0 };
	struct idle *i;
	struct fault f;

	if (!slots_has_room(&w->node->slots))
		waiting_make_room(w, true);
	i = make_one(w, ref, size, timeout_ms, &e);
	if (!i) {
		fault_set(&f, FAULT_INTERNAL, "start a VMM: %s", e.msg);
		c->on_claimed(c, NULL, &f);
		return;
	}
	i->claim = c;
	i->is_own = true;
	c->vm = i->vm;
	c->path = CLAIM_SPAWN;
}

/* It will not get warm, or is no more. Whatever broke it may break the next:
 * not at once, and each time later. */
static void failed(struct idle *i, const struct fault *f)
{
	struct waiting *w = i->pool;
	struct kept *k = kept_find(w, i->ref);
	struct claim *c = i->claim;
	struct vm_size size = i->vm->size;
	bool is_own = i->is_own;
	char ref[72];
	uint64_t pause = BACKOFF_MAX_MS;

	if (!is_own)
		log_warn("warm_vm_failed", "vm=%s ref=%s why=%s", i->vm->id,
			 i->ref, f->msg);
	memcpy(ref, i->ref, sizeof(ref));
	idle_end(i);
	if (k && !is_own) {
		if (k->failures < 8)
			pause = BACKOFF_MIN_MS << k->failures++;
		k->not_before_ms = loop_now_ms(w->node->loop) + pause;
		stats_warmed(false);
	}
	waiting_refill_soon(w);
	if (!c)
		return;
	c->vm = NULL;
	if (is_own)
		c->on_claimed(c, NULL, f);
	else
		spawn_for(w, c, ref, &size, MAKE_TIMEOUT_MS);
}

static void failed_err(struct idle *i, enum fault_from from, const char *doing,
		       const struct err *e)
{
	struct fault f;

	fault_from_err(&f, from, doing, e);
	failed(i, &f);
}

static void give(struct idle *i, struct claim *c, enum claim_path path)
{
	struct vm *v = i->vm;

	idle_free(i);
	c->vm = NULL;
	c->path = path;
	stats_claimed(path);
	c->on_claimed(c, v, NULL);
}

static void on_loaded(struct restore *r, const struct answer *a)
{
	struct idle *i = container_of(r, struct idle, restore);
	struct waiting *w = i->pool;

	if (a->e) {
		failed_err(i, FAULT_FROM_MONITOR, "warm it up", a->e);
		return;
	}
	i->state = IDLE_WARM;
	i->warm_at_ms = loop_now_ms(w->node->loop);
	stats_warmed(true);
	log_info("vm_warm", "vm=%s ref=%s ms=%llu", i->vm->id, i->ref,
		 (unsigned long long)(now_mono_us() - i->begin_us) / 1000);
	if (i->claim)
		give(i, i->claim, CLAIM_WARM);
	waiting_refill_soon(w);
}

static void on_opened(struct restore *r, const struct err *e)
{
	struct idle *i = container_of(r, struct idle, restore);
	struct fault f;

	if (e) {
		if (restore_is_unusable(e))
			waiting_forget(i->pool, i->ref);
		else
			failed_err(i, FAULT_FROM_STORE, "open the checkpoint",
				   e);
		return;
	}
	i->state = IDLE_LOADING;
	if (restore_load(r, MON_WARM | MON_PROBE, WARM_TIMEOUT_MS, on_loaded) <
	    0) {
		fault_set(&f, FAULT_VM, "the VM ended");
		failed(i, &f);
	}
}

static void on_ready(struct vm *v, const struct fault *f)
{
	struct idle *i = v->owner;
	struct kept *k = kept_find(i->pool, i->ref);

	if (f) {
		failed(i, f);
	} else if (i->claim) {
		give(i, i->claim, i->is_own ? CLAIM_SPAWN : CLAIM_RESTORE);
	} else {
		CHECK(k);
		i->state = IDLE_OPENING;
		restore_open(&i->restore, v, &k->ck, WARM_TIMEOUT_MS,
			     on_opened);
	}
}

static void on_gone(struct vm *v, const char *reason, const char *detail)
{
	struct idle *i = v->owner;
	struct waiting *w = i->pool;
	struct kept *k = kept_find(w, i->ref);
	struct fault f;

	if (k && i->state == IDLE_WARM &&
	    loop_now_ms(w->node->loop) - i->warm_at_ms > STOOD_MS)
		k->failures = 0;
	fault_set(&f, FAULT_VM, "%s: %s", reason, detail);
	failed(i, &f);
}

static const struct vm_ops idle_ops = { on_ready, on_gone };

/* ---- refill ---- */

static bool has_room(const struct waiting *w, uint32_t cost_mib)
{
	const struct node *n = w->node;

	return slots_has_room(&n->slots) &&
	       n->memory_used_mib + n->memory_warm_mib + cost_mib <=
		   n->conf.memory_mib;
}

/* Is one being made? */
static bool refill_one(struct waiting *w, struct kept *k)
{
	struct vm_size size = { k->ck.res.vcpus, k->ck.res.memory_mib,
				w->node->kvm };
	uint32_t cost_mib = size.memory_mib + NODE_VM_EXTRA_MIB;
	struct err e = { 0 };
	struct idle *i;

	if (!has_room(w, cost_mib))
		return false;
	i = make_one(w, k->ref, &size, MAKE_TIMEOUT_MS, &e);
	if (!i) {
		log_warn("warm_vm_failed", "why=%s", e.msg);
		k->not_before_ms = loop_now_ms(w->node->loop) + BACKOFF_MAX_MS;
		return false;
	}
	i->cost_mib = cost_mib;
	w->node->memory_warm_mib += cost_mib;
	return true;
}

static bool is_busy(const struct waiting *w)
{
	const struct idle *i;

	list_for_each (i, &w->idle, link) {
		if (i->state != IDLE_WARM)
			return true;
	}
	return w->node->starting > 0 || prepares_is_busy(w->node->prepares);
}

/* When one more of this release may be made: now (0), or later. */
static uint64_t when(const struct waiting *w, const struct kept *k,
		     uint32_t want, uint64_t now)
{
	uint64_t at = k->not_before_ms;

	if (want > 1 && w->quiet_until_ms > at)
		at = w->quiet_until_ms;
	return at > now ? at : 0;
}

/* The first of each release before the second of any. */
static void on_refill(struct loop_timer *t)
{
	struct waiting *w = container_of(t, struct waiting, refill);
	uint64_t now = loop_now_ms(w->node->loop), wake = UINT64_MAX, at;
	struct kept *k;

	if (is_busy(w) || !w->node->ready)
		return; /* asked again when that is over */
	if (!peer_is_up(w->node->noded) || !peer_is_up(w->node->storaged)) {
		loop_timer_set(w->node->loop, t, PEER_DOWN_MS, on_refill);
		return;
	}
	for (uint32_t want = 1; want <= w->per_release; want++) {
		list_for_each (k, &w->kept, link) {
			if (count_of(w, k->ref) >= want)
				continue;
			at = when(w, k, want, now);
			if (at && at < wake)
				wake = at;
			if (!at && refill_one(w, k))
				return;
		}
	}
	if (wake != UINT64_MAX)
		loop_timer_set(w->node->loop, t, wake - now, on_refill);
}

void waiting_refill_soon(struct waiting *w)
{
	if (w->per_release > 0)
		loop_timer_set(w->node->loop, &w->refill, REFILL_MS, on_refill);
}

void waiting_use(struct waiting *w, const char *ref,
		 const struct checkpoint *ck)
{
	struct kept *k = kept_find(w, ref);

	if (k && strcmp(k->ck.state, ck->state) != 0) {
		kept_drop(w, k);
		k = NULL;
	}
	if (k) {
		list_del(&k->link);
	} else {
		k = xnew(struct kept);
		snprintf(k->ref, sizeof(k->ref), "%s", ref);
		k->ck = *ck;
		w->n_kept++;
	}
	list_add(&w->kept, &k->link);
	if (w->n_kept > RELEASES_MAX)
		kept_drop(w, list_entry(w->kept.prev, struct kept, link));
	waiting_refill_soon(w);
}

void waiting_forget(struct waiting *w, const char *ref)
{
	struct kept *k = kept_find(w, ref);

	if (k)
		kept_drop(w, k);
	waiting_refill_soon(w);
}

/* ---- claims ---- */

/* The one that is nearest to running. */
static struct idle *best_of(struct waiting *w, const char *ref)
{
	struct idle *i, *best = NULL;

	list_for_each (i, &w->idle, link) {
		if (i->claim || i->vm->reason || strcmp(i->ref, ref) != 0)
			continue;
		if (!best || i->state > best->state)
			best = i;
	}
	return best;
}

void waiting_claim(struct waiting *w, struct claim *c, const char *ref,
		   const struct vm_size *size, bool never_warm,
		   uint64_t timeout_ms,
		   void (*on_claimed)(struct claim *, struct vm *,
				      const struct fault *))
{
	struct idle *i = never_warm ? NULL : best_of(w, ref);
	struct kept *k = kept_find(w, ref);

	c->on_claimed = on_claimed;
	c->vm = NULL;
	w->quiet_until_ms = loop_now_ms(w->node->loop) + QUIET_MS;
	if (i)
		count_no_more(i);
	waiting_make_room(w, false);
	if (!i) {
		spawn_for(w, c, ref, size, timeout_ms);
	} else if (i->state == IDLE_WARM) {
		if (k)
			k->failures = 0;
		give(i, c, CLAIM_WARM);
	} else if (i->state == IDLE_OPENING) {
		give(i, c, CLAIM_RESTORE);
	} else {
		i->claim = c;
		c->vm = i->vm;
	}
}

void waiting_cancel(struct claim *c)
{
	struct vm *v = c->vm;

	if (!v)
		return;
	c->vm = NULL;
	idle_end(v->owner);
}

/* One of the release that was used longest ago, what is not warm yet first. */
static struct idle *least_wanted(struct waiting *w)
{
	struct idle *i, *best;
	struct kept *k;

	for (struct list *l = w->kept.prev; l != &w->kept; l = l->prev) {
		k = list_entry(l, struct kept, link);
		best = NULL;
		list_for_each (i, &w->idle, link) {
			if (!i->claim && strcmp(i->ref, k->ref) == 0 &&
			    i->cost_mib && (!best || i->state < best->state))
				best = i;
		}
		if (best)
			return best;
	}
	return NULL;
}

void waiting_make_room(struct waiting *w, bool is_slot)
{
	const struct node *n = w->node;
	struct idle *i;

	while (is_slot ||
	       n->memory_used_mib + n->memory_warm_mib > n->conf.memory_mib) {
		i = n->memory_warm_mib ? least_wanted(w) : NULL;
		if (!i)
			return;
		log_info("warm_vm_given_up", "vm=%s ref=%s", i->vm->id, i->ref);
		idle_end(i);
		is_slot = false;
	}
}
