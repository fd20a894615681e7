/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The newest 8,192 samples of what sandboxes use (sandboxd/usage.h), numbered
 * from 1 with each incarnation like events (sandboxd/events.h): who fell
 * behind is told, and goes on from the newest.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandboxd/usage.h"

#define SAMPLES_RING 8192u

/* 10 s; a variable for tests. */
extern uint64_t samples_every_ms;

struct sample {
	uint64_t seq;
	char sandbox[32];
	struct usage usage;
};

struct samples {
	struct sample *ring;
	uint64_t next; /* number of the next sample */
};

void samples_init(struct samples *ss);
void samples_fini(struct samples *ss);
void samples_push(struct samples *ss, const char *sandbox,
		  const struct usage *u);
/* Is `after` a place from which nothing is missing? */
bool samples_known(const struct samples *ss, uint64_t after);
/* The sample behind `after`, or NULL. Only if samples_known(). */
const struct sample *samples_next(const struct samples *ss, uint64_t after);
