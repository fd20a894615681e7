/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a request to a WebSocket. */

#include "api/req.h"
#include "net/ws.h"

/* Does the request ask for a WebSocket, properly? false: answered, 426 with
 * Upgrade if it does not ask for one at all or for another version. */
bool upgrade_check(struct req *r);
/* The request is answered 101 and r->stream is NULL from here on; the caller
 * holds a reference. subprotocol is chosen if the client offers it. */
struct ws *upgrade_open(struct req *r, const char *subprotocol, size_t max,
			const struct ws_handler *h, void *owner);
