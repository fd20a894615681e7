/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Positions in the log of events, as clients hold them: opaque, checked. Made
 * by caisson.event_cursor() in the database, read here. They grant nothing: a
 * forged one chooses where to read on in one's own log. Pure. */

#include <stdbool.h>
#include <stdint.h>

#define EVENT_CURSOR_TEXT 40u /* with NUL */

struct event_pos {
	uint64_t xid, seq;
};

bool event_cursor_decode(const char *text, struct event_pos *ret);
void event_cursor_encode(const struct event_pos *p,
			 char ret[EVENT_CURSOR_TEXT]);
bool event_pos_after(const struct event_pos *a, const struct event_pos *b);

/* "sandbox.running", "sandbox.*": [a-z_]+ '.' ([a-z_]+ | '*'). */
bool event_type_valid(const char *s, bool pattern);
/* Does the pattern name this type? */
bool event_type_matches(const char *pattern, const char *type);
