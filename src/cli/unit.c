/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unit.h"

uint64_t unit_backoff_ms(unsigned failures)
{
	uint64_t ms = UNIT_BACKOFF_MIN;

	if (failures == 0)
		return 0;
	while (--failures > 0 && ms < UNIT_BACKOFF_MAX)
		ms *= 2;
	return ms < UNIT_BACKOFF_MAX ? ms : UNIT_BACKOFF_MAX;
}

static bool those_before(const struct unit_track *u, const unsigned *after,
			 size_t n, size_t i)
{
	for (size_t j = 0; j < n; j++) {
		/* a part that was ready once and restarts now holds nobody up:
		 * its clients must live with that anyway */
		if ((after[i] & (1u << j)) && u[j].state != UNIT_READY &&
		    !u[j].was_ready)
			return false;
	}
	return true;
}

bool unit_may_start(const struct unit_track *u, const unsigned *after, size_t n,
		    size_t i, uint64_t now_ms)
{
	return u[i].state == UNIT_WAITING && now_ms >= u[i].not_before_ms &&
	       those_before(u, after, n, i);
}

uint64_t unit_next_ms(const struct unit_track *u, const unsigned *after,
		      size_t n, uint64_t now_ms)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		uint64_t wait;

		if (u[i].state != UNIT_WAITING || !those_before(u, after, n, i))
			continue;
		wait = u[i].not_before_ms > now_ms ? u[i].not_before_ms - now_ms
						   : 0;
		if (wait < next)
			next = wait;
	}
	return next;
}

void unit_started(struct unit_track *u, uint64_t now_ms)
{
	u->state = UNIT_STARTING;
	u->since_ms = now_ms;
}

void unit_ready(struct unit_track *u, uint64_t now_ms)
{
	u->state = UNIT_READY;
	u->since_ms = now_ms;
	u->was_ready = true;
}

void unit_ended(struct unit_track *u, bool once, bool ok, uint64_t now_ms)
{
	bool steady =
	    u->state == UNIT_READY && now_ms - u->since_ms >= UNIT_STEADY_MS;

	if (once && ok) {
		u->failures = 0;
		unit_ready(u, now_ms);
		return;
	}
	u->failures = steady ? 1 : u->failures + 1;
	u->restarts++;
	u->since_ms = now_ms;
	u->not_before_ms = now_ms + unit_backoff_ms(u->failures);
	u->state = once && u->failures >= UNIT_TASK_FAILURES ? UNIT_FAILED
							     : UNIT_WAITING;
}

bool units_all_ready(const struct unit_track *u, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (u[i].state != UNIT_READY)
			return false;
	}
	return true;
}

const char *unit_state_name(enum unit_state s)
{
	switch (s) {
	case UNIT_WAITING:
		return "waiting";
	case UNIT_STARTING:
		return "starting";
	case UNIT_READY:
		return "ready";
	case UNIT_FAILED:
		return "failed";
	}
	return "unknown";
}
