/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/waiting.h"

#include "base/log.h"
#include "base/own.h"
#include "sandboxd/engine_qemu.h"
#include "sandboxd/node.h"

#define SHAPES_MAX	 16u
#define REFILL_MS	 150u
#define REFILL_FAILED_MS 2000u
#define MAKE_TIMEOUT_MS	 20000u

/* A VMM that no claim owns yet, or one being made for a claim. */
struct idle {
	struct list link;
	struct waiting *pool;
	struct vm *vm;
	struct claim *claim;
};

struct waiting {
	struct node *node;
	uint32_t per_shape;
	struct vm_size shapes[SHAPES_MAX];
	uint32_t n_shapes;
	struct list idle;
	struct loop_timer refill;
};

static bool same_size(const struct vm_size *a, const struct vm_size *b)
{
	return a->vcpus == b->vcpus && a->memory_mib == b->memory_mib &&
	       a->kvm == b->kvm;
}

struct waiting *waiting_new(struct node *n, uint32_t per_shape)
{
	struct waiting *w = xnew(struct waiting);

	w->node = n;
	w->per_shape = per_shape;
	list_init(&w->idle);
	return w;
}

static void idle_free(struct idle *i)
{
	list_del(&i->link);
	free(i);
}

struct waiting *waiting_free(struct waiting *w)
{
	if (!w)
		return NULL;
	loop_timer_del(&w->refill);
	while (!list_empty(&w->idle))
		idle_free(list_entry(w->idle.next, struct idle, link));
	free(w);
	return NULL;
}

static void on_refill(struct loop_timer *t);

static void on_ready(struct vm *v, const struct fault *f)
{
	struct idle *i = v->owner;
	struct waiting *w = i->pool;
	struct claim *c = i->claim;

	if (!f && !c)
		return; /* it waits */
	idle_free(i);
	if (f) {
		vm_end(v, NULL, NULL);
		/* What broke it will break the next: not at once. */
		loop_timer_set(w->node->loop, &w->refill, REFILL_FAILED_MS,
			       on_refill);
	}
	if (!c)
		return;
	c->vm = NULL;
	c->on_claimed(c, f ? NULL : v, f);
}

static void on_gone(struct vm *v, const char *reason, const char *detail)
{
	struct idle *i = v->owner;
	struct waiting *w = i->pool;

	log_warn("waiting_vmm_gone", "vm=%s reason=%s detail=%s", v->id, reason,
		 detail);
	idle_free(i);
	vm_end(v, NULL, NULL);
	waiting_refill_soon(w);
}

static const struct vm_ops idle_ops = { on_ready, on_gone };

static struct idle *make_one(struct waiting *w, const struct vm_size *size,
			     uint64_t timeout_ms, struct err *e)
{
	owned_fd argv_fd = -1;
	struct idle *i;
	int r = qemu_argv_waiting(w->node, size, &argv_fd, e);

	if (r < 0)
		return NULL;
	i = xnew(struct idle);
	i->pool = w;
	i->vm =
	    vm_new(w->node, size, argv_fd, NULL, 0, timeout_ms, &idle_ops, i);
	list_add_tail(&w->idle, &i->link);
	return i;
}

static uint32_t count_of(const struct waiting *w, const struct vm_size *size)
{
	struct idle *i;
	uint32_t n = 0;

	list_for_each (i, &w->idle, link) {
		n += !i->claim && same_size(&i->vm->size, size);
	}
	return n;
}

static void on_refill(struct loop_timer *t)
{
	struct waiting *w = container_of(t, struct waiting, refill);
	struct err e = { 0 };

	if (w->node->starting > 0 || !w->node->ready ||
	    !peer_is_up(w->node->noded))
		return; /* asked again when the last one is over */
	for (uint32_t s = 0; s < w->n_shapes; s++) {
		if (count_of(w, &w->shapes[s]) >= w->per_shape ||
		    !slots_has_room(&w->node->slots))
			continue;
		if (!make_one(w, &w->shapes[s], MAKE_TIMEOUT_MS, &e)) {
			log_warn("waiting_vmm_failed", "why=%s", e.msg);
			loop_timer_set(w->node->loop, t, REFILL_FAILED_MS,
				       on_refill);
			return;
		}
		/* One at a time, each after a pause. */
		waiting_refill_soon(w);
		return;
	}
}

void waiting_refill_soon(struct waiting *w)
{
	if (!w->refill.loop)
		loop_timer_set(w->node->loop, &w->refill, REFILL_MS, on_refill);
}

void waiting_learn(struct waiting *w, const struct vm_size *size)
{
	for (uint32_t s = 0; s < w->n_shapes; s++)
		if (same_size(&w->shapes[s], size))
			return;
	if (w->n_shapes == SHAPES_MAX)
		return;
	w->shapes[w->n_shapes++] = *size;
	waiting_refill_soon(w);
}

static struct idle *find(struct waiting *w, const struct vm_size *size,
			 bool is_ready)
{
	struct idle *i;

	list_for_each (i, &w->idle, link) {
		if (!i->claim && same_size(&i->vm->size, size) &&
		    (i->vm->state == VM_READY) == is_ready && !i->vm->reason)
			return i;
	}
	return NULL;
}

void waiting_claim(struct waiting *w, struct claim *c,
		   const struct vm_size *size, uint64_t timeout_ms,
		   void (*on_claimed)(struct claim *, struct vm *,
				      const struct fault *))
{
	struct idle *i = find(w, size, true);
	struct err e = { 0 };
	struct fault f;
	struct vm *v;

	c->on_claimed = on_claimed;
	c->vm = NULL;
	if (i) {
		v = i->vm;
		idle_free(i);
		on_claimed(c, v, NULL);
		return;
	}
	i = find(w, size, false);
	if (!i) {
		/* Its slot may be held by one of another shape. */
		if (!slots_has_room(&w->node->slots))
			waiting_evict(w);
		i = make_one(w, size, timeout_ms, &e);
	}
	if (!i) {
		fault_set(&f, FAULT_INTERNAL, "start a VMM: %s", e.msg);
		on_claimed(c, NULL, &f);
		return;
	}
	i->claim = c;
	c->vm = i->vm;
}

void waiting_cancel(struct claim *c)
{
	struct vm *v = c->vm;
	struct idle *i;
	struct waiting *w;

	if (!v)
		return;
	i = v->owner;
	w = i->pool;
	i->claim = NULL;
	c->vm = NULL;
	/* It goes on to wait for somebody else, if one more may wait. */
	if (count_of(w, &v->size) > w->per_shape) {
		idle_free(i);
		vm_end(v, NULL, NULL);
	}
}

int waiting_evict(struct waiting *w)
{
	struct idle *i;
	struct vm *v;

	list_for_each (i, &w->idle, link) {
		if (i->claim || i->vm->state != VM_READY)
			continue;
		v = i->vm;
		idle_free(i);
		vm_end(v, NULL, NULL);
		return 0;
	}
	return -ENOENT;
}

uint32_t waiting_count(const struct waiting *w)
{
	struct idle *i;
	uint32_t n = 0;

	list_for_each (i, &w->idle, link) {
		n += !i->claim && i->vm->state == VM_READY;
	}
	return n;
}

uint32_t waiting_total(const struct waiting *w)
{
	struct idle *i;
	uint32_t n = 0;

	list_for_each (i, &w->idle, link) {
		n++;
	}
	return n;
}
