/* SPDX-License-Identifier: Apache-2.0 */

/* migrate: schema, and what a fresh installation needs. Hidden: `up` runs it;
 * deployments with a database of their own run it by hand. */

#include <inttypes.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/migrate.h"
#include "cli/pginit.h"
#include "cli/stack.h"

struct migrate {
	const char *db, *sql, *key, *pg_bin, *data;
	bool create, initdb;
};

static int migrate(struct cli *c, const struct migrate *m, const char *sql)
{
	struct err e = { 0 };
	size_t applied = 0;
	int r = 0;

	if (m->create)
		r = migrations_create_database(m->db, &e);
	if (r == 0)
		r = migrations_run(m->db, sql, &applied, &e);
	if (r == 0 && m->key)
		r = migrations_bootstrap(m->db, m->key, &e);
	if (r < 0) {
		err_wrap(&e, "migrate");
		return cli_fail(c, &e);
	}
	fprintf(stderr, "caisson: %zu migrations applied\n", applied);
	return CLI_OK;
}

int verb_migrate(struct cli *c, int argc, char **argv)
{
	struct migrate m = { 0 };
	const struct arg_opt opts[] = {
		{ "db", 0, ARG_STR, &m.db, "CONNINFO",
		  "the database, as libpq takes it", 0, 0 },
		{ "sql", 0, ARG_STR, &m.sql, "DIR",
		  "the files (share/caisson/sql)", 0, 0 },
		{ "create", 0, ARG_FLAG, &m.create, NULL,
		  "create the database first if it is not there", 0, 0 },
		{ "operator-key", 0, ARG_STR, &m.key, "FILE",
		  "make sure that the key in FILE (made if absent) works", 0,
		  0 },
		{ "initdb", 0, ARG_FLAG, &m.initdb, NULL,
		  "make the private cluster in DATA/postgres instead", 0, 0 },
		{ "pg-bin", 0, ARG_STR, &m.pg_bin, "DIR",
		  "with --initdb: PostgreSQL's programs", 0, 0 },
		{ "data", 0, ARG_STR, &m.data, "DIR", "with --initdb", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "migrate --db CONNINFO [options]",
		.summary = "Bring a database to this version.",
		.more = "  caisson migrate --db 'host=db.example.org "
			"dbname=caisson user=owner'\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct stack s;
	struct err e = { 0 };
	owned_str sql = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (m.initdb) {
		if (!m.pg_bin || !m.data)
			return cli_usage("migrate --initdb needs --pg-bin and "
					 "--data");
		return pg_init(m.pg_bin, m.data, &e) < 0 ? cli_fail(c, &e)
							 : CLI_OK;
	}
	if (!m.db)
		return cli_usage("migrate: which database? --db CONNINFO");
	stack_init(&s);
	sql = m.sql ? xstrdup(m.sql) : xasprintf("%s/sql", s.share);
	stack_fini(&s);
	return migrate(c, &m, sql);
}
