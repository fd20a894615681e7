/* SPDX-License-Identifier: Apache-2.0 */

/* Events, webhooks, audit and usage as a client of the control listener sees
 * them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/h-audit-acting.h"
#include "api/h-event-cursor.h"
#include "api/h-usage.h"
#include "api/h-webhook-body.h"
#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "db/test-cluster.h"
#include "net/json.h"
#include "tls/digest.h"

#define ADMIN "e2b_5555555555555555555555555555555555555555"

static void admin_key(void)
{
	static bool done;
	char hex[DIGEST_HEX];
	owned_str sql = NULL;

	if (done)
		return;
	digest_sha256_hex(ADMIN, strlen(ADMIN), hex);
	sql = xasprintf("SELECT caisson.bootstrap('default', 'default', "
			"'admin', 'admin', left('%s', 12), '%s')",
			ADMIN, hex);
	test_cluster_sql(sql);
	done = true;
}

static void up(void)
{
	rig_up();
	admin_key();
}

static size_t n_items(void)
{
	return json_array_size(json_object_get(rig_body, "items"));
}

static const char *item(size_t i, const char *name)
{
	const char *s = json_string_value(json_object_get(
	    json_array_get(json_object_get(rig_body, "items"), i), name));

	return s ? s : "";
}

/* The cursor of the newest event that is readable now. */
static char *newest(void)
{
	char *cursor = xstrdup("");
	owned_str path = NULL;

	for (;;) {
		free(path);
		path = xasprintf("/v1/events?limit=200&after=%s", cursor);
		T_INT(ASK("GET", path, OPERATOR), 200);
		if (!n_items())
			return cursor;
		free(cursor);
		cursor = xstrdup(item(n_items() - 1, "cursor"));
	}
}

/* ---- pages ---- */

TEST(a_life_is_told_in_order_with_actor_operation_and_trace)
{
	static const char *const want[] = {
		"sandbox.created", "operation.started", "operation.finished",
		"sandbox.running", "operation.started", "operation.finished",
		"sandbox.ended",
	};
	owned_str id = NULL;
	owned_str path = NULL;
	size_t at = 0;

	up();
	id = rig_create("{\"template\":\"base\",\"labels\":{\"a\":\"b\"}}");
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	free(path);
	path = xasprintf("/v1/events?sandbox=%s", id);
	T_INT(ASK("GET", path, VIEWER), 200);
	for (size_t i = 0; i < n_items() && at < ARRAY_SIZE(want); i++)
		at += strcmp(item(i, "type"), want[at]) == 0;
	T_INT(at, ARRAY_SIZE(want));
	T_TRUE(id_valid(item(0, "id"), "evt_", 20));
	T_TRUE(id_valid(item(0, "actor"), "key_", 20));
	T_INT(strlen(item(0, "trace")), 32);
	T_TRUE(id_valid(item(1, "operation"), "op_", 20));
	T_STR(json_string_value(json_object_get(
		  json_object_get(
		      json_array_get(json_object_get(rig_body, "items"),
				     n_items() - 1),
		      "data"),
		  "reason")),
	      "request");
	rig_down();
}

TEST(pages_of_one_are_the_same_as_one_page)
{
	struct buf all, single;
	owned_str after = NULL;
	owned_str path = NULL;
	owned_str id = NULL;
	owned_str start = NULL;

	up();
	start = newest();
	id = rig_create(BASE);
	buf_init(&all, 0);
	buf_init(&single, 0);
	path = xasprintf("/v1/events?after=%s&limit=200", start);
	T_INT(ASK("GET", path, OPERATOR), 200);
	for (size_t i = 0; i < n_items(); i++)
		buf_printf(&all, "%s\n", item(i, "id"));
	T_TRUE(n_items() >= 4);
	after = xstrdup(start);
	for (int k = 0; k < 50; k++) {
		free(path);
		path = xasprintf("/v1/events?after=%s&limit=1", after);
		T_INT(ASK("GET", path, OPERATOR), 200);
		if (!n_items())
			break;
		buf_printf(&single, "%s\n", item(0, "id"));
		free(after);
		after = xstrdup(item(0, "cursor"));
	}
	T_STR(buf_cstr(&single), buf_cstr(&all));
	buf_fini(&all);
	buf_fini(&single);
	rig_down();
}

