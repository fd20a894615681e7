/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/controller.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "controller/chores.h"
#include "controller/decide.h"
#include "controller/hooks.h"

#define CONNS	    8u
#define QUERY_MS    10000u
#define LEASE_S	    "15"
#define CLAIM_MAX   "16"
#define EXPIRE_MAX  "64"
#define RENEW_MS    4000u
#define LOST_MS	    10000u
#define GRACE_S	    "600" /* beyond a node's lease, before it counts as lost */
#define GC_MS	    60000u
#define GC_BUSY_MS  500u
#define GC_MAX	    "500"
#define GC_MAX_ROWS 500

static struct pg_stmt claim_stmt = {
	.name = "operation_claim",
	.sql = "SELECT * FROM caisson.operation_claim($1, $2, $3)",
	.n_params = 3,
};
static struct pg_stmt expire_stmt = {
	.name = "sandbox_expire",
	.sql = "SELECT caisson.sandbox_expire($1)",
	.n_params = 1,
};
static struct pg_stmt renew_stmt = {
	.name = "operations_renew",
	.sql = "SELECT caisson.operations_renew($1, $2)",
	.n_params = 2,
};
static struct pg_stmt lost_stmt = {
	.name = "sandbox_lost",
	.sql = "SELECT caisson.sandbox_lost($1, 64)",
	.n_params = 1,
};
static struct pg_stmt gc_stmt = {
	.name = "gc",
	.sql = "SELECT caisson.gc($1)",
	.n_params = 1,
};

static void on_sweep(struct loop_timer *t);
static void on_renew(struct loop_timer *t);
static void on_lost(struct loop_timer *t);
static void on_gc(struct loop_timer *t);

static void sweep_again(struct controller *c)
{
	c->sweeping = false;
	loop_timer_set(c->loop, &c->sweep, decide_sweep_ms(c->found, c->active),
		       on_sweep);
}

static void on_claimed(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	struct controller *c = arg;

	if (e) {
		log_warn("claim", "why=%s", e->msg);
	} else {
		if (!c->ready) {
			c->ready = true;
			if (c->on_ready)
				c->on_ready(c);
		}
		c->found += pg_rows(res);
		work_claimed(c, res);
	}
	sweep_again(c);
}

static void on_expired(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	struct controller *c = arg;
	const char *params[] = { c->owner, LEASE_S, CLAIM_MAX };
	struct err why = { 0 };

	if (!e) {
		c->found = pg_int(res, 0, 0, 0);
		if (c->found > 0)
			log_info("expired", "sandboxes=%" PRId64, c->found);
	}
	/* what expired is claimed at once */
	if (pg_query(c->pool, &claim_stmt, params, QUERY_MS, on_claimed, c,
		     &why) < 0)
		sweep_again(c);
}

static void on_sweep(struct loop_timer *t)
{
	struct controller *c = container_of(t, struct controller, sweep);
	const char *params[] = { EXPIRE_MAX };
	struct err e = { 0 };

	if (c->sweeping)
		return;
	c->sweeping = true;
	c->found = 0;
	if (pg_query(c->pool, &expire_stmt, params, QUERY_MS, on_expired, c,
		     &e) < 0)
		sweep_again(c);
}

static void on_renewed(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	(void)arg;
	(void)res;
	/* whoever claims them after us joins what we do: nothing is lost */
	if (e)
		log_warn("renew", "why=%s", e->msg);
}

static void on_renew(struct loop_timer *t)
{
	struct controller *c = container_of(t, struct controller, renew);
	const char *params[] = { c->owner, LEASE_S };

	if (c->active > 0)
		pg_query(c->pool, &renew_stmt, params, QUERY_MS, on_renewed, c,
			 NULL);
	loop_timer_set(c->loop, &c->renew, RENEW_MS, on_renew);
}

static void on_lost_done(void *arg, const struct pg_result *res,
			 const struct err *e)
{
	struct controller *c = arg;
	int64_t n = e ? 0 : pg_int(res, 0, 0, 0);

	if (n > 0)
		log_warn("lost", "sandboxes=%" PRId64, n);
	loop_timer_set(c->loop, &c->lost, LOST_MS, on_lost);
}

static void on_lost(struct loop_timer *t)
{
	struct controller *c = container_of(t, struct controller, lost);
	const char *params[] = { GRACE_S };

	if (pg_query(c->pool, &lost_stmt, params, QUERY_MS, on_lost_done, c,
		     NULL) < 0)
		loop_timer_set(c->loop, t, LOST_MS, on_lost);
}

static void on_gc_done(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	struct controller *c = arg;
	int64_t n = e ? 0 : pg_int(res, 0, 0, 0);

	if (n > 0)
		log_info("gc", "rows=%" PRId64, n);
	loop_timer_set(c->loop, &c->gc, n >= GC_MAX_ROWS ? GC_BUSY_MS : GC_MS,
		       on_gc);
}

static void on_gc(struct loop_timer *t)
{
	struct controller *c = container_of(t, struct controller, gc);
	const char *params[] = { GC_MAX };

	if (pg_query(c->pool, &gc_stmt, params, QUERY_MS, on_gc_done, c, NULL) <
	    0)
		loop_timer_set(c->loop, t, GC_MS, on_gc);
}

int controller_start(struct controller *c, struct loop *l,
		     const struct controller_conf *conf,
		     void (*on_ready)(struct controller *), struct err *e)
{
	const struct pg_pool_conf pool = { .conninfo = conf->db,
					   .program = "caisson-controller",
					   .conns = CONNS };
	char id[21];
	owned_str rpc = xasprintf("%s/sandboxd.sock", conf->run);

	*c = (struct controller){ .conf = *conf,
				  .loop = l,
				  .on_ready = on_ready };
	list_init(&c->nodes);
	random_id(id, 20);
	snprintf(c->owner, sizeof(c->owner), "ctl_%s", id);
	c->pool = pg_pool_new(l, &pool);
	if (!c->pool)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "--db: no connection string");
	node_get(c, rpc, true);
	c->hooks = hooks_new(c, conf->webhook_allow, conf->n_webhook_allow);
	c->chores = chores_new(c);
	loop_timer_set(l, &c->sweep, 0, on_sweep);
	loop_timer_set(l, &c->renew, RENEW_MS, on_renew);
	loop_timer_set(l, &c->lost, LOST_MS, on_lost);
	loop_timer_set(l, &c->gc, GC_BUSY_MS, on_gc);
	return 0;
}

void controller_stop(struct controller *c)
{
	/* calls and queries in hand are answered now; what their callbacks
	 * begin anew meets the flag, or is a timer that goes below */
	c->stopping = true;
	hooks_stop(c->hooks);
	chores_stop(c->chores);
	nodes_cut(c);
	c->pool = pg_pool_free(c->pool);
	c->hooks = hooks_free(c->hooks);
	c->chores = chores_free(c->chores);
	nodes_free(c);
	loop_timer_del(&c->sweep);
	loop_timer_del(&c->renew);
	loop_timer_del(&c->lost);
	loop_timer_del(&c->gc);
}
