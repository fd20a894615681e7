/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lives of a guest: a checkpoint freezes the workload, and each copy that is
 * restored from it begins a life of its own.
 *
 *            freeze(nonce)                 renew(identity)
 *   RUNNING ---------------> FROZEN(nonce) ---------------> RENEWED
 *      ^ ^                        | continue(nonce)            | thaw
 *      | +------------------------+                            |
 *      +-------------------------------------------------------+
 *
 * A guest boots FROZEN without a nonce, so nothing runs before its first
 * renewal. There is no timed thaw: timers go on in a copy, and a copy must not
 * run before it has its own identity, entropy and clock.
 */

#include <stdbool.h>

#include "guestd/guestd.h"

struct life;

struct life *life_new(struct guestd *g);
struct life *life_free(struct life *l);
/* May programs be started and files be changed? */
bool life_is_running(const struct life *l);

/* The control calls; each answers the stream. hello takes no body. */
void life_hello(struct guestd *g, struct http_stream *s);
void life_renew(struct guestd *g, struct http_stream *s, const void *body,
		size_t n);
void life_freeze(struct guestd *g, struct http_stream *s, const void *body,
		 size_t n);
void life_continue(struct guestd *g, struct http_stream *s, const void *body,
		   size_t n);
void life_thaw(struct guestd *g, struct http_stream *s, const void *body,
	       size_t n);
void life_finish(struct guestd *g, struct http_stream *s, const void *body,
		 size_t n);
void life_shutdown(struct guestd *g, struct http_stream *s, const void *body,
		   size_t n);
