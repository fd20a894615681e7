/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

#define SQL_FILE_MAX (4u << 20)
#define LOCK_SQL     "SELECT pg_advisory_lock(1128352083)"

static void finish_p(PGconn **c)
{
	PQfinish(*c);
}
static void clear_p(PGresult **r)
{
	PQclear(*r);
}
#define owned_conn OWNED(finish_p) PGconn *
#define owned_res  OWNED(clear_p) PGresult *

/* ---- files ---- */

bool migration_parse_name(const char *file, struct migration *ret)
{
	const char *p = file;
	size_t n = strlen(file), digits = strspn(file, "0123456789");
	int version = 0;

	if (digits != 3 || n < 9 || n >= sizeof(ret->file) || file[3] != '_' ||
	    strcmp(file + n - 4, ".sql") != 0)
		return false;
	n -= 8; /* what lies between "NNN_" and ".sql" */
	if (n >= sizeof(ret->name) ||
	    strspn(file + 4, "abcdefghijklmnopqrstuvwxyz0123456789_-") != n)
		return false;
	for (; *p != '_'; p++)
		version = version * 10 + (*p - '0');
	if (version == 0)
		return false;
	*ret = (struct migration){ .version = version };
	memcpy(ret->name, file + 4, n);
	snprintf(ret->file, sizeof(ret->file), "%s", file);
	return true;
}

static int by_version(const void *a, const void *b)
{
	const struct migration *x = a, *y = b;

	return (x->version > y->version) - (x->version < y->version);
}

int migrations_order(struct migrations *m, struct err *e)
{
	if (m->n == 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no migrations (NNN_name.sql) there: is the "
			       "installation complete?");
	qsort(m->v, m->n, sizeof(*m->v), by_version);
	for (size_t i = 0; i < m->n; i++) {
		if (i > 0 && m->v[i].version == m->v[i - 1].version)
			return err_set(e, -EINVAL, ERR_INVALID,
				       "%s and %s have the same number",
				       m->v[i - 1].file, m->v[i].file);
		if (m->v[i].version != (int)i + 1)
			return err_set(e, -EINVAL, ERR_INVALID,
				       "%s: number %03d is missing before it",
				       m->v[i].file, (int)i + 1);
	}
	return 0;
}

static void append(struct migrations *m, const struct migration *one)
{
	struct migration *grown;

	grown = realloc(m->v, (m->n + 1) * sizeof(*grown));
	CHECK(grown);
	m->v = grown;
	m->v[m->n++] = *one;
}

static int read_sql(const char *dir, const struct migration *one, char **ret,
		    size_t *ret_n, struct err *e)
{
	owned_str path = xasprintf("%s/%s", dir, one->file);

	return file_read(path, SQL_FILE_MAX, ret, ret_n, e);
}

int migrations_load(struct migrations *m, const char *dir, struct err *e)
{
	struct migration one;
	struct dirent *d;
	DIR *at = opendir(dir);
	int r;

	*m = (struct migrations){ 0 };
	if (!at)
		return err_errno(e, errno, "migrations in %s", dir);
	while ((d = readdir(at))) {
		if (migration_parse_name(d->d_name, &one))
			append(m, &one);
	}
	closedir(at);
	r = migrations_order(m, e);
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		owned_str text = NULL;
		size_t n;

		r = read_sql(dir, &m->v[i], &text, &n, e);
		if (r == 0)
			digest_sha256_hex(text, n, m->v[i].sha256);
	}
	if (r < 0)
		migrations_fini(m);
	return r < 0 ? err_wrap(e, "%s", dir) : 0;
}

void migrations_fini(struct migrations *m)
{
	free(m->v);
	*m = (struct migrations){ 0 };
}

