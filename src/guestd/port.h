/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The channel: a descriptor (virtio-serial port, or a socket in tests), the
 * record layer on it, and one HTTP/2 connection per session of the host.
 *
 * A new session ends the old connection; what runs in the guest lives on. While
 * no host is connected the port reports a hang-up for ever, so it is watched
 * edge-triggered. Input is read only as fast as HTTP takes it.
 */

#include "base/loop.h"
#include "net/http.h"

struct port;

/* Takes fd over (non-blocking). Each session's connection is served with
 * ops; its owner is the port, whose owner is owner. is_socket: end of file
 * means that the host is gone for good, then on_gone(owner) is called. */
struct port *port_new_take(struct loop *l, int fd, bool is_socket,
			   const struct http_conn_ops *ops, void *owner,
			   void (*on_gone)(void *owner));
void *port_owner(const struct port *p);
struct port *port_free(struct port *p);
