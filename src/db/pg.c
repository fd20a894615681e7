/* SPDX-License-Identifier: Apache-2.0 */
#include "db/pg.h"

#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "db/pg-int.h"

static unsigned n_stmts; /* ids given out in this process */

static unsigned or_default(unsigned v, unsigned d)
{
	return v ? v : d;
}

/* ---- handing out ---- */

static struct pg_conn *conn_in_state(struct pg_pool *p, enum pg_conn_state s)
{
	for (unsigned i = 0; i < p->n_conns; i++) {
		struct pg_conn *c = &p->conns[i];

		/* a connection in back-off is not up for another try */
		if (c->state == s && (s != PG_DOWN || !c->timer.loop))
			return c;
	}
	return NULL;
}

static unsigned conns_coming(const struct pg_pool *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n_conns; i++)
		if (p->conns[i].state == PG_CONNECT ||
		    p->conns[i].state == PG_SETUP)
			n++;
	return n;
}

static void on_kick(struct loop_defer *d)
{
	struct pg_pool *p = container_of(d, struct pg_pool, kick);
	struct pg_conn *c;

	while (!list_empty(&p->queue) && (c = conn_in_state(p, PG_IDLE))) {
		struct pg_request *q =
		    list_entry(list_first(&p->queue), struct pg_request, link);

		list_del(&q->link);
		p->n_queue--;
		pg_conn_run(c, q);
	}
	for (unsigned n = conns_coming(p); n < p->n_queue; n++) {
		c = conn_in_state(p, PG_DOWN);
		if (!c)
			break;
		pg_conn_open(c);
	}
}

void pg_pool_kick(struct pg_pool *p)
{
	if (!p->dying)
		loop_defer_add(p->loop, &p->kick, on_kick);
}

/* ---- requests ---- */

void pg_request_finish(struct pg_request *q, PGresult *res, const struct err *e)
{
	struct pg_result r = { .res = res };
	const char *state;

	if (q->conn)
		q->conn->req = NULL;
	else {
		list_del(&q->link);
		q->pool->n_queue--;
	}
	loop_timer_del(&q->deadline);
	state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	if (state && strlen(state) == 5)
		memcpy(r.sqlstate, state, 6);
	q->pool->stats.done++;
	if (e)
		q->pool->stats.failed++;
	q->done(q->arg, &r, e);
	PQclear(res);
	free(q);
}

static void on_deadline(struct loop_timer *t)
{
	struct pg_request *q = container_of(t, struct pg_request, deadline);
	struct err e = { 0 };

	q->pool->stats.timeouts++;
	if (!q->conn) {
		err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
			"%s: no database connection became free in time%s%s",
			q->stmt->name, *q->pool->stats.last_error ? ": " : "",
			q->pool->stats.last_error);
		pg_request_finish(q, NULL, &e);
		return;
	}
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"%s: the database did not answer in time", q->stmt->name);
	pg_conn_break(q->conn, &e);
}

static struct pg_request *request_new(struct pg_stmt *st,
				      const char *const *params)
{
	size_t n = 0;
	struct pg_request *q;
	char *to;

	for (unsigned i = 0; i < st->n_params; i++)
		n += params[i] ? strlen(params[i]) + 1 : 0;
	q = xcalloc(1, sizeof(*q) + n);
	to = q->text;
	for (unsigned i = 0; i < st->n_params; i++) {
		if (!params[i])
			continue;
		n = strlen(params[i]) + 1;
		q->params[i] = memcpy(to, params[i], n);
		to += n;
	}
	q->stmt = st;
	return q;
}

int pg_query(struct pg_pool *p, struct pg_stmt *st, const char *const *params,
	     uint64_t timeout_ms, pg_done *done, void *arg, struct err *e)
{
	struct pg_request *q;

	CHECK(st->n_params <= PG_PARAMS_MAX);
	if (!st->id) {
		CHECK(n_stmts < PG_STMTS_MAX);
		st->id = ++n_stmts;
	}
	if (p->n_queue >= p->queue_max)
		return err_set(
		    e, -ENOBUFS, ERR_EXHAUSTED,
		    "%s: %u statements wait for the database already", st->name,
		    p->n_queue);
	q = request_new(st, params);
	q->pool = p;
	q->done = done;
	q->arg = arg;
	loop_timer_set(p->loop, &q->deadline, timeout_ms, on_deadline);
	list_add_tail(&p->queue, &q->link);
	p->n_queue++;
	pg_pool_kick(p);
	return 0;
}

/* ---- the pool ---- */

struct pg_pool *pg_pool_new(struct loop *l, const struct pg_pool_conf *conf)
{
	struct pg_pool *p = xnew(struct pg_pool);

	p->loop = l;
	p->conninfo = xstrdup(conf->conninfo);
	p->program = xstrdup(conf->program ? conf->program : "caisson");
	p->n_conns = or_default(conf->conns, 16);
	p->queue_max = or_default(conf->queue, 1024);
	p->statement_ms = or_default(conf->statement_ms, 60000);
	p->retry_min_ms = or_default(conf->retry_min_ms, 100);
	p->retry_max_ms = or_default(conf->retry_max_ms, 5000);
	p->conns = xnew_n(struct pg_conn, p->n_conns);
	list_init(&p->queue);
	for (unsigned i = 0; i < p->n_conns; i++)
		pg_conn_init(&p->conns[i], p);
	/* the first client should not pay for the handshake */
	pg_conn_open(&p->conns[0]);
	return p;
}

struct pg_pool *pg_pool_free(struct pg_pool *p)
{
	struct err e = { 0 };

	if (!p)
		return NULL;
	p->dying = true;
	err_set(&e, -ECANCELED, ERR_UNAVAILABLE, "the database pool closes");
	for (unsigned i = 0; i < p->n_conns; i++)
		if (p->conns[i].req)
			pg_conn_break(&p->conns[i], &e);
	while (!list_empty(&p->queue))
		pg_request_finish(
		    list_entry(list_first(&p->queue), struct pg_request, link),
		    NULL, &e);
	for (unsigned i = 0; i < p->n_conns; i++)
		pg_conn_fini(&p->conns[i]);
	loop_defer_del(&p->kick);
	free(p->conns);
	free(p->conninfo);
	free(p->program);
	free(p);
	return NULL;
}

void pg_pool_stats(const struct pg_pool *p, struct pg_stats *ret)
{
	*ret = p->stats;
	ret->waiting = p->n_queue;
	for (unsigned i = 0; i < p->n_conns; i++) {
		ret->open += p->conns[i].state >= PG_IDLE;
		ret->busy += p->conns[i].state > PG_IDLE;
	}
}