TEST(cursors_types_and_sandboxes_that_make_no_sense_are_400)
{
	up();
	T_INT(ASK("GET", "/v1/events?after=x", VIEWER), 400);
	T_STR(rig_field("error.code"), "bad_cursor");
	T_INT(ASK("GET",
		  "/v1/events?after=e000000000000000000000000000000000000",
		  VIEWER),
	      400);
	T_INT(ASK("GET", "/v1/events?follow=1&after=nonsense", VIEWER), 400);
	T_STR(rig_field("error.code"), "bad_cursor");
	T_INT(ASK("GET", "/v1/events?type=sandbox", VIEWER), 400);
	T_INT(ASK("GET", "/v1/events?type=x.%27%3B--", VIEWER), 400);
	T_INT(ASK("GET", "/v1/events?sandbox=1%27%20or%201", VIEWER), 400);
	T_INT(ASK("GET", "/v1/events?follow=2", VIEWER), 400);
	T_INT(ASK("GET", "/v1/events", NULL), 401);
	rig_down();
}

TEST(another_tenant_sees_nothing_and_only_operators_see_nodes)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = rig_create(BASE);
	path = xasprintf("/v1/events?sandbox=%s", id);
	T_INT(ASK("GET", path, STRANGER), 200);
	T_INT(n_items(), 0);
	T_INT(ASK("GET", "/v1/events?type=node.*", DEV), 200);
	T_INT(n_items(), 0);
	T_INT(ASK("GET", "/v1/events?type=node.*", ADMIN), 200);
	T_INT(n_items(), 0);
	T_INT(ASK("GET", "/v1/events?type=node.*", OPERATOR), 200);
	T_TRUE(n_items() > 0);
	T_STR(item(0, "type"), "node.up");
	rig_down();
}

/* ---- following ---- */

static bool spin_for(struct call *c, const char *needle)
{
	for (int i = 0; i < 3000; i++) {
		const char *text = buf_cstr(&c->body);

		if (text && strstr(text, needle))
			return true;
		if (c->done)
			return false;
		loop_once(rig_loop, 10);
	}
	return false;
}

/* How often a line begins with "data: ". */
static unsigned n_data(struct call *c)
{
	const char *p = buf_cstr(&c->body);
	unsigned n = 0;

	while (p && (p = strstr(p, "\ndata: ")) != NULL) {
		n++;
		p++;
	}
	return n;
}

TEST(a_stream_tells_what_happens_and_resumes_behind_the_last_id)
{
	owned_str id = NULL;
	owned_str last = NULL;
	struct call c;
	const char *p;

	up();
	rig_send(&c,
		 &(struct ask){ "GET", "/v1/events?follow=1&after=now", DEV });
	T_TRUE(spin_for(&c, ": events"));
	T_INT(c.status, 200);
	T_STR(c.type, "text/event-stream");
	id = rig_create(BASE);
	T_TRUE(spin_for(&c, "sandbox.running"));
	T_HAS(buf_cstr(&c.body), id);
	p = strstr(buf_cstr(&c.body), "id: e");
	T_TRUE(p != NULL);
	last = xasprintf("%.37s", p + 4);
	rig_end(&c);
	/* from the first event on: that one is not told again */
	rig_send(&c, &(struct ask){ "GET", "/v1/events?follow=1", DEV,
				    .name = "last-event-id", .value = last });
	T_TRUE(spin_for(&c, "sandbox.running"));
	T_TRUE(!strstr(buf_cstr(&c.body), last));
	T_TRUE(!strstr(buf_cstr(&c.body), "sandbox.created"));
	rig_end(&c);
	rig_down();
}

