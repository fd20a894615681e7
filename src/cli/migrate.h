/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Migrations: numbered SQL files, applied in order, each in one transaction
 * with its row in caisson.schema_migrations, under an advisory lock, so that
 * any number of runners may start at once. A file that was applied never
 * changes; a database that is newer than this program is refused. Blocking.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct migration {
	int version;
	char name[64]; /* without number and ".sql" */
	char file[96];
	char sha256[65];
};

struct migrations {
	struct migration *v;
	size_t n;
};

/* "001_init.sql" -> 1, "init". False for what is no migration's name. */
bool migration_parse_name(const char *file, struct migration *ret);
/* Sort by number; refuse gaps, repeats and an empty list. */
int migrations_order(struct migrations *m, struct err *e);
/* Read the folder: names, order, digests. */
int migrations_load(struct migrations *m, const char *dir, struct err *e);
void migrations_fini(struct migrations *m);
/* Compare with what is applied (ordered by version): how many of the files,
 * from the first, are in the database already. Pure. */
int migrations_plan(const struct migrations *files,
		    const struct migrations *applied, size_t *ret_done,
		    struct err *e);

/* Bring the database to the newest version; *ret_applied counts. */
int migrations_run(const char *conninfo, const char *dir, size_t *ret_applied,
		   struct err *e);
/* CREATE DATABASE caisson if it is not there, over the same server. */
int migrations_create_database(const char *conninfo, struct err *e);
/* The operator's key of a fresh installation: made and kept in `path` (0600) if
 * that file is absent, and known to the database (hashed) afterwards. */
int migrations_bootstrap(const char *conninfo, const char *path, struct err *e);
