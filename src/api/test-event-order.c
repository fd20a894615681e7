/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Many transactions of random length write events, some are rolled back, the
 * server is killed in between; a reader follows by cursor meanwhile. What was
 * committed is seen exactly once, what was not is not seen, and whoever reads
 * it all again gets the same order.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/check.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "db/test-cluster.h"

#define WRITERS 12
#define ROUNDS	40
#define PARTS	2

enum fate { NOT_TRIED, ROLLED_BACK, COMMITTED, UNKNOWN };

static struct shared {
	volatile int fate[WRITERS][ROUNDS];
	volatile int done;
} * shared;

static unsigned seen[WRITERS][ROUNDS][PARTS];

static PGconn *dial(bool patient)
{
	for (int i = 0; i < 600; i++) {
		PGconn *pg = PQconnectdb(test_cluster());

		if (PQstatus(pg) == CONNECTION_OK)
			return pg;
		PQfinish(pg);
		if (!patient)
			break;
		usleep(100000);
	}
	return NULL;
}

static bool run(PGconn *pg, const char *sql)
{
	PGresult *res = PQexec(pg, sql);
	ExecStatusType st = PQresultStatus(res);

	PQclear(res);
	return st == PGRES_COMMAND_OK || st == PGRES_TUPLES_OK;
}

static bool write_part(PGconn *pg, int w, int k, int part)
{
	owned_str sql = xasprintf(
	    "SELECT caisson.event_add('t', 'p', 'test.order', NULL, NULL, "
	    "'a', NULL, '{\"w\":%d,\"k\":%d,\"part\":%d}')",
	    w, k, part);

	return run(pg, sql);
}

/* One transaction; what became of it. */
static enum fate transact(PGconn *pg, int w, int k, unsigned *seed)
{
	if (!run(pg, "BEGIN"))
		return NOT_TRIED;
	for (int part = 0; part < PARTS; part++) {
		if (!write_part(pg, w, k, part))
			return NOT_TRIED;
		usleep((useconds_t)(rand_r(seed) % 40000));
	}
	if (rand_r(seed) % 8 == 0)
		return run(pg, "ROLLBACK") ? ROLLED_BACK : NOT_TRIED;
	return run(pg, "COMMIT") ? COMMITTED : UNKNOWN;
}

static void writer(int w)
{
	unsigned seed = (unsigned)w * 7919u + 1u;
	PGconn *pg = NULL;

	for (int k = 0; k < ROUNDS; k++) {
		enum fate f;

		if (!pg) {
			pg = dial(true);
			/* one that does not care for durability must not take
			 * events back that a reader saw */
			if (!pg || !run(pg, w % 2 ? "SET synchronous_commit = "
						    "off"
						  : "SELECT 1"))
				_exit(1);
		}
		f = transact(pg, w, k, &seed);
		shared->fate[w][k] = (int)f;
		if (f == NOT_TRIED || f == UNKNOWN) {
			PQfinish(pg);
			pg = NULL;
		}
	}
	PQfinish(pg);
	_exit(0);
}

struct cursor {
	char xid[32], seq[32];
	bool set;
};

static void note(const char *data)
{
	int w, k, part;

	if (sscanf(data, "%d %d %d", &w, &k, &part) == 3 && w >= 0 &&
	    w < WRITERS && k >= 0 && k < ROUNDS && part >= 0 && part < PARTS)
		seen[w][k][part]++;
	else
		test_fail(__FILE__, __LINE__, "odd event %s", data);
}

/* One page; how many rows, or -1. order: what was read is appended. */
static int page(PGconn *pg, struct cursor *c, int limit, struct buf *order,
		bool count)
{
	char n[16];
	const char *params[] = { c->set ? c->xid : NULL, c->set ? c->seq : NULL,
				 n };
	PGresult *res;
	int rows;

	snprintf(n, sizeof(n), "%d", limit);
	res = PQexecParams(
	    pg,
	    "SELECT xid, seq, (item #>> '{data,w}') || ' ' || "
	    "(item #>> '{data,k}') || ' ' || (item #>> '{data,part}') FROM "
	    "caisson.events_page('t', 'p', false, $1::xid8, $2, NULL, NULL, "
	    "$3)",
	    3, NULL, params, NULL, NULL, 0);
	rows = PQresultStatus(res) == PGRES_TUPLES_OK ? PQntuples(res) : -1;
	for (int i = 0; i < rows; i++) {
		snprintf(c->xid, sizeof(c->xid), "%s", PQgetvalue(res, i, 0));
		snprintf(c->seq, sizeof(c->seq), "%s", PQgetvalue(res, i, 1));
		c->set = true;
		buf_printf(order, "%s\n", PQgetvalue(res, i, 2));
		if (count)
			note(PQgetvalue(res, i, 2));
	}
	PQclear(res);
	return rows;
}

static int living(pid_t *pids)
{
	int n = 0, status;

	for (int i = 0; i < WRITERS; i++) {
		if (pids[i] > 0 &&
		    waitpid(pids[i], &status, WNOHANG) == pids[i]) {
			T_INT(status, 0);
			pids[i] = 0;
		}
		n += pids[i] > 0;
	}
	return n;
}