TEST(many_followers_each_get_every_event_once)
{
	enum { N = 20 };
	owned_str id = NULL;
	struct call c[N];

	up();
	for (int i = 0; i < N; i++)
		rig_send(&c[i],
			 &(struct ask){ "GET",
					"/v1/events?follow=1&after=now&type="
					"sandbox.*",
					DEV, .h2 = i % 2 });
	for (int i = 0; i < N; i++)
		T_TRUE(spin_for(&c[i], ": events"));
	for (int k = 0; k < 3; k++) { /* the node has four places */
		free(id);
		id = rig_create(BASE);
	}
	rig_spin(800);
	for (int i = 0; i < N; i++) {
		T_INT(n_data(&c[i]), 6); /* created and running, once */
		rig_end(&c[i]);
	}
	rig_down();
}

TEST(a_follower_from_the_beginning_reads_pages_and_then_goes_on_live)
{
	owned_str id = NULL;
	owned_str start = NULL;
	owned_str path = NULL;
	struct call c;

	up();
	start = newest();
	test_cluster_sql(
	    "SELECT caisson.event_add(p.tenant, p.id, 'test.bulk', NULL, NULL, "
	    "'t', NULL, jsonb_build_object('i', i)) FROM caisson.projects p "
	    "JOIN caisson.tenants t ON t.id = p.tenant, generate_series(1, "
	    "350) i WHERE t.name = 'default'");
	path = xasprintf("/v1/events?follow=1&after=%s&type=test.*,sandbox.*",
			 start);
	rig_send(&c, &(struct ask){ "GET", path, DEV });
	T_TRUE(spin_for(&c, "\"i\": 350"));
	id = rig_create(BASE);
	T_TRUE(spin_for(&c, "sandbox.running"));
	T_INT(n_data(&c), 352);
	rig_end(&c);
	rig_down();
}

TEST(a_reader_that_stops_loses_nothing_and_holds_nobody_up)
{
	owned_str start = NULL;
	owned_str path = NULL;
	struct call slow, quick;

	up();
	start = newest();
	path = xasprintf("/v1/events?follow=1&after=%s&type=test.*", start);
	rig_send(&slow, &(struct ask){ "GET", path, DEV, .h2 = true });
	rig_send(&quick, &(struct ask){ "GET", path, DEV, .h2 = true });
	T_TRUE(spin_for(&slow, ": events") && spin_for(&quick, ": events"));
	slow.paused = true;
	for (int k = 0; k < 4; k++) {
		test_cluster_sql(
		    "SELECT caisson.event_add(p.tenant, p.id, 'test.bulk', "
		    "NULL, NULL, 't', NULL, jsonb_build_object('x', repeat('y',"
		    " 1500))) FROM caisson.projects p JOIN caisson.tenants t "
		    "ON t.id = p.tenant, generate_series(1, 200) i "
		    "WHERE t.name = 'default'");
		rig_spin(300);
	}
	for (int i = 0; i < 3000 && quick.received < 1200000; i++)
		loop_once(rig_loop, 10);
	rig_spin(1000); /* the rest of it */
	T_TRUE(quick.received > 1000000);
	T_TRUE(slow.received < 400000);
	rig_resume(&slow);
	for (int i = 0; i < 2000 && slow.received < quick.received; i++)
		loop_once(rig_loop, 10);
	T_INT(slow.received, quick.received);
	rig_end(&slow);
	rig_end(&quick);
	rig_down();
}

TEST(a_revoked_key_ends_its_streams)
{
	owned_str secret = NULL;
	owned_str path = NULL;
	struct call c;

	up();
	T_INT(ASK("POST", "/v1/keys", ADMIN,
		  "{\"name\":\"s\",\"role\":\"viewer\"}"),
	      201);
	secret = xstrdup(rig_field("secret"));
	path = xasprintf("/v1/keys/%s", rig_field("id"));
	rig_send(&c, &(struct ask){ "GET", "/v1/events?follow=1", secret });
	T_TRUE(spin_for(&c, ": events"));
	T_INT(ASK("DELETE", path, ADMIN), 200);
	for (int i = 0; i < 2000 && !c.done; i++)
		loop_once(rig_loop, 10);
	T_TRUE(c.done && c.cut);
	rig_end(&c);
	rig_down();
}

