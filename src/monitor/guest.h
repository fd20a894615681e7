/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The way to guestd: the channel's socket, the record layer over it, and an
 * HTTP/2 client over that. A session that breaks is begun anew by itself;
 * commands in the guest live on and are re-attached by offset. Only a guest
 * that stays silent for GUEST_LOST_MS is given up.
 *
 * Connect only after the VM runs: a connection made before reaches the guest
 * as the continuation of an older one. Between cork and the end nobody may
 * touch the channel: a stopped VMM goes on draining the guest's ring while the
 * host reads, and a checkpoint of that would not load.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "net/http.h"

#define GUEST_LOST_MS 60000u

struct guest;

struct guest_ops {
	/* A session is up (again): guest_conn() is there. */
	void (*on_up)(void *owner);
	/* Silent for too long, or never up; the object is dead. */
	void (*on_lost)(void *owner, const struct err *e);
};

struct guest *guest_new(struct loop *l, const struct guest_ops *ops,
			void *owner);
struct guest *guest_free(struct guest *g);

/* Start connecting to the socket at path. */
void guest_connect(struct guest *g, const char *path);
/* The VM is stopped, and runs again: no session in between. */
void guest_pause(struct guest *g);
void guest_resume(struct guest *g);
/* No byte in or out from now on; sessions are dropped. For good. */
void guest_cork(struct guest *g);
/* NULL while there is no session. */
struct http_conn *guest_conn(struct guest *g);
