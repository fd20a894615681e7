/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of the pool: pg.c queues and hands out, pg-conn.c talks. */

#include <libpq-fe.h>

#include "base/list.h"
#include "db/pg.h"

enum pg_conn_state {
	PG_DOWN,    /* no connection; maybe a timer until the next attempt */
	PG_CONNECT, /* libpq's handshake */
	PG_SETUP,   /* session settings */
	PG_IDLE,
	PG_PREPARE, /* the request's statement, first use here */
	PG_EXEC,
};

struct pg_request {
	struct list link; /* in pool->queue while no connection has it */
	struct pg_pool *pool;
	struct pg_conn *conn;
	struct pg_stmt *stmt;
	struct loop_timer deadline;
	pg_done *done;
	void *arg;
	const char *params[PG_PARAMS_MAX];
	char text[]; /* the parameters' bytes */
};

struct pg_result {
	PGresult *res; /* NULL if there is none */
	char sqlstate[6];
};

struct pg_conn {
	struct pg_pool *pool;
	enum pg_conn_state state;
	PGconn *pg;
	struct loop_io io;
	int fd; /* a duplicate of libpq's, which the loop watches */
	struct loop_timer timer; /* back-off, or the handshake's limit */
	unsigned retry_ms;
	bool prepared[PG_STMTS_MAX]; /* by id - 1 */
	struct pg_request *req;
	PGresult *result; /* first one of the running statement */
};

struct pg_pool {
	struct loop *loop;
	char *conninfo, *program;
	unsigned n_conns, queue_max, statement_ms, retry_min_ms, retry_max_ms;
	struct pg_conn *conns;
	struct list queue;
	unsigned n_queue;
	struct loop_defer kick;
	struct pg_stats stats;
	bool dying;
};

/* pg-conn.c */
void pg_conn_init(struct pg_conn *c, struct pg_pool *p);
void pg_conn_fini(struct pg_conn *c);
void pg_conn_open(struct pg_conn *c); /* from PG_DOWN */
/* From PG_IDLE: takes the request over. */
void pg_conn_run(struct pg_conn *c, struct pg_request *q);
/* Drop the connection; its request, if any, is finished with e. */
void pg_conn_break(struct pg_conn *c, const struct err *e);

/* pg.c */
/* Call done and free; res may be NULL. */
void pg_request_finish(struct pg_request *q, PGresult *res,
		       const struct err *e);
void pg_pool_kick(struct pg_pool *p); /* hand out later in this round */
