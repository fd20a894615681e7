/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "db/pg.h"

TEST(our_own_states_have_kinds)
{
	T_INT(pg_kind_of("CA404"), ERR_NOT_FOUND);
	T_INT(pg_kind_of("CA001"), ERR_EXISTS);
	T_INT(pg_kind_of("CA002"), ERR_CONFLICT);
	T_INT(pg_kind_of("CA004"), ERR_NOT_FOUND);
}

TEST(an_exact_state_wins_over_its_class)
{
	T_INT(pg_kind_of("53300"), ERR_UNAVAILABLE);
	T_INT(pg_kind_of("53200"), ERR_EXHAUSTED);
	T_INT(pg_kind_of("23505"), ERR_EXISTS);
	T_INT(pg_kind_of("23503"), ERR_INVALID);
	T_INT(pg_kind_of("57014"), ERR_TIMEOUT);
	T_INT(pg_kind_of("57P01"), ERR_UNAVAILABLE);
}

TEST(what_is_unknown_is_our_own_fault)
{
	T_INT(pg_kind_of(NULL), ERR_INTERNAL);
	T_INT(pg_kind_of(""), ERR_INTERNAL);
	T_INT(pg_kind_of("42703"), ERR_INTERNAL);
	T_INT(pg_kind_of("081234"), ERR_INTERNAL);
}

/* a pool that can never connect */
struct seen {
	int n;
	struct err e;
};

static void on_done(void *arg, const struct pg_result *res, const struct err *e)
{
	struct seen *s = arg;

	s->n++;
	if (e)
		s->e = *e;
	T_INT(pg_rows(res), 0);
	T_STR(pg_sqlstate(res), "");
}

static struct pg_stmt one = { "one", "SELECT 1", 0, 0 };

static struct pg_pool *deaf_pool(struct loop *l, unsigned queue)
{
	return pg_pool_new(l, &(struct pg_pool_conf){
				  .conninfo = "host=/nonexistent dbname=x",
				  .queue = queue,
			      });
}

TEST(a_full_queue_refuses_at_once)
{
	struct loop *l = loop_new();
	struct pg_pool *p = deaf_pool(l, 3);
	struct seen s = { 0 };
	struct err e = { 0 };

	for (int i = 0; i < 3; i++)
		T_INT(pg_query(p, &one, NULL, 60000, on_done, &s, &e), 0);
	T_INT(pg_query(p, &one, NULL, 60000, on_done, &s, &e), -ENOBUFS);
	T_INT(e.kind, ERR_EXHAUSTED);
	T_INT(s.n, 0);
	pg_pool_free(p);
	loop_free(l);
}

TEST(freeing_the_pool_answers_every_query_once)
{
	struct loop *l = loop_new();
	struct pg_pool *p = deaf_pool(l, 0);
	struct seen s = { 0 };

	for (int i = 0; i < 5; i++)
		T_INT(pg_query(p, &one, NULL, 60000, on_done, &s, NULL), 0);
	pg_pool_free(p);
	T_INT(s.n, 5);
	T_INT(s.e.kind, ERR_UNAVAILABLE);
	loop_free(l);
}

TEST(a_query_without_a_server_ends_at_its_deadline_and_says_why)
{
	struct loop *l = loop_new();
	struct pg_pool *p = deaf_pool(l, 0);
	struct seen s = { 0 };

	T_INT(pg_query(p, &one, NULL, 50, on_done, &s, NULL), 0);
	while (!s.n)
		loop_once(l, 1000);
	T_INT(s.e.kind, ERR_TIMEOUT);
	T_HAS(s.e.msg, "one");
	T_HAS(s.e.msg, "/nonexistent");
	pg_pool_free(p);
	loop_free(l);
}
