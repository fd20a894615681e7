/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a request to the part that serves it (doc/guest-protocol.md). */

#include "guestd/guestd.h"
#include "net/http.h"

/* http_conn_ops.on_request; the connection's owner is a struct port whose owner
 * is the guestd. */
void service_request(struct http_conn *c, struct http_stream *s);
