/* SPDX-License-Identifier: Apache-2.0 */
#include "db/pg.h"

#include <inttypes.h>

#include "base/test.h"
#include "db/test-cluster.h"

struct answer {
	int n, rows;
	bool failed;
	struct err e;
	char sqlstate[6];
	char text[2][64];
};

static void on_done(void *arg, const struct pg_result *res, const struct err *e)
{
	struct answer *a = arg;

	a->n++;
	a->rows = pg_rows(res);
	a->failed = e != NULL;
	if (e)
		a->e = *e;
	memcpy(a->sqlstate, pg_sqlstate(res), strlen(pg_sqlstate(res)) + 1);
	if (!e && a->rows)
		snprintf(a->text[0], sizeof(a->text[0]), "%s",
			 pg_text(res, 0, 0) ? pg_text(res, 0, 0) : "(null)");
}

static struct loop *l;
static struct pg_pool *p;

static void up(unsigned conns, unsigned queue)
{
	const char *conninfo = test_cluster();

	l = loop_new();
	p = pg_pool_new(l, &(struct pg_pool_conf){ .conninfo = conninfo,
						   .conns = conns,
						   .queue = queue,
						   .retry_max_ms = 200 });
}

static void down(void)
{
	p = pg_pool_free(p);
	l = loop_free(l);
}

static void wait_for(const struct answer *a, int n)
{
	for (int i = 0; i < 6000 && a->n < n; i++)
		loop_once(l, 10);
	T_INT(a->n, n);
}

static void ask(struct pg_stmt *st, const char *const *params,
		uint64_t timeout_ms, struct answer *a)
{
	struct err e = { 0 };

	if (pg_query(p, st, params, timeout_ms, on_done, a, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
}

static struct pg_stmt st_echo = { "echo", "SELECT $1::text, $2::text", 2, 0 };
static struct pg_stmt st_sleep = { "sleep", "SELECT pg_sleep($1::float8)", 1,
				   0 };
static struct pg_stmt st_bad = { "bad", "SELECT nonsense", 0, 0 };
static struct pg_stmt st_div = { "div", "SELECT 1 / $1::integer", 1, 0 };
static struct pg_stmt st_pid = { "pid", "SELECT pg_backend_pid()", 0, 0 };
static struct pg_stmt st_raise = {
	"raise",
	"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'CA404'; END $$", 0, 0
};

TEST(text_goes_in_and_comes_out)
{
	const char *params[] = { "\xc3\xa4 'quoted' \\ $1", NULL };
	struct answer a = { 0 };

	up(1, 0);
	ask(&st_echo, params, 30000, &a);
	T_INT(a.n, 0); /* never from within pg_query */
	wait_for(&a, 1);
	T_TRUE(!a.failed);
	T_STR(a.text[0], "\xc3\xa4 'quoted' \\ $1");
	down();
}

TEST(parameters_are_copied)
{
	char word[8] = "before";
	const char *params[] = { word, word };
	struct answer a = { 0 };

	up(1, 0);
	ask(&st_echo, params, 30000, &a);
	memcpy(word, "after!", 7);
	wait_for(&a, 1);
	T_STR(a.text[0], "before");
	down();
}

TEST(a_statement_is_prepared_once_per_connection)
{
	struct answer a = { 0 };
	const char *params[] = { "x", "y" };

	up(1, 0);
	for (int i = 1; i <= 20; i++) {
		ask(&st_echo, params, 30000, &a);
		wait_for(&a, i);
	}
	T_TRUE(!a.failed);
	down();
}

TEST(a_program_may_have_more_than_64_statements)
{
	static struct pg_stmt many[100];
	static char sql[100][32];
	struct answer a = { 0 };
	char text[8];

	up(1, 0);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 100; i++) {
			snprintf(sql[i], sizeof(sql[i]), "SELECT %d", i);
			many[i].name = "many";
			many[i].sql = sql[i];
			ask(&many[i], NULL, 30000, &a);
			wait_for(&a, round * 100 + i + 1);
			T_TRUE(!a.failed);
			snprintf(text, sizeof(text), "%d", i);
			T_STR(a.text[0], text);
		}
	down();
}

TEST(many_queries_over_few_connections_all_end)
{
	struct answer a = { 0 };
	struct pg_stats s;
	const char *params[] = { "x", "y" };

	up(4, 0);
	for (int i = 0; i < 500; i++)
		ask(&st_echo, params, 60000, &a);
	wait_for(&a, 500);
	pg_pool_stats(p, &s);
	T_INT(s.failed, 0);
	T_TRUE(s.open >= 1 && s.open <= 4);
	T_INT(s.waiting, 0);
	down();
}

TEST(an_error_of_prepare_leaves_the_connection_usable)
{
	struct answer a = { 0 };
	const char *params[] = { "x", "y" };

	up(1, 0);
	ask(&st_bad, NULL, 30000, &a);
	wait_for(&a, 1);
	T_TRUE(a.failed);
	T_INT(a.e.kind, ERR_INTERNAL);
	T_STR(a.sqlstate, "42703");
	T_HAS(a.e.msg, "bad: ");
	ask(&st_echo, params, 30000, &a);
	wait_for(&a, 2);
	T_TRUE(!a.failed);
	down();
}

TEST(an_error_of_execution_has_its_state_and_kind)
{
	struct answer a = { 0 };
	const char *params[] = { "0" };

	up(1, 0);
	ask(&st_div, params, 30000, &a);
	wait_for(&a, 1);
	T_STR(a.sqlstate, "22012");
	T_INT(a.e.kind, ERR_INVALID);
	ask(&st_raise, NULL, 30000, &a);
	wait_for(&a, 2);
	T_STR(a.sqlstate, "CA404");
	T_INT(a.e.kind, ERR_NOT_FOUND);
	down();
}

TEST(an_overdue_statement_is_cut_and_others_go_on)
{
	struct answer a = { 0 }, b = { 0 };
	const char *secs[] = { "30" }, *params[] = { "x", "y" };

	up(1, 0);
	ask(&st_sleep, secs, 300, &a);
	ask(&st_echo, params, 30000, &b);
	wait_for(&a, 1);
	T_INT(a.e.kind, ERR_TIMEOUT);
	wait_for(&b, 1);
	T_TRUE(!b.failed);
	down();
}

static struct pg_stmt st_sleepers = {
	"sleepers",
	"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
	"AND query LIKE 'SELECT pg_sleep(%'",
	0, 0
};

TEST(the_server_cancels_what_was_cut)
{
	struct answer a = { 0 }, b = { 0 };
	const char *secs[] = { "50" };

	up(2, 0);
	ask(&st_sleep, secs, 300, &a);
	wait_for(&a, 1);
	for (int i = 1; i <= 100; i++) {
		ask(&st_sleepers, NULL, 30000, &b);
		wait_for(&b, i);
		if (strcmp(b.text[0], "0") == 0)
			break;
		for (int k = 0; k < 10; k++)
			loop_once(l, 20);
	}
	T_STR(b.text[0], "0");
	down();
}

TEST(a_statement_on_a_broken_connection_is_unavailable_not_repeated)
{
	struct answer pid = { 0 }, a = { 0 }, b = { 0 };
	const char *secs[] = { "30" }, *params[] = { "x", "y" };
	char sql[128];

	up(1, 0);
	ask(&st_pid, NULL, 30000, &pid);
	wait_for(&pid, 1);
	ask(&st_sleep, secs, 60000, &a);
	for (int i = 0; i < 20; i++)
		loop_once(l, 10);
	T_INT(a.n, 0);
	snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%s)",
		 pid.text[0]);
	test_cluster_sql(sql);
	wait_for(&a, 1);
	T_INT(a.e.kind, ERR_UNAVAILABLE);
	T_HAS(a.e.msg, "sleep");
	ask(&st_echo, params, 30000, &b);
	wait_for(&b, 1);
	T_TRUE(!b.failed);
	down();
}

