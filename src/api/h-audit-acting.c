/* SPDX-License-Identifier: Apache-2.0 */
#include "api/h-audit-acting.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#define STMTS_MAX 128u

char *acting_sql(const char *sql, unsigned n)
{
	static const char call[] = " FROM caisson.";
	const char *from = strstr(sql, call), *tenant;

	if (!from || strstr(from + 1, call) || strncmp(sql, "SELECT ", 7) != 0)
		return NULL;
	tenant = strchr(from, '(');
	if (!tenant || strncmp(tenant, "($1", 3) != 0 ||
	    isdigit((unsigned char)tenant[3]) || strstr(tenant + 3, "$1,") ||
	    strstr(tenant + 3, "$1)") || strncmp(tenant + 3, "::", 2) == 0)
		return NULL;
	return xasprintf("%.*s FROM caisson.acting($1, $%u, $%u, $%u, $%u) "
			 "CROSS JOIN LATERAL %.*s(acting_tenant%s",
			 (int)(from - sql), sql, n + 1, n + 2, n + 3, n + 4,
			 (int)(tenant - from - 6), from + 6, tenant + 3);
}

struct pg_stmt *acting_stmt(struct pg_stmt *st)
{
	static struct {
		const struct pg_stmt *plain;
		struct pg_stmt acting;
	} known[STMTS_MAX];
	static size_t n;

	for (size_t i = 0; i < n; i++)
		if (known[i].plain == st)
			return known[i].acting.sql ? &known[i].acting : NULL;
	if (n == STMTS_MAX || st->n_params + ACTING_PARAMS > PG_PARAMS_MAX)
		return NULL;
	known[n].plain = st;
	known[n].acting = (struct pg_stmt){
		.name = st->name,
		.sql = acting_sql(st->sql, st->n_params),
		.n_params = st->n_params + ACTING_PARAMS,
	};
	n++;
	return known[n - 1].acting.sql ? &known[n - 1].acting : NULL;
}

int acting_query(struct req *r, struct pg_stmt *st, const char *const *params,
		 uint64_t timeout_ms, pg_done *done, void *arg, struct err *e)
{
	const char *all[PG_PARAMS_MAX] = { NULL };
	struct pg_stmt *acting = NULL;

	if (r->route && strcmp(r->route->method, "GET") != 0 && *r->who.key)
		acting = acting_stmt(st);
	if (!acting)
		return pg_query(r->api->db, st, params, timeout_ms, done, arg,
				e);
	for (unsigned i = 0; i < st->n_params; i++)
		all[i] = params[i];
	all[st->n_params] = r->who.key;
	all[st->n_params + 1] = r->who.name;
	all[st->n_params + 2] = r->id;
	all[st->n_params + 3] = r->trace;
	return pg_query(r->api->db, acting, all, timeout_ms, done, arg, e);
}
