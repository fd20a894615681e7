/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Following the log of events: one query per process every 250 ms, whoever
 * follows, whose rows are handed to all that are up to date. A follower that
 * is not (it began in the past, or its client reads slowly) reads pages of its
 * own from its cursor until it is; so no client makes us hold more than one
 * page for it, and none loses or repeats an event.
 *
 * No NOTIFY: it would make every commit that a client waits for queue for one
 * lock of the whole database.
 */

#include "api/h-event-cursor.h"
#include "api/req.h"

#define EVENT_TYPES_MAX	  32u
#define EVENT_TYPE_MAX	  72u
#define EVENT_FOLLOW_MAX  1024u /* streams of one process */
#define EVENT_KEY_MAX	  64u	/* of one key */
#define EVENT_PAGE_FOLLOW 100
#define EVENT_ALIVE_MS	  15000u

struct event_filter {
	char types[EVENT_TYPES_MAX][EVENT_TYPE_MAX];
	size_t n_types; /* 0: every type */
	char sandbox[32];
	bool all;     /* of the tenant, not of the project only */
	bool cluster; /* and what belongs to no tenant */
};

struct event_hub *event_hub_new(struct api *a);
struct event_hub *event_hub_free(struct event_hub *h);
/* Streams from `from` on; answers the request, also with a refusal. */
void event_follow(struct req *r, const struct event_filter *f,
		  const struct event_pos *from);

/* The statement of a page, and its parameters. after NULL: from the oldest. */
struct event_params {
	char xid[24], seq[24], limit[24];
	char types[EVENT_TYPES_MAX * (EVENT_TYPE_MAX + 1) + 4];
	const char *v[8];
};
extern struct pg_stmt event_page_stmt;
void event_params(struct event_params *p, const struct principal *who,
		  const struct event_filter *f, const struct event_pos *after,
		  int64_t limit);
/* columns of a page */
enum { EVENT_XID, EVENT_SEQ, EVENT_CURSOR, EVENT_ITEM };
