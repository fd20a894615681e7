/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A byte stream to a server, opened by libcurl and used in a loop: names,
 * addresses, proxies and TLS are curl's, the bytes are ours. For http: the
 * descriptor is the connection itself. For https: it is one end of a socket
 * pair and a pump carries bytes between its other end and TLS; the pump lives
 * as long as the wire. HTTP/1.1 is agreed on (ALPN).
 */

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct wire;

/* on_open once: fd is the caller's, -1 with *e if it failed. It may free the
 * wire. url: http:// or https://. */
struct wire *wire_open(struct loop *l, const char *url, uint64_t timeout_ms,
		       void (*on_open)(void *arg, int fd, const struct err *e),
		       void *arg);
/* Ends the pump, or the attempt. NULL is fine; returns NULL. */
struct wire *wire_free(struct wire *w);
