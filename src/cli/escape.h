/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keys of a terminal that are meant for us and not for the guest. Pure: bytes
 * in, the guest's bytes out, and at most one event at a time.
 *
 * - The detach keys, anywhere: "ctrl-p,ctrl-q" unless told.
 * - At the start of a line, as in ssh: `~.` detaches, `~^Z` suspends this
 *   program, `~?` says what there is, `~~` is one `~`. Any other key behind
 *   the `~` is the guest's, and so is the `~`.
 *
 * A key that may begin something is held back until the next one decides.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define ESCAPE_KEYS_MAX 16u

enum escape_event {
	ESCAPE_NONE,
	ESCAPE_DETACH,
	ESCAPE_SUSPEND,
	ESCAPE_HELP,
};

struct escape {
	uint8_t keys[ESCAPE_KEYS_MAX];
	size_t n_keys, matched;
	bool tilde;	 /* `~` escapes are on */
	bool line_start; /* the guest's last byte ended a line */
	bool held;	 /* a `~` at a line's start waits */
};

/* keys: "ctrl-p,ctrl-q", single characters or ctrl-X by commas, or "none".
 * -EINVAL with *e. */
int escape_init(struct escape *s, const char *keys, bool tilde, struct err *e);

/* Filter p[0..n): what is the guest's is appended to out (at most n + the keys
 * held back). Stops behind the keys of an event; returns bytes eaten. */
size_t escape_feed(struct escape *s, const uint8_t *p, size_t n,
		   struct buf *out, enum escape_event *ret);
