/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Preview traffic: a request to PORT-ID.anything on the data listener goes, as
 * HTTP/1.1, to that port of that sandbox's loopback, and the answer back as it
 * comes: bodies of any length both ways, server-sent events, WebSocket.
 *
 * Who may is the port's access: `public` everybody, `token` whoever shows the
 * port's token (Caisson-Port-Token, or Authorization: Bearer), and always a key
 * of the project or a scoped token with "ports" (Authorization: Bearer or
 * X-API-Key, or subprotocol bearer.TOKEN). Nothing is taken from a query or a
 * cookie, so a page that leads a browser here brings no rights along, and no
 * page of a sandbox can use another's. Host and Origin are the guest's affair
 * for that reason.
 */

#include "api/req.h"

/* Does this Host name a port of a sandbox? Then the request is answered here.
 */
bool preview_takes(struct req *r);
