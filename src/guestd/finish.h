/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last step of a template before its checkpoint, and the end of a guest.
 * Both write back the disk, which may block, so a forked process does that.
 */

#include "guestd/guestd.h"

/* Answers {clocksource, realtime_ns}, or 409 if the clock is not one that
 * survives a restore. */
void finish_start(struct guestd *g, struct http_stream *s);
/* Answers at once, then syncs for at most 5 s and powers off. */
void shutdown_start(struct guestd *g, struct http_stream *s);
