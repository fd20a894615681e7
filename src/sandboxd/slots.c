/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/slots.h"

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "proto/noded.h"
#include "sandboxd/node.h"

#define CREATE_TIMEOUT_MS  10000u
#define DESTROY_TIMEOUT_MS 15000u
#define DESTROY_RETRY_MS   500u
#define REFILL_MS	   20u
#define CREATES_AT_ONCE	   2u

static void move_to(struct slots *ss, struct slot *s, enum slot_state state)
{
	list_del(&s->link);
	if (s->state == SLOT_CREATING)
		ss->creating--;
	else if (s->state == SLOT_USED)
		ss->used--;
	else if (s->state == SLOT_DYING)
		ss->dying--;
	s->state = state;
	if (state == SLOT_CREATING)
		ss->creating++;
	else if (state == SLOT_USED)
		ss->used++;
	else if (state == SLOT_DYING)
		ss->dying++;
	else if (state == SLOT_READY)
		list_add_tail(&ss->ready, &s->link);
	else if (state == SLOT_FREE)
		list_add_tail(&ss->free, &s->link);
}

void slots_init(struct slots *ss, struct node *node, uint32_t n, uint32_t ahead)
{
	ss->node = node;
	ss->n = n;
	ss->ahead = ahead < n ? ahead : n;
	ss->all = xnew_n(struct slot, n);
	list_init(&ss->free);
	list_init(&ss->ready);
	list_init(&ss->wants);
	for (uint32_t i = 0; i < n; i++) {
		ss->all[i].node = node;
		ss->all[i].number = i;
		list_init(&ss->all[i].link);
		list_add_tail(&ss->free, &ss->all[i].link);
	}
}

void slots_fini(struct slots *ss)
{
	for (uint32_t i = 0; i < ss->n; i++) {
		call_cancel(&ss->all[i].call);
		loop_timer_del(&ss->all[i].retry);
	}
	loop_timer_del(&ss->refill);
	free(ss->all);
	ss->all = NULL;
	ss->n = 0;
}

static void hand_out(struct slots *ss)
{
	while (!list_empty(&ss->wants) && !list_empty(&ss->ready)) {
		struct slot_want *w =
		    list_entry(list_first(&ss->wants), struct slot_want, link);
		struct slot *s =
		    list_entry(list_first(&ss->ready), struct slot, link);

		list_del(&w->link);
		move_to(ss, s, SLOT_USED);
		w->on_slot(w, s, NULL);
	}
}

static void fail_wants(struct slots *ss, const struct fault *f)
{
	struct list all;

	/* Whoever asks again from within waits for the next one. */
	list_init(&all);
	while (!list_empty(&ss->wants)) {
		struct list *l = ss->wants.next;

		list_del(l);
		list_add_tail(&all, l);
	}
	while (!list_empty(&all)) {
		struct slot_want *w =
		    list_entry(list_first(&all), struct slot_want, link);

		list_del(&w->link);
		w->on_slot(w, NULL, f);
	}
}

static void on_created(struct call *c, const struct answer *a)
{
	struct slot *s = container_of(c, struct slot, call);
	struct slots *ss = &s->node->slots;
	const struct noded_rep *rep = a->msg;

	if (a->e) {
		struct fault f;

		log_warn("slot_failed", "slot=%u why=%s", s->number, a->e->msg);
		fault_from_err(&f, FAULT_FROM_NODED, "make a slot", a->e);
		/* Half of it may be there: noded takes down what it finds. */
		slot_destroy(s, NULL, NULL);
		fail_wants(ss, &f);
		return;
	}
	s->netns = rep->netns;
	move_to(ss, s, SLOT_READY);
	hand_out(ss);
	slots_refill_soon(ss);
}

static void create_one(struct slots *ss)
{
	struct slot *s = list_entry(list_first(&ss->free), struct slot, link);
	struct noded_req req = { .hdr.op = NODED_SLOT_CREATE };

	req.slot = s->number;
	move_to(ss, s, SLOT_CREATING);
	peer_call(ss->node->noded, &s->call, &req, sizeof(req), NULL, 0,
		  CREATE_TIMEOUT_MS, on_created);
}

