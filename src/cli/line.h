/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A WebSocket to the data listener of a context: wire + HTTP/1.1 + ws as one
 * thing with one end. What is not opened within LINE_OPEN_MS has failed.
 */

#include "base/err.h"
#include "base/loop.h"
#include "cli/client.h"
#include "net/ws.h"

#define LINE_OPEN_MS 15000u

struct line_ops {
	void (*on_open)(void *arg);
	void (*on_message)(void *arg, bool is_text, const uint8_t *p, size_t n);
	void (*on_writable)(void *arg);
	/* Once and last. f: the server refused. Else e: no connection, or it
	 * was lost or closed. May free the line. */
	void (*on_end)(void *arg, const struct fault *f, const struct err *e);
};

struct line;

/* path with query. token NULL = the context's key. subprotocol may be NULL.
 * max: bytes of a message from the server. */
struct line *line_open(struct loop *l, const struct context *ctx,
		       const char *path, const char *token,
		       const char *subprotocol, size_t max,
		       const struct line_ops *ops, void *arg);
/* No callback any more. NULL is fine; returns NULL. */
struct line *line_free(struct line *n);
/* These do nothing on a NULL line, or before it is open. send: false = no room
 * now, on_writable follows. */
bool line_send(struct line *n, const void *p, size_t size);
void line_hold(struct line *n, bool hold);
/* A proper end; on_end follows. */
void line_close(struct line *n);
