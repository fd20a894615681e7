/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Build the network of a slot in a fresh namespace (see rules.h for what it is
 * and why). Blocking, and it moves the *calling process* into that namespace:
 * only for a worker process that ends afterwards, never for noded's loop.
 */

#include <stdint.h>

#include "base/err.h"

/*
 * Leave for a new network namespace, make tap0, addresses, routes and rules in
 * it. On success *ret_tap is the tap's descriptor and *ret_inode the
 * namespace's number. On failure the caller is in a namespace that is void and
 * dies with it.
 */
int slotnet_build(const char *nft, int *ret_tap, uint64_t *ret_inode,
		  struct err *e);

/* Feed rules (a constant) to `nft -f -` in the caller's namespace; what nft
 * complains of becomes the message. */
int slotnet_rules_load(const char *nft, const char *rules, struct err *e);