/* ---- webhooks ---- */

#define HOOK "{\"url\":\"https://example.org/h\",\"types\":[\"sandbox.*\"]}"

TEST(a_webhook_is_made_read_changed_and_deleted)
{
	owned_str path = NULL;
	owned_str secret = NULL;

	up();
	T_INT(ASK("POST", "/v1/webhooks", ADMIN, HOOK), 201);
	secret = xstrdup(rig_field("secret"));
	T_TRUE(strncmp(secret, "whsec_", 6) == 0 && strlen(secret) == 54);
	path = xasprintf("/v1/webhooks/%s", rig_field("id"));
	T_INT(ASK("GET", path, ADMIN), 200);
	T_STR(rig_field("state"), "active");
	T_TRUE(!strstr(buf_cstr(&rig_last.body), secret));
	T_INT(ASK("PATCH", path, ADMIN,
		  "{\"secrets\":[\"0123456789abcdef\",\"fedcba9876543210\"],"
		  "\"types\":[\"*\"],\"state\":\"disabled\"}"),
	      200);
	T_STR(rig_field("state"), "disabled");
	T_INT(json_integer_value(json_object_get(rig_body, "secrets")), 2);
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "0123456789abcdef"));
	T_INT(ASK("PATCH", path, ADMIN, "{\"state\":\"active\"}", "if-match",
		  "\"1\""),
	      412);
	T_INT(ASK("DELETE", path, ADMIN), 200);
	T_INT(ASK("GET", path, ADMIN), 404);
	T_INT(ASK("DELETE", path, ADMIN), 404);
	rig_down();
}

TEST(a_foreign_webhook_is_404_on_every_verb_and_a_developer_has_none)
{
	owned_str path = NULL;
	owned_str sub = NULL;

	up();
	T_INT(ASK("POST", "/v1/webhooks", DEV, HOOK), 403);
	T_INT(ASK("POST", "/v1/webhooks", ADMIN, HOOK), 201);
	path = xasprintf("/v1/webhooks/%s", rig_field("id"));
	T_INT(ASK("GET", path, STRANGER), 404);
	T_INT(ASK("PATCH", path, STRANGER, "{\"state\":\"disabled\"}"), 404);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	sub = xasprintf("%s/deliveries", path);
	T_INT(ASK("GET", sub, STRANGER), 404);
	free(sub);
	sub = xasprintf("%s/test", path);
	T_INT(ASK("POST", sub, STRANGER), 404);
	T_INT(ASK("GET", path, ADMIN), 200);
	T_STR(rig_field("state"), "active");
	rig_down();
}

TEST(urls_that_point_inside_are_refused)
{
	static const char *const bad[] = {
		"http://127.0.0.1:9000/",
		"http://169.254.169.254/",
		"http://10.0.0.1/",
		"http://[::1]:8080/",
		"http://[::ffff:8.8.8.8]/",
		"http://[64:ff9b::a9fe:a9fe]/",
		"http://2130706433/",
		"http://0x7f.1/",
		"http://127.1/",
		"http://localhost:8080/",
		"ftp://example.org/",
		"http://a@example.org/",
		"http://example.org:22/",
		"",
	};

	up();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned_str body =
		    xasprintf("{\"url\":\"%s\",\"types\":[\"*\"]}", bad[i]);
		int status = ASK("POST", "/v1/webhooks", ADMIN, body);

		if (status != 400 && status != 403)
			test_fail(__FILE__, __LINE__, "%s: %d", bad[i], status);
		T_STR(rig_field("error.field"), "url");
	}
	rig_down();
}

