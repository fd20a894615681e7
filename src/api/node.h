/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The nodes, as this process sees them, and calls to them (doc/node-rpc.md).
 *
 * Once a second the list is read from the database and each node is asked for
 * its counters over one kept HTTP/2 connection; a create is placed by those.
 * They may be a second old: the node has the last word.
 */

#include <stdbool.h>
#include <stdint.h>

#include "api/fault.h"
#include "base/err.h"
#include "base/loop.h"

#define NODE_NAME_MAX 64u
#define NODE_FRESH_MS 5000u /* counters older than this place nothing */

struct api;
struct node;
struct nodes;

struct nodes *nodes_new(struct api *a);
struct nodes *nodes_free(struct nodes *n);
/* Read the list and the counters again, now. */
void nodes_refresh(struct nodes *n);

struct node *node_get(struct nodes *n, const char *name); /* NULL: unknown */
const char *node_name(const struct node *n);
const char *node_incarnation(const struct node *n); /* "" if not known yet */
const char *node_data_path(const struct node *n);

/* The best node for a new sandbox: up, answering, of that isolation if one is
 * demanded (NULL: any), most free slots. NULL with *f: isolation_unavailable,
 * capacity or node_unavailable. */
struct node *node_pick(struct nodes *n, const char *isolation,
		       int64_t memory_mib, struct fault *f);
/* A sandbox came or went by our hand; until the next counters. */
void node_count(struct node *n, int sandboxes);

/* What whoami tells: {"engines":[…],"weakest":"software"} of what answers. */
char *nodes_engines(struct nodes *n);

/*
 * One call. done is called exactly once, from the loop, also when the node is
 * freed. status 0: no answer, e says why, and *sent whether the node may have
 * seen the request. body is valid during the call. A refused incarnation is
 * noticed here: the counters are read again.
 */
typedef void node_done(void *arg, int status, const char *body, size_t n,
		       const struct err *e, bool sent);
void node_call(struct node *n, const char *method, const char *path,
	       const char *body, uint64_t timeout_ms, const char *traceparent,
	       node_done *done, void *arg);
