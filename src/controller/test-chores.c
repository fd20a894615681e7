/* SPDX-License-Identifier: Apache-2.0 */

/* What the database does when a controller asks: the audit chain and who may
 * touch it, usage that is counted once, samples, retention. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "db/test-cluster.h"
#include "tls/digest.h"

static PGconn *pg;

static PGresult *query(const char *sql)
{
	PGresult *res = PQexec(pg, sql);

	if (PQresultStatus(res) != PGRES_TUPLES_OK &&
	    PQresultStatus(res) != PGRES_COMMAND_OK)
		test_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
	return res;
}

static void run(const char *sql)
{
	PQclear(query(sql));
}

static bool fails(const char *sql)
{
	PGresult *res = PQexec(pg, sql);
	ExecStatusType st = PQresultStatus(res);

	PQclear(res);
	return st == PGRES_FATAL_ERROR;
}

static int64_t number(const char *sql)
{
	PGresult *res = query(sql);
	int64_t n =
	    PQntuples(res) ? strtoll(PQgetvalue(res, 0, 0), NULL, 10) : -1;

	PQclear(res);
	return n;
}

static void up(void)
{
	static bool migrated;

	test_cluster();
	if (!migrated) {
		test_cluster_migrate(CAISSON_SQL);
		test_cluster_sql("SELECT caisson.bootstrap('t', 'p', 'k', "
				 "'admin', 'e2b_xxxxxxxx', repeat('ab', 32))");
		migrated = true;
	}
	pg = PQconnectdb(test_cluster());
	run("DELETE FROM caisson.sandboxes; TRUNCATE caisson.events, "
	    "caisson.audit, caisson.audit_heads, caisson.usage, "
	    "caisson.sample_marks; DELETE FROM caisson.nodes");
}

static void down(void)
{
	PQfinish(pg);
}

#define SB "sbaaaaaaaaaaaaaaaaaaaa"
#define HEARTBEAT                                                              \
	"SELECT caisson.node_heartbeat('/r', '/d', "                           \
	"'{\"name\":\"n1\",\"incarnation\":\"i1\",\"version\":\"0\","          \
	"\"engine\":{\"name\":\"null\",\"isolation\":\"none\"}}', 600)"

static void add_sandbox(void)
{
	run("INSERT INTO caisson.sandboxes (id, tenant, project, template, "
	    "release, vcpus, memory_mib, disk_mib, desired, observed, node, "
	    "labels, created_by, ttl_s, ends_at) SELECT '" SB "', tenant, id, "
	    "'base', 'r', 1, 512, 1024, 'running', 'pending', 'n1', "
	    "'{\"a\":\"b\"}', 'test', 3600, now() + interval '1 hour' FROM "
	    "caisson.projects");
}

static int64_t cpu_base;

static void add_samples(const char *incarnation, int from, int n,
			int64_t cpu_step, int back_s)
{
	owned_str sql = xasprintf(
	    "SELECT caisson.samples_put('n1', '%s', %d, (SELECT "
	    "jsonb_agg(jsonb_build_object('seq', i, 'at', now() + (i - %d) * "
	    "interval '10 s', 'sandbox', '" SB
	    "', 'cpu_ms', %d + (i - %d + 1) * "
	    "%d, 'memory_bytes', 1048576 * 100, 'disk_bytes', 1048576 * 10, "
	    "'net_rx_bytes', 0, 'net_tx_bytes', 0)) FROM generate_series(%d, "
	    "%d) i))",
	    incarnation, from + n - 1, from + back_s / 10, (int)cpu_base, from,
	    (int)cpu_step, from, from + n - 1);

	run(sql);
}

/* ---- audit ---- */

static void audit_rows(int n)
{
	owned_str sql = xasprintf("SELECT caisson.audit_add('t1', 'p', "
				  "'test.do', 'x' || i, 'me', 'é,' || i) FROM "
				  "generate_series(1, %d) i",
				  n);

	run(sql);
	run("SELECT caisson.audit_chain(10000)");
}

