/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A private, throw-away PostgreSQL for tests: made in a temporary directory on
 * first use, listening on a unix socket only, killed and removed at exit. As
 * root it runs as `postgres` or `nobody`. Without a server's binaries the
 * calling test is skipped with the reason.
 */

/* "host=DIR dbname=postgres user=USER": valid until exit. The named user is
 * the cluster's superuser; connection strings of others are made by appending
 * " user=NAME" (the last one counts). */
const char *test_cluster(void);
/* Kill every server process at once (-9) and start again. */
void test_cluster_crash(void);
/* Run an SQL script (blocking); fails the test on an error. */
void test_cluster_sql(const char *sql);
/* Apply the numbered files of a directory to an empty database. */
void test_cluster_migrate(const char *dir);
