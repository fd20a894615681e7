/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "db/pg-int.h"

int pg_rows(const struct pg_result *r)
{
	return r->res ? PQntuples(r->res) : 0;
}

const char *pg_text(const struct pg_result *r, int row, int col)
{
	CHECK(r->res && row >= 0 && row < PQntuples(r->res));
	CHECK(col >= 0 && col < PQnfields(r->res));
	if (PQgetisnull(r->res, row, col))
		return NULL;
	return PQgetvalue(r->res, row, col);
}

bool pg_bool(const struct pg_result *r, int row, int col)
{
	const char *s = pg_text(r, row, col);

	return s && strcmp(s, "t") == 0;
}

int64_t pg_int(const struct pg_result *r, int row, int col, int64_t missing)
{
	const char *s = pg_text(r, row, col);
	char *end;
	long long v;

	if (!s || !*s)
		return missing;
	errno = 0;
	v = strtoll(s, &end, 10);
	return errno || *end ? missing : (int64_t)v;
}

const char *pg_sqlstate(const struct pg_result *r)
{
	return r->sqlstate;
}

/* Exact states first, then classes (two characters); PostgreSQL 15, appendix
 * A. What is missing here is our own bug or the server's: internal. */
static const struct {
	const char *state;
	enum err_kind kind;
} kinds[] = {
	{ "CA404", ERR_NOT_FOUND },
	{ "CA001", ERR_EXISTS },
	{ "CA002", ERR_CONFLICT },
	{ "CA003", ERR_CONFLICT },
	{ "CA004", ERR_NOT_FOUND },
	{ "CA005", ERR_UNAVAILABLE },
	{ "23505", ERR_EXISTS },
	{ "25006", ERR_UNAVAILABLE }, /* a read-only standby */
	{ "40001", ERR_UNAVAILABLE }, /* serialization */
	{ "40P01", ERR_UNAVAILABLE }, /* deadlock */
	{ "42501", ERR_DENIED },
	{ "53300", ERR_UNAVAILABLE },
	{ "55P03", ERR_TIMEOUT },
	{ "57014", ERR_TIMEOUT },
	{ "08", ERR_UNAVAILABLE },
	{ "57", ERR_UNAVAILABLE },
	{ "53", ERR_EXHAUSTED },
	{ "22", ERR_INVALID },
	{ "23", ERR_INVALID },
};

enum err_kind pg_kind_of(const char *sqlstate)
{
	if (!sqlstate || strlen(sqlstate) != 5)
		return ERR_INTERNAL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(sqlstate, kinds[i].state, strlen(kinds[i].state)) ==
		    0)
			return kinds[i].kind;
	return ERR_INTERNAL;
}