TEST(the_chain_has_no_gap_and_verifies)
{
	up();
	audit_rows(50);
	audit_rows(50);
	T_INT(number("SELECT n FROM caisson.audit_heads WHERE tenant = 't1'"),
	      100);
	T_INT(number("SELECT coalesce(broken, 0) FROM "
		     "caisson.audit_verify('t1', 0, 1000)"),
	      0);
	T_INT(number("SELECT checked FROM caisson.audit_verify('t1', 0, 30)"),
	      30);
	down();
}

static size_t field(struct buf *b, const char *s)
{
	if (s)
		buf_printf(b, "%zu:%s,", strlen(s), s);
	else
		buf_puts(b, "-,");
	return buf_len(b);
}

TEST(the_hash_is_what_the_documentation_says)
{
	static const char *const names[] = {
		"n",	      "tenant", "project", "time",    "actor",
		"actor_name", "action", "target",  "request", "trace",
		"outcome",    "code",	"detail",
	};
	char prev[DIGEST_BYTES] = { 0 }, hex[DIGEST_HEX];
	PGresult *res;

	up();
	audit_rows(5);
	res = query("SELECT n, tenant, project, caisson.ts(time), actor, "
		    "actor_name, action, target, request, trace, outcome, "
		    "code, detail, encode(hash, 'hex') FROM caisson.audit "
		    "WHERE tenant = 't1' ORDER BY n");
	T_INT(PQntuples(res), 5);
	for (int i = 0; i < PQntuples(res); i++) {
		struct buf b;

		buf_init(&b, 0);
		buf_put(&b, prev, sizeof(prev));
		for (int k = 0; k < (int)ARRAY_SIZE(names); k++)
			field(&b, PQgetisnull(res, i, k)
				      ? NULL
				      : PQgetvalue(res, i, k));
		digest_sha256_hex(buf_data(&b), buf_len(&b), hex);
		T_STR(hex, PQgetvalue(res, i, (int)ARRAY_SIZE(names)));
		T_TRUE(text_unhex(hex, sizeof(prev), prev));
		buf_fini(&b);
	}
	PQclear(res);
	down();
}

TEST(programs_can_neither_change_nor_delete_a_record)
{
	up();
	audit_rows(3);
	for (int i = 0; i < 2; i++) {
		run(i ? "SET ROLE caisson_controller" : "SET ROLE caisson_api");
		T_TRUE(fails("UPDATE caisson.audit SET actor = 'x'"));
		T_TRUE(fails("DELETE FROM caisson.audit"));
		T_TRUE(fails("TRUNCATE caisson.audit"));
		T_TRUE(fails("INSERT INTO caisson.audit (tenant, actor, action,"
			     " outcome) VALUES ('t1', 'x', 'y', 'done')"));
		T_TRUE(fails("UPDATE caisson.audit_heads SET n = 0"));
		T_TRUE(fails("DELETE FROM caisson.events"));
		run("RESET ROLE");
	}
	/* nor does the owner by mistake */
	T_TRUE(fails("UPDATE caisson.audit SET actor = 'x'"));
	down();
}

static void tamper(const char *sql, int64_t where)
{
	owned_str count = xasprintf(
	    "SELECT count(*) FROM caisson.events WHERE type = 'audit.broken' "
	    "AND tenant = 't1' AND (data ->> 'n')::int = %d",
	    (int)where);

	up();
	audit_rows(10);
	T_INT(number("SELECT caisson.audit_check(1000)"), 0);
	run("ALTER TABLE caisson.audit DISABLE TRIGGER guard");
	run(sql);
	run("ALTER TABLE caisson.audit ENABLE TRIGGER guard");
	T_INT(number("SELECT caisson.audit_check(1000)"), 1);
	T_INT(number("SELECT caisson.audit_check(1000)"), 1);
	T_INT(number(count), 1); /* said once */
	down();
}

TEST(a_changed_record_breaks_the_chain)
{
	tamper("UPDATE caisson.audit SET detail = 'other' WHERE n = 4", 4);
}

TEST(a_missing_record_breaks_the_chain)
{
	tamper("DELETE FROM caisson.audit WHERE n = 7", 7);
}