TEST(bodies_of_webhooks_are_read_strictly)
{
	static const char *const bad[] = {
		"{\"url\":\"https://e.org/\"}",
		"{\"types\":[\"*\"]}",
		"{\"url\":\"https://e.org/\",\"types\":[]}",
		"{\"url\":\"https://e.org/\",\"types\":[\"x\"]}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],\"x\":1}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],"
		"\"secrets\":[]}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],"
		"\"secrets\":[\"short\"]}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],"
		"\"secrets\":[\"0123456789abcdef\",\"0123456789abcdef\","
		"\"0123456789abcdef\"]}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],"
		"\"labels\":{}}",
		"{\"url\":\"https://e.org/\",\"types\":[\"a.b\"],"
		"\"state\":\"active\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned_json v = json_loads(bad[i], 0, NULL);
		struct body_webhook b;
		struct fault f;

		T_TRUE(v != NULL);
		if (body_webhook(v, false, &b, &f) == 0)
			test_fail(__FILE__, __LINE__, "%s passed", bad[i]);
		T_INT(fault_status(f.code), 400);
	}
}

TEST(a_test_delivery_waits_for_the_controller_and_may_be_sent_again)
{
	owned_str path = NULL;
	owned_str sub = NULL;

	up();
	T_INT(ASK("POST", "/v1/webhooks", ADMIN, HOOK), 201);
	path = xasprintf("/v1/webhooks/%s", rig_field("id"));
	sub = xasprintf("%s/test", path);
	T_INT(ASK("POST", sub, ADMIN), 202);
	T_STR(rig_field("state"), "pending");
	T_STR(rig_field("type"), "webhook.test");
	free(sub);
	sub = xasprintf("%s/deliveries/%s/redeliver", path, rig_field("id"));
	T_INT(ASK("POST", sub, ADMIN), 202);
	free(sub);
	sub = xasprintf("%s/deliveries", path);
	T_INT(ASK("GET", sub, ADMIN), 200);
	T_INT(n_items(), 1);
	T_INT(ASK("PATCH", path, ADMIN, "{\"state\":\"disabled\"}"), 200);
	free(sub);
	sub = xasprintf("%s/test", path);
	T_INT(ASK("POST", sub, ADMIN), 409);
	rig_down();
}

/* ---- audit ---- */

static void chain(void)
{
	test_cluster_sql("SELECT caisson.audit_chain(10000)");
}

TEST(what_was_done_is_recorded_with_key_request_and_trace)
{
	owned_str path = NULL;
	owned_str id = NULL;
	owned_str request = NULL;

	up();
	id = rig_create(BASE);
	request = xstrdup(rig_last.request_id);
	chain();
	path = xasprintf("/v1/audit?target=%s", id);
	T_INT(ASK("GET", path, ADMIN), 200);
	T_INT(n_items(), 1);
	T_STR(item(0, "action"), "sandbox.create");
	T_STR(item(0, "outcome"), "done");
	T_STR(item(0, "actor_name"), "developer");
	T_TRUE(id_valid(item(0, "actor"), "key_", 20));
	T_STR(item(0, "request"), request);
	T_INT(strlen(item(0, "hash")), 64);
	T_INT(ASK("GET", "/v1/audit", DEV), 403);
	T_INT(ASK("GET", path, STRANGER), 200);
	T_INT(n_items(), 0);
	rig_down();
}

TEST(what_was_refused_is_recorded_once_with_a_count)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s", id);
	for (int i = 0; i < 3; i++)
		T_INT(ASK("DELETE", path, STRANGER), 404);
	T_INT(ASK("POST", "/v1/sandboxes", VIEWER, BASE), 403);
	rig_spin(2500);
	chain();
	free(path);
	path = xasprintf("/v1/audit?target=%s&outcome=refused", id);
	T_INT(ASK("GET", path, STRANGER), 200);
	T_INT(n_items(), 1);
	T_STR(item(0, "action"), "DELETE /v1/sandboxes/{id}");
	T_STR(item(0, "code"), "not_found");
	T_HAS(item(0, "detail"), "times=3");
	T_HAS(item(0, "detail"), "from=127.0.0.1");
	T_INT(ASK("GET", "/v1/audit?outcome=refused", ADMIN), 200);
	T_STR(item(0, "code"), "role_required");
	rig_down();
}

