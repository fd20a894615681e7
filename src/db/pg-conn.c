/* SPDX-License-Identifier: Apache-2.0 */
#include "db/pg-int.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"

#define HANDSHAKE_MS 10000u

static void on_io(struct loop_io *io, unsigned events);

/* libpq's message is several lines; ours is one. */
static void message(char *ret, size_t max, const char *m)
{
	size_t n = 0;

	for (; *m && n + 1 < max; m++)
		ret[n++] = (char)((unsigned char)*m < 0x20 ? ' ' : *m);
	while (n && ret[n - 1] == ' ')
		n--;
	ret[n] = '\0';
}

static void ignore_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

/* ---- going down ---- */

static void unwatch(struct pg_conn *c)
{
	loop_io_del(&c->io);
	c->fd = fd_close(c->fd);
}

static void close_pg(struct pg_conn *c)
{
	unwatch(c);
	loop_timer_del(&c->timer);
	PQclear(c->result);
	c->result = NULL;
	PQfinish(c->pg);
	c->pg = NULL;
	memset(c->prepared, 0, sizeof(c->prepared));
	c->state = PG_DOWN;
}

static void on_retry(struct loop_timer *t)
{
	struct pg_conn *c = container_of(t, struct pg_conn, timer);

	pg_pool_kick(c->pool); /* opens this one if anybody waits */
}

static void connect_failed(struct pg_conn *c, const char *why)
{
	struct pg_pool *p = c->pool;
	char msg[ERR_MSG_MAX];

	message(msg, sizeof(msg), why); /* it may lie in c->pg */
	memcpy(p->stats.last_error, msg, sizeof(msg));
	close_pg(c);
	c->retry_ms = c->retry_ms ? c->retry_ms * 2 : p->retry_min_ms;
	if (c->retry_ms > p->retry_max_ms)
		c->retry_ms = p->retry_max_ms;
	log_debug("db_connect_failed", "retry_ms=%u error=%s", c->retry_ms,
		  msg);
	loop_timer_set(p->loop, &c->timer, c->retry_ms, on_retry);
}

static void on_handshake_late(struct loop_timer *t)
{
	struct pg_conn *c = container_of(t, struct pg_conn, timer);

	connect_failed(c, "the database does not complete the handshake");
}

void pg_conn_break(struct pg_conn *c, const struct err *e)
{
	struct pg_request *q = c->req;

	close_pg(c);
	if (q)
		pg_request_finish(q, NULL, e);
	pg_pool_kick(c->pool);
}

static void conn_lost(struct pg_conn *c)
{
	struct err e = { 0 };
	char why[200];

	if (c->state < PG_IDLE) {
		connect_failed(c, PQerrorMessage(c->pg));
		return;
	}
	message(why, sizeof(why), PQerrorMessage(c->pg));
	if (c->req) {
		c->pool->stats.lost++;
		err_set(&e, -ECONNRESET, ERR_UNAVAILABLE,
			"%s: the database connection broke, so whether it took "
			"effect is not known: %s",
			c->req->stmt->name, why);
	}
	pg_conn_break(c, &e);
}

/* ---- sending ---- */

/* false: out of descriptors. */
static bool want(struct pg_conn *c, unsigned events)
{
	if (c->io.loop) {
		return loop_io_set(&c->io, events) == 0;
	}
	/* libpq closes its socket by itself when the connection breaks, and a
	 * source must leave the loop before its descriptor is closed: so the
	 * loop watches a duplicate */
	c->fd = fcntl(PQsocket(c->pg), F_DUPFD_CLOEXEC, 0);
	return c->fd >= 0 &&
	       loop_io_add(c->pool->loop, &c->io, c->fd, events, on_io) == 0;
}

static bool flush(struct pg_conn *c)
{
	int r = PQflush(c->pg);

	if (r < 0)
		return false;
	return want(c, r ? LOOP_IN | LOOP_OUT : LOOP_IN);
}

static void stmt_name(const struct pg_stmt *st, char ret[16])
{
	snprintf(ret, 16, "s%u", st->id);
}

static int send_next(struct pg_conn *c)
{
	struct pg_request *q = c->req;
	char name[16];

	stmt_name(q->stmt, name);
	if (!c->prepared[q->stmt->id - 1]) {
		c->state = PG_PREPARE;
		return PQsendPrepare(c->pg, name, q->stmt->sql,
				     (int)q->stmt->n_params, NULL);
	}
	c->state = PG_EXEC;
	return PQsendQueryPrepared(c->pg, name, (int)q->stmt->n_params,
				   q->params, NULL, NULL, 0);
}

void pg_conn_run(struct pg_conn *c, struct pg_request *q)
{
	CHECK(c->state == PG_IDLE && !c->req);
	c->req = q;
	q->conn = c;
	if (!send_next(c) || !flush(c))
		conn_lost(c);
}

/* ---- receiving ---- */

