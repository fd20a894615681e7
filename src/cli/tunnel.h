/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One TCP connection to a guest's port, carried by one WebSocket: bytes from a
 * descriptor go there, bytes from there go to a descriptor, half-closes
 * included (an empty message). Never blocks; holds at most some 300 KiB.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "cli/client.h"

struct tunnel;

/* in and out are taken over, and must differ (dup a socket). on_over once: f or
 * e NULL as in cli/line.h, both NULL after a proper end; opened tells whether
 * the port was ever reached. The tunnel is freed when it returns. */
struct tunnel *
tunnel_new_take(struct loop *l, const struct context *ctx, const char *sandbox,
		uint16_t port, int in, int out,
		void (*on_over)(void *arg, struct tunnel *t, bool opened,
				const struct fault *f, const struct err *e),
		void *arg);
/* Cuts; on_over is not called. NULL is fine; returns NULL. */
struct tunnel *tunnel_free(struct tunnel *t);
