/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the two files behind net/ws.h share: ws.c is an open WebSocket,
 * ws_open.c how one comes about. Frames are ws_frame.c's.
 *
 * A WebSocket is the handler of its stream and lives until that stream's
 * on_close, so everything that it queued goes out and both half-closes are
 * seen. Users' callbacks run from the stream's callbacks or from a defer, never
 * within a call of theirs.
 */

#include "base/check.h"
#include "net/http_int.h"
#include "net/ws.h"
#include "net/ws_frame.h"

/* Times in milliseconds; variables for tests. */
extern uint64_t ws_ping_ms;  /* between our pings */
extern uint64_t ws_idle_ms;  /* a peer that sends nothing is cut */
extern uint64_t ws_close_ms; /* from our close frame to the end */
extern uint64_t ws_open_ms;  /* a client's opening */

#define WS_KEY_LEN    24u /* base64 of 16 bytes */
#define WS_ACCEPT_LEN 28u /* base64 of 20 bytes */

/* The answer to a key (RFC 6455 §4.2.2), and a NUL. */
void ws_accept_key(const char *key, char ret[WS_ACCEPT_LEN + 1]);

/* Take over the handler of a stream that switched. */
struct ws *ws_new(struct loop *l, struct http_stream *s, bool is_server,
		  size_t max, const struct ws_handler *h, void *owner);