TEST(a_cut_off_end_breaks_the_chain)
{
	tamper("DELETE FROM caisson.audit WHERE n = 10", 10);
}

TEST(two_fields_cannot_borrow_bytes_from_each_other)
{
	tamper("UPDATE caisson.audit SET action = 'test.dox', target = '5' "
	       "WHERE n = 5",
	       5);
}

TEST(retention_moves_the_beginning_and_the_rest_verifies)
{
	up();
	audit_rows(10);
	run("ALTER TABLE caisson.audit DISABLE TRIGGER guard");
	run("UPDATE caisson.audit SET time = now() - interval '500 days' WHERE "
	    "n <= 4");
	run("ALTER TABLE caisson.audit ENABLE TRIGGER guard");
	T_INT(number("SELECT caisson.audit_gc(400, 100)"), 4);
	T_INT(number("SELECT floor_n FROM caisson.audit_heads"), 4);
	T_INT(number("SELECT coalesce(broken, 0) FROM "
		     "caisson.audit_verify('t1', 0, 1000)"),
	      0);
	down();
}

TEST(words_from_outside_become_one_bounded_line)
{
	up();
	run("SELECT caisson.audit_refused(jsonb_build_array("
	    "jsonb_build_object('tenant', 't1', 'actor', 'k', 'action', 'a', "
	    "'target', E'a\\r\\nb\\x1b[31m' || chr(8232) || chr(155) || "
	    "repeat('z', 70000))))");
	T_INT(number("SELECT length(target) FROM caisson.audit WHERE outcome = "
		     "'refused'"),
	      1000);
	T_INT(number("SELECT count(*) FROM caisson.audit WHERE target LIKE "
		     "'a??b?[31m??zz%'"),
	      1);
	down();
}

/* ---- events that the controller causes ---- */

TEST(an_end_that_is_near_is_said_once_per_end)
{
	up();
	add_sandbox();
	T_INT(number("SELECT caisson.sandbox_expiring(60, 64)"), 0);
	run("UPDATE caisson.sandboxes SET ends_at = now() + interval '50 s', "
	    "created_at = now() - interval '1 hour'");
	T_INT(number("SELECT caisson.sandbox_expiring(60, 64)"), 1);
	T_INT(number("SELECT caisson.sandbox_expiring(60, 64)"), 0);
	run("UPDATE caisson.sandboxes SET ends_at = ends_at + interval '1 s'");
	T_INT(number("SELECT caisson.sandbox_expiring(60, 64)"), 1);
	T_INT(number("SELECT count(*) FROM caisson.events WHERE type = "
		     "'sandbox.expiring'"),
	      2);
	down();
}

TEST(a_node_that_falls_silent_is_down_once_and_up_again)
{
	up();
	run(HEARTBEAT);
	run(HEARTBEAT);
	T_INT(number("SELECT caisson.node_silent()"), 0);
	run("UPDATE caisson.nodes SET lease_until = now() - interval '1 s'");
	T_INT(number("SELECT caisson.node_silent()"), 1);
	T_INT(number("SELECT caisson.node_silent()"), 0);
	run(HEARTBEAT);
	T_INT(number("SELECT count(*) FROM caisson.events WHERE type = "
		     "'node.up'"),
	      2);
	T_INT(number("SELECT count(*) FROM caisson.events WHERE type = "
		     "'node.down'"),
	      1);
	down();
}

TEST(a_lost_node_ends_its_sandboxes_with_the_reason_and_the_last_usage)
{
	up();
	run(HEARTBEAT);
	add_sandbox();
	run("UPDATE caisson.sandboxes SET observed = 'running', started_at = "
	    "now()");
	add_samples("i1", 1, 3, 100, 30);
	run("UPDATE caisson.nodes SET lease_until = now() - interval '1 hour'");
	T_INT(number("SELECT caisson.sandbox_lost(600, 10)"), 1);
	T_INT(number("SELECT count(*) FROM caisson.events WHERE type = "
		     "'sandbox.lost' AND data ->> 'reason' = 'node_lost' AND "
		     "data #>> '{last_usage,cpu_ms}' = '300'"),
	      1);
	down();
}

/* ---- usage ---- */