int migrations_plan(const struct migrations *files,
		    const struct migrations *applied, size_t *ret_done,
		    struct err *e)
{
	for (size_t i = 0; i < applied->n; i++) {
		const struct migration *was = &applied->v[i];

		if (was->version != (int)i + 1)
			return err_set(e, -EINVAL, ERR_CONFLICT,
				       "the database skipped migration %03d",
				       (int)i + 1);
		if (i >= files->n)
			return err_set(e, -EINVAL, ERR_CONFLICT,
				       "the database is newer (%03d_%s) than "
				       "this program; use the newer one",
				       was->version, was->name);
		if (strcmp(was->sha256, files->v[i].sha256) != 0)
			return err_set(e, -EINVAL, ERR_CONFLICT,
				       "%s differs from the file that was "
				       "applied; applied migrations never "
				       "change",
				       files->v[i].file);
	}
	*ret_done = applied->n;
	return 0;
}

/* ---- database ---- */

/* PostgreSQL's words on one line, for a message. */
static int pg_error(struct err *e, const char *words, const char *doing)
{
	char line[400];

	snprintf(line, sizeof(line), "%s", words);
	for (char *p = line; *p; p++) {
		if (*p == '\n')
			*p = p[1] ? ' ' : '\0';
	}
	return err_set(e, -EIO, ERR_UNAVAILABLE, "%s: %s", doing, line);
}

static int run(PGconn *c, const char *sql, struct err *e, const char *doing)
{
	owned_res r = PQexec(c, sql);
	ExecStatusType s = PQresultStatus(r);

	if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK)
		return pg_error(e, PQerrorMessage(c), doing);
	return 0;
}

static void on_notice(void *arg, const PGresult *r)
{
	(void)arg;
	(void)r; /* "already exists, skipping" is what we asked for */
}

static int connect_to(const char *conninfo, const char *dbname, PGconn **ret,
		      struct err *e)
{
	const char *keys[] = { "dbname", "dbname", NULL };
	const char *values[] = { conninfo, dbname, NULL };
	owned_conn c = NULL;

	/* the first dbname is expanded as a connection string */
	if (!dbname)
		keys[1] = NULL;
	c = PQconnectdbParams(keys, values, 1);
	if (PQstatus(c) != CONNECTION_OK)
		return pg_error(e, PQerrorMessage(c), "connect");
	PQsetNoticeReceiver(c, on_notice, NULL);
	*ret = TAKE(c);
	return 0;
}

static int read_applied(PGconn *c, struct migrations *ret, struct err *e)
{
	owned_res r = NULL;

	*ret = (struct migrations){ 0 };
	r = PQexec(c, "SELECT version, name, sha256 FROM "
		      "caisson.schema_migrations ORDER BY version");
	if (PQresultStatus(r) != PGRES_TUPLES_OK)
		return pg_error(e, PQerrorMessage(c), "read migrations");
	for (int i = 0; i < PQntuples(r); i++) {
		struct migration one = { 0 };

		one.version = (int)strtol(PQgetvalue(r, i, 0), NULL, 10);
		snprintf(one.name, sizeof(one.name), "%s", PQgetvalue(r, i, 1));
		snprintf(one.sha256, sizeof(one.sha256), "%s",
			 PQgetvalue(r, i, 2));
		append(ret, &one);
	}
	return 0;
}

static int record(PGconn *c, const struct migration *m, struct err *e)
{
	char version[16];
	const char *values[] = { version, m->name, m->sha256 };
	owned_res r = NULL;

	snprintf(version, sizeof(version), "%d", m->version);
	r = PQexecParams(c,
			 "INSERT INTO caisson.schema_migrations (version, "
			 "name, sha256) VALUES ($1, $2, $3)",
			 3, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(r) != PGRES_COMMAND_OK)
		return pg_error(e, PQerrorMessage(c), m->file);
	return 0;
}

static int apply(PGconn *c, const char *dir, const struct migration *m,
		 struct err *e)
{
	owned_str sql = NULL;
	size_t n;
	int r;

	r = read_sql(dir, m, &sql, &n, e);
	if (r < 0)
		return r;
	if (memchr(sql, '\0', n))
		return err_set(e, -EINVAL, ERR_INVALID, "%s: holds a NUL",
			       m->file);
	r = run(c, "BEGIN", e, m->file);
	if (r == 0)
		r = run(c, sql, e, m->file);
	if (r == 0)
		r = record(c, m, e);
	if (r == 0)
		r = run(c, "COMMIT", e, m->file);
	if (r < 0)
		run(c, "ROLLBACK", NULL, m->file);
	return r;
}

