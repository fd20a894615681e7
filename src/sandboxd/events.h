/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the control plane must hear of: a ring of the newest 4,096 events.
 * Numbers start at 1 with each incarnation. A reader that fell behind, or asks
 * for numbers of another incarnation, is told to read the list instead.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sandboxd/usage.h"

#define EVENTS_RING 4096u

struct event {
	uint64_t seq;
	int64_t at_ms;
	char sandbox[32];
	uint64_t generation;
	const char *reason; /* a constant */
	char detail[192];
	struct usage usage; /* the last that is known */
};

struct events_waiter {
	struct list link;
	void (*on_event)(struct events_waiter *w);
};

struct events {
	struct event *ring;
	uint64_t next; /* number of the next event */
	struct list waiters;
};

void events_init(struct events *ev);
void events_fini(struct events *ev);
void events_push(struct events *ev, const char *sandbox, uint64_t generation,
		 const char *reason, const char *detail, const struct usage *u);
/* Is `after` a place from which nothing is missing? */
bool events_known(const struct events *ev, uint64_t after);
/* The event behind `after`, or NULL. Only if events_known(). */
const struct event *events_next(const struct events *ev, uint64_t after);
/* Called once at the next event, then in no list. */
void events_wait(struct events *ev, struct events_waiter *w,
		 void (*on_event)(struct events_waiter *));
