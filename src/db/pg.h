/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PostgreSQL for programs with a loop: a pool of connections, a bounded queue
 * in front of them, one statement at a time on each.
 *
 * A whole transaction is one statement (usually one SQL function), so a
 * connection is never held across a round trip to anybody else and no query
 * waits behind an open transaction of this process. Statements are prepared on
 * each connection when it first meets them. Parameters and results are text.
 *
 * A statement is sent at most once. If its connection breaks, or its deadline
 * passes while it runs, the caller is told ERR_UNAVAILABLE or ERR_TIMEOUT and
 * must find out by reading whether it took effect; it is never repeated here.
 * A connection whose statement is overdue is closed, and the server is set to
 * notice that within a second (client_connection_check_interval) and to cancel.
 *
 * Nothing blocks, except that libpq resolves a host *name* in the connection
 * string itself: use a socket directory or hostaddr=.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

#define PG_STMTS_MAX  256u
#define PG_PARAMS_MAX 32u

/* A statement: define it static, once; pass it by address. */
struct pg_stmt {
	const char *name; /* in errors and logs */
	const char *sql;
	unsigned n_params;
	unsigned id; /* private: 0 until first used */
};

struct pg_pool_conf {	       /* 0 = the default in brackets */
	const char *conninfo;  /* libpq's keyword/value form or URI */
	const char *program;   /* application_name */
	unsigned conns;	       /* [16] opened as needed, then kept */
	unsigned queue;	       /* [1024] waiting statements */
	unsigned statement_ms; /* [60000] the server's own limit */
	unsigned retry_min_ms; /* [100] back-off of a failed connect */
	unsigned retry_max_ms; /* [5000] */
};

struct pg_pool;
struct pg_result;

/* Connects in the background. The configuration is copied. */
struct pg_pool *pg_pool_new(struct loop *l, const struct pg_pool_conf *conf);
/* Every waiting or running query's done is called with ERR_UNAVAILABLE. */
struct pg_pool *pg_pool_free(struct pg_pool *p);

/*
 * res is never NULL and valid during the call; it has rows only if e == NULL.
 * Called exactly once, from the loop (or from pg_pool_free), never from within
 * pg_query(). May call pg_query() again, not pg_pool_free().
 */
typedef void pg_done(void *arg, const struct pg_result *res,
		     const struct err *e);

/* Queue a statement. params has st->n_params entries, NULL for SQL NULL; they
 * are copied. 0, or -ENOBUFS (ERR_EXHAUSTED) if the queue is full: then done is
 * not called. */
int pg_query(struct pg_pool *p, struct pg_stmt *st, const char *const *params,
	     uint64_t timeout_ms, pg_done *done, void *arg, struct err *e);

struct pg_stats {
	unsigned open, busy, waiting;
	uint64_t done, failed, lost, timeouts, connects;
	char last_error[ERR_MSG_MAX]; /* of connecting; "" after success */
};
void pg_pool_stats(const struct pg_pool *p, struct pg_stats *ret);

/* ---- results ---- */

int pg_rows(const struct pg_result *r);
/* Borrowed; NULL for SQL NULL. row and col must exist (CHECKed). */
const char *pg_text(const struct pg_result *r, int row, int col);
bool pg_bool(const struct pg_result *r, int row, int col); /* NULL = false */
/* missing: for SQL NULL and for what is not a whole number. */
int64_t pg_int(const struct pg_result *r, int row, int col, int64_t missing);
/* Five characters, or "" if the server did not answer with an error. */
const char *pg_sqlstate(const struct pg_result *r);

/* What kind of failure an SQLSTATE is. Class CA is ours (sql/). */
enum err_kind pg_kind_of(const char *sqlstate);
