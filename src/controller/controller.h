/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * caisson-controller: makes what is agree with what is wished, whoever died in
 * between. Everything it needs is in PostgreSQL and on the nodes; it keeps
 * nothing, so it may be killed at any time and run in any number of copies
 * (operations are claimed by SKIP LOCKED with a lease, a node is followed by
 * one owner at a time).
 *
 * - nodes: registration, lease, heartbeat; events and lists (node.c)
 * - operations whose API process died (work.c)
 * - time to live, lost nodes, garbage (controller.c)
 * - webhooks (hooks.c), samples of nodes (samples.c), what else returns
 *   (chores.c)
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "db/pg.h"
#include "net/http.h"

struct controller_conf {
	const char *run; /* RUN/sandboxd.sock is this machine's node */
	const char *db;	 /* libpq connection string, role caisson_controller */
	/* where webhooks may go beside public addresses; borrowed */
	const struct addr_net *webhook_allow;
	size_t n_webhook_allow;
};

#define OWNER_MAX 32

struct addr_net;
struct chores;
struct hooks;

struct controller {
	struct controller_conf conf;
	struct loop *loop;
	struct pg_pool *pool;
	char owner[OWNER_MAX]; /* "ctl_" + 20: this life's name */
	struct list nodes;
	struct loop_timer sweep, lost, gc, renew;
	struct hooks *hooks;   /* webhooks */
	struct chores *chores; /* events, audit, usage */
	unsigned active;       /* operations in hand */
	bool sweeping, ready, stopping;
	int64_t found; /* rows that the sweep under way has moved */
	void (*on_ready)(struct controller *c); /* once; may be NULL */
};

int controller_start(struct controller *c, struct loop *l,
		     const struct controller_conf *conf,
		     void (*on_ready)(struct controller *), struct err *e);
void controller_stop(struct controller *c);

/* ---- node.c ---- */

struct node;
/* The node behind a socket; made on first use, never freed before the end.
 * watched: register it, hold its lease, follow its events. */
struct node *node_get(struct controller *c, const char *rpc, bool watched);
void nodes_cut(struct controller *c); /* connections only */
void nodes_free(struct controller *c);
/* As http_call() on its connection (opened as needed). done is called once,
 * from the loop, unless a negative errno is returned. */
int node_call(struct node *n, const char *method, const char *path,
	      const char *body, uint64_t timeout_ms,
	      void (*done)(void *arg, int status, const char *body, size_t n,
			   const struct err *e),
	      void *arg, struct err *e);
/* Its incarnation as last seen, "" while unknown. */
const char *node_incarnation(const struct node *n);
const char *node_name(const struct node *n);
bool node_is_ours(const struct node *n); /* we follow it */

/* ---- compare.c ---- */

/* Compare rows and list of a node, and act; done(arg, ok) once. */
void compare_start(struct controller *c, struct node *n, const char *name,
		   void (*done)(void *arg, bool ok), void *arg);

/* ---- work.c ---- */

/* Work on what operation_claim() returned. */
void work_claimed(struct controller *c, const struct pg_result *res);