int migrations_run(const char *conninfo, const char *dir, size_t *ret_applied,
		   struct err *e)
{
	struct migrations files = { 0 }, applied = { 0 };
	owned_conn c = NULL;
	size_t done = 0, i;
	int r;

	*ret_applied = 0;
	r = migrations_load(&files, dir, e);
	if (r == 0)
		r = connect_to(conninfo, NULL, &c, e);
	if (r == 0)
		r = run(c, LOCK_SQL, e, "lock");
	if (r == 0)
		r = run(c,
			"CREATE SCHEMA IF NOT EXISTS caisson; "
			"CREATE TABLE IF NOT EXISTS caisson.schema_migrations "
			"(version integer PRIMARY KEY, name text NOT NULL, "
			"sha256 text NOT NULL, applied_at timestamptz NOT NULL "
			"DEFAULT now())",
			e, "prepare");
	if (r == 0)
		r = read_applied(c, &applied, e);
	if (r == 0)
		r = migrations_plan(&files, &applied, &done, e);
	for (i = done; r == 0 && i < files.n; i++) {
		r = apply(c, dir, &files.v[i], e);
		if (r == 0)
			(*ret_applied)++;
	}
	migrations_fini(&files);
	migrations_fini(&applied);
	return r; /* the lock goes with the connection */
}

int migrations_create_database(const char *conninfo, struct err *e)
{
	owned_conn c = NULL;
	owned_res r = NULL;

	if (connect_to(conninfo, "postgres", &c, e) < 0)
		return e->code;
	if (run(c, LOCK_SQL, e, "lock") < 0)
		return e->code;
	r = PQexec(c, "SELECT FROM pg_database WHERE datname = 'caisson'");
	if (PQresultStatus(r) != PGRES_TUPLES_OK)
		return pg_error(e, PQerrorMessage(c), "list databases");
	if (PQntuples(r) > 0)
		return 0;
	return run(c,
		   "CREATE DATABASE caisson ENCODING 'UTF8' TEMPLATE "
		   "template0",
		   e, "create database");
}

/* The key in the file, or a new one put there. */
static int operator_key(const char *path, char ret[45], struct err *e)
{
	owned_str text = NULL;
	struct err why = { 0 };
	uint8_t raw[20];
	char hex[41];
	size_t n;
	int r;

	r = file_read(path, 256, &text, &n, &why);
	if (r == 0) {
		text[strcspn(text, "\n")] = '\0';
		if (strlen(text) != 44 || strncmp(text, "e2b_", 4) != 0)
			return err_set(e, -EINVAL, ERR_INVALID,
				       "%s holds no key; remove it to get a "
				       "new one",
				       path);
		snprintf(ret, 45, "%s", text);
		return 0;
	}
	if (r != -ENOENT)
		return err_set(e, r, why.kind, "%s", why.msg);
	random_bytes(raw, sizeof(raw));
	text_hex(raw, sizeof(raw), hex);
	snprintf(ret, 45, "e2b_%s", hex);
	text = xasprintf("%s\n", ret);
	return file_write_atomic(path, text, strlen(text), 0600, e);
}

int migrations_bootstrap(const char *conninfo, const char *path, struct err *e)
{
	char key[45], prefix[13], sha256[DIGEST_HEX];
	const char *values[] = { prefix, sha256 };
	owned_conn c = NULL;
	owned_res res = NULL;
	int r;

	r = operator_key(path, key, e);
	if (r == 0)
		r = connect_to(conninfo, NULL, &c, e);
	if (r < 0)
		return r;
	snprintf(prefix, sizeof(prefix), "%.12s", key);
	digest_sha256_hex(key, strlen(key), sha256);
	explicit_bzero(key, sizeof(key));
	res = PQexecParams(c,
			   "SELECT * FROM caisson.bootstrap('default', "
			   "'default', 'operator', 'operator', $1, $2)",
			   2, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		return pg_error(e, PQerrorMessage(c), "operator's key");
	return 0;
}