static uint32_t list_count(const struct list *head)
{
	uint32_t n = 0;

	for (const struct list *l = head->next; l != head; l = l->next)
		n++;
	return n;
}

static void on_refill(struct loop_timer *t)
{
	struct slots *ss = container_of(t, struct slots, refill);
	uint32_t wants = list_count(&ss->wants);
	uint32_t target = wants;

	if (!peer_is_up(ss->node->noded) && wants == 0)
		return; /* on_up asks again */
	/* On few cores a slot built now would be paid for by the create in
	 * hand. */
	if (ss->node->starting == 0)
		target += ss->ahead;
	while (ss->creating < CREATES_AT_ONCE && !list_empty(&ss->free) &&
	       list_count(&ss->ready) + ss->creating < target)
		create_one(ss);
}

void slots_refill_soon(struct slots *ss)
{
	loop_timer_set(ss->node->loop, &ss->refill,
		       list_empty(&ss->wants) ? REFILL_MS : 0, on_refill);
}

bool slots_has_room(const struct slots *ss)
{
	return !list_empty(&ss->ready) || !list_empty(&ss->free) ||
	       ss->creating > list_count(&ss->wants) || ss->dying > 0;
}

void slots_take(struct slots *ss, struct slot_want *w,
		void (*on_slot)(struct slot_want *, struct slot *,
				const struct fault *))
{
	w->on_slot = on_slot;
	list_add_tail(&ss->wants, &w->link);
	hand_out(ss);
	slots_refill_soon(ss);
}

void slots_want_cancel(struct slot_want *w)
{
	if (w->link.next)
		list_del(&w->link);
}

static void destroy_again(struct loop_timer *t);

static void on_destroy_done(struct call *c, const struct answer *a)
{
	struct slot *s = container_of(c, struct slot, call);
	struct slots *ss = &s->node->slots;
	void (*told)(struct slot *) = s->on_destroyed;

	if (a->e && a->e->code != -ENOENT) {
		if (a->e->kind != ERR_UNAVAILABLE)
			log_warn("slot_stuck", "slot=%u why=%s", s->number,
				 a->e->msg);
		loop_timer_set(s->node->loop, &s->retry, DESTROY_RETRY_MS,
			       destroy_again);
		return;
	}
	s->netns = 0;
	s->on_destroyed = NULL;
	move_to(ss, s, SLOT_FREE);
	if (told)
		told(s);
	slots_refill_soon(ss);
}

static void destroy_now(struct slot *s)
{
	struct noded_req req = { .hdr.op = NODED_SLOT_DESTROY };

	req.slot = s->number;
	peer_call(s->node->noded, &s->call, &req, sizeof(req), NULL, 0,
		  DESTROY_TIMEOUT_MS, on_destroy_done);
}

static void destroy_again(struct loop_timer *t)
{
	destroy_now(container_of(t, struct slot, retry));
}

void slot_destroy(struct slot *s, void (*on_destroyed)(struct slot *),
		  void *owner)
{
	CHECK(s->state != SLOT_FREE);
	s->on_destroyed = on_destroyed;
	s->owner = owner;
	if (s->state == SLOT_DYING)
		return;
	call_cancel(&s->call);
	move_to(&s->node->slots, s, SLOT_DYING);
	destroy_now(s);
}

struct slot *slots_adopt(struct slots *ss, uint32_t number, uint64_t netns)
{
	if (number >= ss->n || ss->all[number].state != SLOT_FREE)
		return NULL;
	move_to(ss, &ss->all[number], SLOT_USED);
	ss->all[number].netns = netns;
	return &ss->all[number];
}

void slots_forget_ready(struct slots *ss, const bool *present)
{
	struct slot *s, *tmp;

	list_for_each_safe (s, tmp, &ss->ready, link) {
		if (!present[s->number])
			slot_destroy(s, NULL, NULL);
	}
}