/* Reads on until all writers are gone and nothing is left. */
static void follow(pid_t *pids, struct buf *order, bool crash)
{
	struct cursor c = { .set = false };
	PGconn *pg = dial(true);
	bool crashed = !crash;
	uint64_t end = now_mono_us() + UINT64_C(240000000);

	while (pg && now_mono_us() < end) {
		int before = living(pids);
		int rows = page(pg, &c, 7, order, true);

		if (rows < 0) {
			PQfinish(pg);
			pg = dial(true);
			continue;
		}
		if (!crashed && buf_len(order) > 1200) {
			test_cluster_crash();
			crashed = true;
		}
		if (rows == 0 && before == 0)
			break;
		if (rows == 0)
			usleep(3000);
	}
	T_TRUE(crashed);
	PQfinish(pg);
}

static void judge(void)
{
	unsigned n = 0;

	for (int w = 0; w < WRITERS; w++)
		for (int k = 0; k < ROUNDS; k++) {
			unsigned a = seen[w][k][0], b = seen[w][k][1];
			int f = shared->fate[w][k];

			n += f == COMMITTED;
			if (f == COMMITTED && (a != 1 || b != 1))
				test_fail(__FILE__, __LINE__,
					  "committed, seen %u and %u times", a,
					  b);
			if (f != COMMITTED && (a != b || a > 1))
				test_fail(__FILE__, __LINE__,
					  "fate %d, seen %u and %u times", f, a,
					  b);
			if ((f == ROLLED_BACK || f == NOT_TRIED) && a)
				test_fail(__FILE__, __LINE__,
					  "not committed, and seen");
		}
	T_TRUE(n > WRITERS * ROUNDS / 3);
}

static void stress(bool crash)
{
	pid_t pids[WRITERS];
	struct cursor c = { .set = false };
	struct buf order, again;
	PGconn *pg;

	test_cluster_sql("TRUNCATE caisson.events");
	memset(seen, 0, sizeof(seen));
	memset((void *)(uintptr_t)shared, 0, sizeof(*shared));
	buf_init(&order, 0);
	buf_init(&again, 0);
	for (int w = 0; w < WRITERS; w++) {
		pids[w] = fork();
		CHECK(pids[w] >= 0);
		if (pids[w] == 0)
			writer(w);
	}
	follow(pids, &order, crash);
	judge();
	pg = dial(true);
	while (page(pg, &c, 100, &again, false) > 0)
		;
	PQfinish(pg);
	T_STR(buf_cstr(&again), buf_cstr(&order));
	buf_fini(&order);
	buf_fini(&again);
}

static void prepare(void)
{
	static bool done;

	test_cluster();
	if (done)
		return;
	test_cluster_migrate(CAISSON_SQL);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	done = true;
}

TEST(a_follower_sees_each_committed_event_once_in_a_stable_order)
{
	prepare();
	stress(false);
}

TEST(a_crash_of_the_server_takes_nothing_back_and_hides_nothing)
{
	prepare();
	stress(true);
}

TEST(a_transaction_that_stays_open_holds_back_what_came_after_it)
{
	struct cursor c = { .set = false };
	struct buf order;
	PGconn *slow, *quick, *reader;

	prepare();
	test_cluster_sql("TRUNCATE caisson.events");
	memset(seen, 0, sizeof(seen));
	buf_init(&order, 0);
	slow = dial(true);
	quick = dial(true);
	reader = dial(true);
	T_TRUE(run(slow, "BEGIN") && write_part(slow, 0, 0, 0));
	T_TRUE(write_part(quick, 1, 0, 0));
	T_INT(page(reader, &c, 10, &order, true), 0);
	T_TRUE(run(slow, "COMMIT"));
	T_INT(page(reader, &c, 10, &order, true), 2);
	T_STR(buf_cstr(&order), "0 0 0\n1 0 0\n");
	PQfinish(slow);
	PQfinish(quick);
	PQfinish(reader);
	buf_fini(&order);
}

TEST(what_was_forgotten_makes_an_older_cursor_an_error)
{
	PGconn *pg;
	PGresult *res;

	prepare();
	test_cluster_sql("TRUNCATE caisson.events, caisson.event_floors");
	pg = dial(true);
	T_TRUE(write_part(pg, 0, 0, 0) && write_part(pg, 0, 1, 0));
	T_TRUE(run(pg, "UPDATE caisson.events SET time = now() - "
		       "interval '8 days' WHERE data ->> 'k' = '0'"));
	T_TRUE(run(pg, "SELECT caisson.events_gc(7, 100)"));
	res = PQexec(pg, "SELECT * FROM caisson.events_page('t', 'p', false, "
			 "'1', 1, NULL, NULL, 10)");
	T_STR(PQresultErrorField(res, PG_DIAG_SQLSTATE), "CA011");
	PQclear(res);
	res = PQexec(pg, "SELECT * FROM caisson.event_floors f, LATERAL "
			 "caisson.events_page('t', 'p', false, f.xid, f.seq, "
			 "NULL, NULL, 10)");
	T_INT(PQntuples(res), 1);
	PQclear(res);
	PQfinish(pg);
}