static void finish_exec(struct pg_conn *c)
{
	struct pg_request *q = c->req;
	PGresult *res = TAKE(c->result);
	ExecStatusType st = PQresultStatus(res);
	struct err e = { 0 };
	char why[300];

	c->state = PG_IDLE;
	if (st == PGRES_TUPLES_OK || st == PGRES_COMMAND_OK) {
		pg_request_finish(q, res, NULL);
		return;
	}
	message(why, sizeof(why),
		PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)
		    ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)
		    : PQerrorMessage(c->pg));
	err_set(&e, -EREMOTEIO,
		pg_kind_of(PQresultErrorField(res, PG_DIAG_SQLSTATE)), "%s: %s",
		q->stmt->name, why);
	pg_request_finish(q, res, &e);
}

/* All results of what was sent are there. */
static void on_complete(struct pg_conn *c)
{
	bool ok = PQresultStatus(c->result) == PGRES_COMMAND_OK;

	switch (c->state) {
	case PG_SETUP:
		if (!ok) {
			connect_failed(c, PQerrorMessage(c->pg));
			return;
		}
		loop_timer_del(&c->timer);
		c->retry_ms = 0;
		c->pool->stats.connects++;
		c->pool->stats.last_error[0] = '\0';
		c->state = PG_IDLE;
		break;
	case PG_PREPARE:
		if (!ok) {
			finish_exec(c);
			break;
		}
		c->prepared[c->req->stmt->id - 1] = true;
		PQclear(TAKE(c->result));
		if (!send_next(c) || !flush(c))
			conn_lost(c);
		return;
	case PG_EXEC:
		finish_exec(c);
		break;
	case PG_DOWN:
	case PG_CONNECT:
	case PG_IDLE:
		break;
	}
	PQclear(TAKE(c->result));
	pg_pool_kick(c->pool);
}

static void on_readable(struct pg_conn *c)
{
	if (!PQconsumeInput(c->pg)) {
		conn_lost(c);
		return;
	}
	while (c->pg && !PQisBusy(c->pg)) {
		enum pg_conn_state before = c->state;
		PGresult *r = PQgetResult(c->pg);

		if (r) {
			/* the first says what happened; there is no second
			 * for a single statement */
			if (c->result)
				PQclear(r);
			else
				c->result = r;
			continue;
		}
		if (before == PG_IDLE) {
			if (PQstatus(c->pg) == CONNECTION_BAD)
				conn_lost(c);
			return;
		}
		/* "terminating connection" comes as a result, too */
		if (PQstatus(c->pg) == CONNECTION_BAD) {
			conn_lost(c);
			return;
		}
		on_complete(c);
		if (c->state == PG_IDLE || c->state == PG_DOWN)
			return;
	}
}

/* ---- connecting ---- */

static void start_setup(struct pg_conn *c)
{
	char sql[200];

	PQsetnonblocking(c->pg, 1);
	PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
	c->state = PG_SETUP;
	snprintf(sql, sizeof(sql),
		 "SET statement_timeout = %u; "
		 "SET client_connection_check_interval = 1000",
		 c->pool->statement_ms);
	if (!PQsendQuery(c->pg, sql) || !flush(c))
		conn_lost(c);
}

static void on_connect_io(struct pg_conn *c)
{
	PostgresPollingStatusType st = PQconnectPoll(c->pg);

	/* it may have closed its socket and opened another */
	unwatch(c);
	switch (st) {
	case PGRES_POLLING_READING:
		if (want(c, LOOP_IN))
			return;
		break;
	case PGRES_POLLING_WRITING:
		if (want(c, LOOP_OUT))
			return;
		break;
	case PGRES_POLLING_OK:
		start_setup(c);
		return;
	case PGRES_POLLING_FAILED:
	case PGRES_POLLING_ACTIVE:
		break;
	}
	connect_failed(c, *PQerrorMessage(c->pg) ? PQerrorMessage(c->pg)
						 : "out of descriptors");
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct pg_conn *c = container_of(io, struct pg_conn, io);

	if (c->state == PG_CONNECT) {
		on_connect_io(c);
		return;
	}
	if ((events & LOOP_OUT) && !flush(c)) {
		conn_lost(c);
		return;
	}
	if (events & (LOOP_IN | LOOP_HUP))
		on_readable(c);
}

void pg_conn_open(struct pg_conn *c)
{
	const char *keys[] = { "dbname", "fallback_application_name", NULL };
	const char *values[] = { c->pool->conninfo, c->pool->program, NULL };

	CHECK(c->state == PG_DOWN);
	c->pg = PQconnectStartParams(keys, values, 1);
	if (!c->pg || PQstatus(c->pg) == CONNECTION_BAD) {
		connect_failed(c,
			       c->pg ? PQerrorMessage(c->pg) : "out of memory");
		return;
	}
	c->state = PG_CONNECT;
	loop_timer_set(c->pool->loop, &c->timer, HANDSHAKE_MS,
		       on_handshake_late);
	if (!want(c, LOOP_OUT))
		connect_failed(c, "out of descriptors");
}

void pg_conn_init(struct pg_conn *c, struct pg_pool *p)
{
	c->pool = p;
	c->state = PG_DOWN;
	c->fd = -1;
}

void pg_conn_fini(struct pg_conn *c)
{
	close_pg(c);
}
