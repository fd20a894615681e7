/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Connections of noded: caisson-node's one, and at most a few of root's. */

#include "base/channel.h"
#include "base/list.h"
#include "proto/noded.h"

struct noded;
struct client;

void clients_accept(struct loop_io *io, unsigned events);
void clients_free(struct noded *n);
/* e == NULL: success. rep holds the answer's other fields or is NULL; fd is
 * borrowed, -1 = none. */
void client_reply(struct client *c, uint32_t op, uint32_t seq, uint32_t slot,
		  const struct err *e, const struct noded_rep *rep, int fd);
void client_send(struct client *c, const void *msg, size_t n, int fd);

/* In noded.c: act on a request that was found well-formed. */
void noded_handle(struct noded *n, struct client *c, const struct noded_req *q,
		  const int *fds, size_t n_fds);
