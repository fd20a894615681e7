/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The supervisor's decisions, without its processes: when a unit may start,
 * what an end means, how long to wait before the next try. Pure; the clock is
 * the caller's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unit_state {
	UNIT_WAITING,  /* for those before it, or for its back-off */
	UNIT_STARTING, /* runs, not ready yet */
	UNIT_READY,    /* ready, or done if it is a task */
	UNIT_FAILED,   /* a task that will not be tried again */
};

struct unit_track {
	enum unit_state state;
	unsigned failures; /* in a row */
	unsigned restarts; /* ever */
	uint64_t since_ms; /* of the present state */
	uint64_t not_before_ms;
	bool was_ready; /* once, since the supervisor started */
};

#define UNIT_STEADY_MS	   10000u /* ready so long: its failures are forgotten */
#define UNIT_BACKOFF_MIN   100u
#define UNIT_BACKOFF_MAX   30000u
#define UNIT_TASK_FAILURES 6u /* a task that fails so often is given up */

/* 100 ms, doubled with every failure in a row, at most 30 s; 0 for none. */
uint64_t unit_backoff_ms(unsigned failures);
/* May unit i (of n, after[i] its bit mask) start now? */
bool unit_may_start(const struct unit_track *u, const unsigned *after, size_t n,
		    size_t i, uint64_t now_ms);
/* Milliseconds until something may start that waits for its back-off alone;
 * UINT64_MAX if nothing does. */
uint64_t unit_next_ms(const struct unit_track *u, const unsigned *after,
		      size_t n, uint64_t now_ms);

void unit_started(struct unit_track *u, uint64_t now_ms);
void unit_ready(struct unit_track *u, uint64_t now_ms);
/* It ended. once: a task; ok: exit status 0. */
void unit_ended(struct unit_track *u, bool once, bool ok, uint64_t now_ms);
bool units_all_ready(const struct unit_track *u, size_t n);
const char *unit_state_name(enum unit_state s);