TEST(lines_in_the_log_are_bounded_and_without_control_characters)
{
	struct buf path;

	up();
	buf_init(&path, 0);
	buf_puts(&path, "/v1/sandboxes/x%0d%0a%1b%5b31m%e2%80%a8%c2%9b");
	for (int i = 0; i < 200; i++)
		buf_puts(&path, "z");
	T_INT(ASK("GET", buf_cstr(&path), STRANGER), 404);
	buf_fini(&path);
	rig_spin(2500);
	chain();
	T_INT(ASK("GET", "/v1/audit?outcome=refused&limit=1", STRANGER), 200);
	T_TRUE(strncmp(item(0, "target"), "x???[31m??z", 11) == 0);
	rig_down();
}

TEST(the_head_follows_and_the_cluster_is_the_operators)
{
	up();
	chain();
	T_INT(ASK("GET", "/v1/audit/head", ADMIN), 200);
	T_INT(strlen(rig_field("hash")), 64);
	T_INT(ASK("GET", "/v1/audit/head?cluster=1", ADMIN), 403);
	T_INT(ASK("GET", "/v1/audit/head?cluster=1", OPERATOR), 200);
	T_INT(ASK("GET", "/v1/audit?order=oldest&limit=2", ADMIN), 200);
	T_INT(json_integer_value(json_object_get(
		  json_array_get(json_object_get(rig_body, "items"), 0), "n")),
	      1);
	T_INT(ASK("GET", "/v1/audit?order=sideways", ADMIN), 400);
	rig_down();
}

TEST(the_actor_is_put_before_a_statement_of_that_form_only)
{
	owned_str a =
	    acting_sql("SELECT k, k ->> 'p' FROM caisson.f($1, $2) AS k", 2);

	T_STR(a, "SELECT k, k ->> 'p' FROM caisson.acting($1, $3, $4, $5, $6) "
		 "CROSS JOIN LATERAL caisson.f(acting_tenant, $2) AS k");
	T_TRUE(!acting_sql("SELECT caisson.f($1)", 1));
	T_TRUE(!acting_sql("SELECT x FROM caisson.f($2, $1)", 2));
	T_TRUE(!acting_sql("SELECT x FROM caisson.f($1, $1)", 1));
	T_TRUE(!acting_sql("SELECT x FROM caisson.f($12, $1)", 12));
	T_TRUE(!acting_sql("UPDATE caisson.x SET a = 1", 0));
}

/* ---- usage ---- */

TEST(samples_become_a_series_and_usage)
{
	owned_str id = NULL;
	owned_str path = NULL;
	owned_str sql = NULL;
	json_t *one;

	up();
	id = rig_create("{\"template\":\"base\",\"labels\":{\"team\":\"x\"}}");
	sql = xasprintf(
	    "SELECT caisson.samples_put('n1', 'inc1', 3, jsonb_build_array("
	    "jsonb_build_object('seq', 1, 'at', now() - interval '30 s', "
	    "'sandbox', '%s', 'cpu_ms', 1000, 'memory_bytes', 104857600, "
	    "'disk_bytes', 1048576, 'net_rx_bytes', 5, 'net_tx_bytes', 7),"
	    "jsonb_build_object('seq', 2, 'at', now() - interval '20 s', "
	    "'sandbox', '%s', 'cpu_ms', 6000, 'memory_bytes', 209715200, "
	    "'disk_bytes', 2097152, 'net_rx_bytes', 10, 'net_tx_bytes', 20)))",
	    id, id);
	test_cluster_sql(sql);
	test_cluster_sql(sql); /* the same page again changes nothing */
	path = xasprintf("/v1/sandboxes/%s/metrics?step_s=10", id);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_TRUE(n_items() >= 1 && n_items() <= 2);
	T_INT(json_integer_value(json_object_get(
		  json_object_get(rig_body, "current"), "cpu_ms")),
	      6000);
	T_INT(ASK("GET", path, STRANGER), 404);
	T_INT(ASK("GET", "/v1/usage?group=label:team", ADMIN), 200);
	one = json_array_get(json_object_get(rig_body, "items"), 0);
	T_STR(json_string_value(json_object_get(one, "group")), "x");
	T_TRUE(json_number_value(json_object_get(one, "cpu_s")) == 6.0);
	T_INT(json_integer_value(json_object_get(one, "egress_bytes")), 20);
	T_INT(ASK("GET", "/v1/usage?group=sandbox", STRANGER), 200);
	T_INT(n_items(), 0);
	free(path);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(json_integer_value(json_object_get(
		  json_object_get(
		      json_object_get(json_object_get(rig_body, "sandbox"),
				      "end"),
		      "last_usage"),
		  "peak_memory_bytes")),
	      209715200);
	rig_down();
}

