/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a client was told is there after the database was killed: nothing that
 * it may have seen commits asynchronously. The server's own flusher is slowed
 * down first, so that an asynchronous commit is lost for certain, not by luck.
 */

#include <stdio.h>

#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "db/test-cluster.h"

static void rig_up_lazy_flusher(void)
{
	test_cluster();
	test_cluster_sql("ALTER SYSTEM SET wal_writer_delay = '10s'");
	test_cluster_sql("SELECT pg_reload_conf()");
	rig_up();
}

/* The pool finds out by a failed statement that its connections are gone. */
static void ask_until_answered(const char *path)
{
	for (int i = 0; i < 300; i++) {
		if (ASK("GET", path, DEV) != 503)
			return;
		rig_spin(100);
	}
	T_INT(rig_last.status, 200);
}

TEST(an_asynchronous_commit_is_lost_here)
{
	rig_up_lazy_flusher();
	test_cluster_sql("CREATE TABLE flushed (n integer)");
	test_cluster_sql("BEGIN; SET LOCAL synchronous_commit = off; "
			 "INSERT INTO flushed VALUES (1); COMMIT");
	test_cluster_crash();
	test_cluster_sql("SELECT 1 / (1 - count(*)) FROM flushed");
	rig_down();
}

TEST(a_sandbox_seen_running_is_running_after_a_crash)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up_lazy_flusher();
	id = rig_create(BASE); /* answered by what was observed */
	test_cluster_crash();
	path = xasprintf("/v1/sandboxes/%s", id);
	ask_until_answered(path);
	T_STR(rig_field("observed"), "running");
	T_STR(rig_field("isolation.level"), "software");
	rig_down();
}

TEST(a_sandbox_seen_ended_is_ended_after_a_crash)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up_lazy_flusher();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	test_cluster_crash();
	free(path);
	path = xasprintf("/v1/sandboxes/%s", id);
	ask_until_answered(path);
	T_STR(rig_field("observed"), "ended");
	T_STR(rig_field("end.reason"), "request");
	rig_down();
}

TEST(a_sandbox_that_its_node_lost_stays_ended_after_a_crash)
{
	owned_str id = NULL;
	owned_str path = NULL;
	owned_str sql = NULL;

	rig_up_lazy_flusher();
	id = rig_create(BASE);
	sql = xasprintf("SET ROLE caisson_controller; "
			"SELECT caisson.sandbox_gone('n1', '%s', 'ended', "
			"'oom', 'x')",
			id);
	test_cluster_sql(sql);
	test_cluster_crash();
	path = xasprintf("/v1/sandboxes/%s", id);
	ask_until_answered(path);
	T_STR(rig_field("state"), "ended");
	T_STR(rig_field("end.reason"), "oom");
	rig_down();
}

TEST(a_revoked_key_stays_revoked_after_a_crash)
{
	owned_str secret = NULL;
	owned_str path = NULL;

	rig_up_lazy_flusher();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"x\",\"role\":\"developer\"}"),
	      201);
	secret = xstrdup(rig_field("secret"));
	path = xasprintf("/v1/keys/%s", rig_field("id"));
	T_INT(ASK("DELETE", path, OPERATOR), 200);
	test_cluster_crash();
	ask_until_answered("/v1/whoami");
	T_INT(ASK("GET", "/v1/whoami", secret), 401);
	rig_down();
}
