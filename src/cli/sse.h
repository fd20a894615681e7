/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decoder of server-sent events (HTML, 9.2): bytes in, events out. Pure and
 * bounded: an event holds at most SSE_EVENT_MAX bytes. An event that its
 * connection did not finish is void. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SSE_EVENT_MAX (1u << 20)

struct sse_event {
	const char *type; /* "" if it has none */
	const char *id;	  /* the last one seen */
	const char *data; /* NUL behind; lines joined by '\n' */
	size_t n;
};

struct sse {
	struct buf line, data;
	char type[64], id[256];
	bool had_cr;
	/* Non-zero ends the feeding and is returned from it. */
	int (*on_event)(void *arg, const struct sse_event *ev);
	void *arg;
};

void sse_init(struct sse *s, int (*on_event)(void *, const struct sse_event *),
	      void *arg);
void sse_fini(struct sse *s);
/* A new connection; the id stays. */
void sse_restart(struct sse *s);
/* 0, what on_event returned, or -EMSGSIZE with *e. */
int sse_feed(struct sse *s, const void *p, size_t n, struct err *e);
