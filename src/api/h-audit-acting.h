/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who acts, told to the database in the same statement as the act, so that what
 * triggers write about it (events, audit) names the key, the request and the
 * trace. A statement of the form SELECT … FROM caisson.f($1, …), whose first
 * parameter is the tenant, becomes one that first sets the actor and hands the
 * tenant on from there; any other statement stays as it is.
 */

#include "api/req.h"

#define ACTING_PARAMS 4u

/* NULL: not of that form, or too many parameters. The result lives as long as
 * the process and is the same for the same st. */
struct pg_stmt *acting_stmt(struct pg_stmt *st);
/* The SQL of it, or NULL; new. Pure. */
char *acting_sql(const char *sql, unsigned n_params);
/* As pg_query(), with r as the actor if st has such a form. */
int acting_query(struct req *r, struct pg_stmt *st, const char *const *params,
		 uint64_t timeout_ms, pg_done *done, void *arg, struct err *e);
