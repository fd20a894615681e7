/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/chores.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/own.h"

#define QUERY_MS 30000u
#define BUSY_MS	 50u

struct kind {
	struct pg_stmt stmt; /* one row, one number: how many */
	uint64_t every_ms;
	int64_t full; /* as many as this: at once again; 0 = never */
	bool loud;
};

/* The figures are the retention that doc/ promises. */
static struct kind kinds[] = {
	{ { .name = "audit_chain", .sql = "SELECT caisson.audit_chain(500)" },
	  1000,
	  500,
	  false },
	{ { .name = "sandbox_expiring",
	    .sql = "SELECT caisson.sandbox_expiring(60, 64)" },
	  5000,
	  64,
	  false },
	{ { .name = "node_silent", .sql = "SELECT caisson.node_silent()" },
	  2000,
	  0,
	  true },
	{ { .name = "usage_bill", .sql = "SELECT caisson.usage_bill(30, 500)" },
	  10000,
	  500,
	  false },
	{ { .name = "audit_broken", .sql = "SELECT caisson.audit_check(1000)" },
	  30000,
	  0,
	  true },
	{ { .name = "events_gc", .sql = "SELECT caisson.events_gc(7, 5000)" },
	  60000,
	  5000,
	  false },
	{ { .name = "delivery_gc",
	    .sql = "SELECT caisson.delivery_gc(7, 5000)" },
	  60000,
	  5000,
	  false },
	{ { .name = "samples_gc", .sql = "SELECT caisson.samples_gc(5000)" },
	  60000,
	  5000,
	  false },
	{ { .name = "audit_gc", .sql = "SELECT caisson.audit_gc(400, 1000)" },
	  60000,
	  1000,
	  false },
};

struct chore {
	struct chores *all;
	struct kind *kind;
	struct loop_timer timer;
};

struct chores {
	struct controller *c;
	struct chore v[ARRAY_SIZE(kinds)];
};

static void on_due(struct loop_timer *t);

static void on_done(void *arg, const struct pg_result *res, const struct err *e)
{
	struct chore *x = arg;
	int64_t n = e ? 0 : pg_int(res, 0, 0, 0);

	if (x->all->c->stopping)
		return;
	if (e)
		log_warn("chore", "name=%s why=%s", x->kind->stmt.name, e->msg);
	else if (n > 0 && x->kind->loud)
		log_warn("chore", "name=%s n=%" PRId64, x->kind->stmt.name, n);
	loop_timer_set(x->all->c->loop, &x->timer,
		       x->kind->full && n >= x->kind->full ? BUSY_MS
							   : x->kind->every_ms,
		       on_due);
}

static void on_due(struct loop_timer *t)
{
	struct chore *x = container_of(t, struct chore, timer);

	if (pg_query(x->all->c->pool, &x->kind->stmt, NULL, QUERY_MS, on_done,
		     x, NULL) < 0)
		loop_timer_set(x->all->c->loop, t, x->kind->every_ms, on_due);
}

struct chores *chores_new(struct controller *c)
{
	struct chores *x = xnew(struct chores);

	x->c = c;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		x->v[i].all = x;
		x->v[i].kind = &kinds[i];
		/* not all at once */
		loop_timer_set(c->loop, &x->v[i].timer, 100 + 70 * i, on_due);
	}
	return x;
}

void chores_stop(struct chores *x)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		loop_timer_del(&x->v[i].timer);
}

struct chores *chores_free(struct chores *x)
{
	free(x);
	return NULL;
}