TEST(an_idle_connection_that_broke_is_replaced_unseen)
{
	struct answer a = { 0 };
	char sql[128];
	const char *params[] = { "x", "y" };

	up(1, 0);
	ask(&st_pid, NULL, 30000, &a);
	wait_for(&a, 1);
	snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%s)",
		 a.text[0]);
	test_cluster_sql(sql);
	for (int i = 0; i < 20; i++)
		loop_once(l, 10);
	ask(&st_echo, params, 30000, &a);
	wait_for(&a, 2);
	T_TRUE(!a.failed);
	down();
}

TEST(the_pool_comes_back_after_the_server_crashed)
{
	struct answer a = { 0 };
	const char *params[] = { "x", "y" };

	up(2, 0);
	ask(&st_echo, params, 30000, &a);
	wait_for(&a, 1);
	test_cluster_crash();
	/* the first may meet a connection whose end is not seen yet; from then
	 * on all is well */
	ask(&st_echo, params, 30000, &a);
	wait_for(&a, 2);
	ask(&st_echo, params, 30000, &a);
	wait_for(&a, 3);
	T_TRUE(!a.failed);
	down();
}

TEST(the_queue_is_bounded_while_all_are_busy)
{
	struct answer a = { 0 };
	struct err e = { 0 };
	const char *secs[] = { "0.5" };
	int r = 0, n = 0;

	up(1, 2);
	ask(&st_sleep, secs, 30000, &a);
	for (int i = 0; i < 20; i++)
		loop_once(l, 10);
	while (n < 10 && r == 0) {
		r = pg_query(p, &st_sleep, secs, 30000, on_done, &a, &e);
		n += r == 0;
	}
	T_INT(r, -ENOBUFS);
	T_INT(e.kind, ERR_EXHAUSTED);
	T_INT(n, 2);
	wait_for(&a, 3);
	down();
}
