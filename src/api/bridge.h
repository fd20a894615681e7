/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream of raw bytes as a descriptor: what is read from one is written to
 * the other, both ways, with half-close and pressure; at most what the two hold
 * is held. For protocols that want a socket where there is a tunnel.
 */

#include "base/loop.h"
#include "net/http.h"

struct bridge {
	struct http_stream *s; /* borrowed; NULL when it is over */
	int fd;
	struct loop_io io;
	struct buf rest; /* read, and not taken by the stream yet */
	bool in_done;	 /* the descriptor was read to its end */
	bool out_done;	 /* the stream was */
};

/* fd is taken over. The owner of the stream's callbacks calls the two below. */
void bridge_begin_take(struct bridge *b, struct loop *l, struct http_stream *s,
		       int fd);
void bridge_on_body(struct bridge *b);
void bridge_on_writable(struct bridge *b);
/* The stream is over (cleanly or not): no more of it. */
void bridge_lost(struct bridge *b);
void bridge_end(struct bridge *b); /* no-op if it never began */
