/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * POST /v1/tunnel?port=: bytes between a stream and a TCP port of the guest's
 * loopback, both ways, each with its own end. A side that does not take its
 * bytes stops the other from giving more; one piece is held per direction.
 * Loopback alone: the tunnel is no way around the sandbox's rules for egress.
 * On the loop: connecting to loopback touches no file and never blocks.
 */

#include "guestd/guestd.h"

#define TUNNELS_MAX 128

struct http_stream;

void tunnel_request(struct guestd *g, struct http_stream *s);