TEST(usage_and_series_refuse_what_makes_no_sense)
{
	up();
	T_INT(ASK("GET", "/v1/usage?group=tenant", ADMIN), 400);
	T_INT(ASK("GET", "/v1/usage?from=yesterday", ADMIN), 400);
	T_INT(ASK("GET",
		  "/v1/usage?from=2026-12-02T00:00:00Z&to=2026-12-01T00:00:00Z",
		  ADMIN),
	      400);
	T_INT(ASK("GET", "/v1/sandboxes/x/metrics?step_s=1", VIEWER), 400);
	T_INT(ASK("GET",
		  "/v1/sandboxes/x/metrics?step_s=10&from=2020-01-01T00:00:00Z",
		  VIEWER),
	      400);
	T_INT(ASK("GET", "/v1/sandboxes/x/metrics?step_s=10", VIEWER), 404);
	rig_down();
}

TEST(times_are_read_strictly)
{
	int64_t ms;

	T_TRUE(time_parse("1970-01-01T00:00:00Z", &ms) && ms == 0);
	T_TRUE(time_parse("2026-12-01T10:00:00.5Z", &ms));
	T_INT(ms, INT64_C(1796119200500));
	T_TRUE(time_parse("2024-02-29T00:00:00Z", &ms));
	T_TRUE(!time_parse("2025-02-29T00:00:00Z", &ms));
	T_TRUE(!time_parse("2026-13-01T00:00:00Z", &ms));
	T_TRUE(!time_parse("2026-12-01T24:00:00Z", &ms));
	T_TRUE(!time_parse("2026-12-01T10:00:00", &ms));
	T_TRUE(!time_parse("2026-12-01T10:00:00+01:00", &ms));
	T_TRUE(!time_parse("2026-12-01T10:00:00.Z", &ms));
	T_TRUE(!time_parse("", &ms));
}

TEST(cursors_of_events_are_checked)
{
	struct event_pos p = { .xid = 12345, .seq = 678 }, q;
	char text[EVENT_CURSOR_TEXT];

	event_cursor_encode(&p, text);
	T_TRUE(event_cursor_decode(text, &q));
	T_TRUE(q.xid == p.xid && q.seq == p.seq);
	text[5] = text[5] == '0' ? '1' : '0';
	T_TRUE(!event_cursor_decode(text, &q));
	T_TRUE(!event_cursor_decode("", &q));
	T_TRUE(event_pos_after(&(struct event_pos){ 2, 1 },
			       &(struct event_pos){ 1, 9 }));
	T_TRUE(!event_pos_after(&p, &p));
	T_TRUE(event_type_matches("sandbox.*", "sandbox.ended"));
	T_TRUE(!event_type_matches("sandbox.*", "sandboxes.ended"));
	T_TRUE(!event_type_valid("sandbox.*", false));
	T_TRUE(!event_type_valid("a.b.c", true));
}
