/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/events.h"

#include <stdio.h>

#include "base/own.h"
#include "base/text.h"

void events_init(struct events *ev)
{
	ev->ring = xnew_n(struct event, EVENTS_RING);
	ev->next = 1;
	list_init(&ev->waiters);
}

void events_fini(struct events *ev)
{
	free(ev->ring);
	ev->ring = NULL;
}

void events_push(struct events *ev, const char *sandbox, uint64_t generation,
		 const char *reason, const char *detail, const struct usage *u)
{
	struct event *e = &ev->ring[ev->next % EVENTS_RING];
	struct list now;

	e->seq = ev->next++;
	e->at_ms = now_unix_ms();
	e->generation = generation;
	e->reason = reason;
	e->usage = u ? *u : (struct usage){ 0 };
	snprintf(e->sandbox, sizeof(e->sandbox), "%s", sandbox);
	snprintf(e->detail, sizeof(e->detail), "%s", detail);

	list_init(&now);
	while (!list_empty(&ev->waiters)) {
		struct list *l = ev->waiters.next;

		list_del(l);
		list_add_tail(&now, l);
	}
	while (!list_empty(&now)) {
		struct events_waiter *w =
		    list_entry(list_first(&now), struct events_waiter, link);

		list_del(&w->link);
		w->on_event(w);
	}
}

bool events_known(const struct events *ev, uint64_t after)
{
	return after < ev->next && ev->next - 1 - after <= EVENTS_RING;
}

const struct event *events_next(const struct events *ev, uint64_t after)
{
	if (after + 1 >= ev->next)
		return NULL;
	return &ev->ring[(after + 1) % EVENTS_RING];
}

void events_wait(struct events *ev, struct events_waiter *w,
		 void (*on_event)(struct events_waiter *))
{
	w->on_event = on_event;
	list_add_tail(&ev->waiters, &w->link);
}
