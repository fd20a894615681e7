/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node RPC (doc/node-rpc.md) over HTTP/2 and JSON. Parses what the control
 * plane sends and nothing else. Each request is one object that lives until its
 * stream is closed, whoever it waits for.
 */

#include "base/err.h"
#include "base/loop.h"

struct node;
struct rpc;

/* Serves on listen_fd, which is taken over. */
struct rpc *rpc_new_take(struct node *n, int listen_fd);
struct rpc *rpc_free(struct rpc *r);