#define CPU "SELECT coalesce(sum(cpu_ms), 0) FROM caisson.usage"

TEST(the_same_samples_count_once_whoever_reads_them)
{
	up();
	add_sandbox();
	add_samples("i1", 1, 6, 1000, 100);
	add_samples("i1", 1, 6, 1000, 100);
	T_INT(number(CPU), 6000);
	T_INT(number("SELECT caisson.samples_after('n1', 'i1')"), 6);
	T_INT(number("SELECT caisson.samples_after('n1', 'i2')"), 0);
	down();
}

TEST(a_node_that_starts_again_numbers_anew_and_nothing_is_lost_or_doubled)
{
	up();
	add_sandbox();
	add_samples("i1", 1, 6, 1000, 200); /* to 6,000 */
	/* its counters went on, its numbers did not */
	cpu_base = 6000;
	add_samples("i2", 1, 3, 500, 100);
	cpu_base = 0;
	T_INT(number(CPU), 7500);
	/* a machine that was restored counts from nothing */
	add_samples("i2", 4, 2, 300, 20);
	T_INT(number(CPU), 8100);
	down();
}

TEST(samples_of_foreign_sandboxes_and_odd_ones_are_left_out)
{
	up();
	add_sandbox();
	run("UPDATE caisson.sandboxes SET node = 'n2'");
	add_samples("i1", 1, 3, 1000, 100);
	T_INT(number(CPU), 0);
	run("UPDATE caisson.sandboxes SET node = 'n1'");
	run("SELECT caisson.samples_put('n1', 'i1', 9, '[{\"seq\":7},"
	    "{\"seq\":8,\"at\":\"2999-01-01T00:00:00Z\",\"sandbox\":\"" SB
	    "\",\"cpu_ms\":1},{\"seq\":9,\"at\":\"2026-01-01T00:00:00Z\","
	    "\"sandbox\":\"" SB "\",\"cpu_ms\":-5}]')");
	T_INT(number(CPU), 0);
	T_INT(number("SELECT caisson.samples_after('n1', 'i1')"), 9);
	down();
}

TEST(time_is_billed_from_the_rows_also_without_any_sample)
{
	up();
	add_sandbox();
	run("UPDATE caisson.sandboxes SET observed = 'running'");
	run("UPDATE caisson.usage_marks SET billed_until = now() - interval "
	    "'150 minutes'");
	T_INT(number("SELECT caisson.usage_bill(30, 100)"), 1);
	T_INT(number("SELECT caisson.usage_bill(30, 100)"), 0);
	T_TRUE(number("SELECT count(*) FROM caisson.usage") >= 3);
	T_INT(number("SELECT sum(running_ms) / 1000 FROM caisson.usage"), 9000);
	T_INT(number("SELECT max(running_ms) / 1000 FROM caisson.usage"), 3600);
	run("UPDATE caisson.sandboxes SET observed = 'ended', end_at = now(), "
	    "end_reason = 'request'");
	T_INT(number("SELECT count(*) FROM caisson.usage_marks WHERE "
		     "billed_until IS NOT NULL"),
	      0);
	T_TRUE(number("SELECT sum(memory_mib_ms) / 512 / 1000 FROM "
		      "caisson.usage") >= 9000);
	down();
}

TEST(old_samples_are_folded_to_one_a_minute_and_then_forgotten)
{
	up();
	add_sandbox();
	run("INSERT INTO caisson.sandbox_samples SELECT '" SB "', "
	    "date_trunc('minute', now()) - interval '25 hours' + i * interval "
	    "'10 s', i, 1, 1, 0, 0 FROM generate_series(0, 59) i");
	run("INSERT INTO caisson.sandbox_samples SELECT '" SB "', now() - "
	    "interval '8 days' + i * interval '10 s', i, 1, 1, 0, 0 FROM "
	    "generate_series(0, 5) i");
	run("SELECT caisson.samples_gc(1000)");
	T_INT(number("SELECT count(*) FROM caisson.sandbox_samples"), 10);
	T_INT(number("SELECT min(cpu_ms) FROM caisson.sandbox_samples"), 5);
	down();
}
