/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream of bytes both ways between a request and its sandbox's guest: an
 * attach or a tunnel. Until the guest has agreed, everything that can go wrong
 * is an ordinary answer to the request, given here; afterwards the user moves
 * the bytes with peek, consume, write, room and end of the http_stream `up`.
 */

#include "api/data.h"
#include "api/guest.h"
#include "api/req.h"

struct duplex;

struct duplex_ops {
	/* The guest agreed; the request is still unanswered. */
	void (*on_open)(struct duplex *d);
	void (*on_body)(struct duplex *d);
	void (*on_writable)(struct duplex *d);
	/* Called once, last, after which nothing is touched: the guest's side
	 * is over (e == NULL: in good order), or, never opened, the request
	 * was answered or its client has gone. */
	void (*on_close)(struct duplex *d, const struct err *e);
};

struct duplex {
	const struct duplex_ops *ops;
	struct req *req; /* a reference */
	struct data_want *want;
	struct http_stream *up;
	char *sandbox, *data_path, *path;
	struct buf refusal;
	struct loop_timer timer; /* until it is open */
	bool repeated, open;
};

/* POST path at the guest of g; d is the user's, zeroed. */
void duplex_start(struct duplex *d, struct req *r, const struct guest *g,
		  const char *path, const struct duplex_ops *ops);
/* Cuts a stream and takes its callbacks away. */
void duplex_abandon(struct http_stream *s);
/* Cuts what is open; on_close is not called any more. */
void duplex_fini(struct duplex *d);
