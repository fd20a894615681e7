/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/2 on nghttp2, in two halves: http2.c is what we tell nghttp2 (session,
 * output, the http_proto table), http2_recv.c what it tells us.
 *
 * Flow control is by hand (no automatic window updates): the connection's
 * credit is given back as bytes arrive, so that one reader who stops cannot
 * stop the others; a stream's credit when its user consumes. A peer can thus
 * make us hold its window per stream, times the streams we allow.
 *
 * Abuse: nghttp2 limits the resets that a peer sends, CONTINUATION frames,
 * SETTINGS entries and unread acknowledgements; we limit the resets that a
 * peer provokes us into sending, everything queued for one who does not read,
 * frames that move nothing (SETTINGS, PING, WINDOW_UPDATE, PRIORITY, unknown
 * ones, empty DATA) between those that do (a request, or bytes of DATA either
 * way), and heads that grow by decompression.
 */

#include <nghttp2/nghttp2.h>

#include "net/http_int.h"

#define H2_CONN_WINDOW 4194304 /* in flight; nothing is held for it */
#define H2_STRIKES     200     /* provoked resets allowed in a row */
#define H2_STRIKE_MS   30      /* one is forgiven in this time */
#define H2_QUEUE_MAX   4096    /* frames waiting for a peer who reads none */
#define H2_CHATTER_MAX 10000   /* frames that move nothing, in a row, */
#define H2_USELESS_MAX 1048576 /* or so many bytes, of frames unknown here, */
#define H2_CHATTER_MS  10000   /* within this time */
#define H2_BOMB	       8       /* times a head's limit ends the connection */

struct h2 {
	nghttp2_session *session;
	unsigned strikes;
	uint64_t strike_ms; /* when the count was last lowered */
	unsigned chatter;   /* frames since the last that did something */
	size_t useless;	    /* bytes since then */
	uint64_t chatter_ms;
	size_t head_bytes, head_fields; /* of the head being received */
	bool settings_seen;
	bool goaway; /* sent or on its way */
};

static inline struct h2 *h2_of(const struct http_conn *c)
{
	return (struct h2 *)c->state_of_proto;
}

/* Set the callbacks about received and sent frames. */
void h2_set_callbacks(nghttp2_session_callbacks *cbs);
/* End the connection for cause, with a GOAWAY. */
void h2_abuse(struct http_conn *c, const char *why);
void h2_submit_reset(struct http_stream *s, uint32_t code);
