/* SPDX-License-Identifier: Apache-2.0 */

/* What a client of the control listener sees, and what must not happen behind.
 */

#include <stdio.h>
#include <string.h>

#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

/* ---- who may ask ---- */

TEST(health_needs_no_key_and_whoami_does)
{
	rig_up();
	T_INT(ASK("GET", "/healthz"), 200);
	T_INT(ASK("GET", "/readyz"), 200);
	T_INT(ASK("GET", "/v1/whoami"), 401);
	T_STR(rig_field("error.code"), "unauthenticated");
	T_STR(rig_field("error.request_id"), rig_last.request_id);
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200);
	T_STR(rig_field("key.role"), "viewer");
	T_STR(rig_field("tenant.name"), "default");
	T_STR(rig_field("weakest_isolation"), "software");
	rig_down();
}

TEST(a_key_works_as_x_api_key_over_http2_too)
{
	rig_up();
	T_INT(ASK("GET", "/v1/whoami", NULL, NULL, "x-api-key", VIEWER,
		  .h2 = true),
	      200);
	rig_down();
}

TEST(a_key_with_a_known_prefix_and_another_secret_is_refused)
{
	rig_up();
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200); /* now cached */
	T_INT(ASK("GET", "/v1/whoami",
		  "e2b_2222222200000000000000000000000000000000"),
	      401);
	rig_down();
}

TEST(a_foreign_host_or_origin_is_refused_before_the_key_is_looked_at)
{
	rig_up();
	T_INT(ASK("GET", "/v1/whoami", VIEWER, NULL, "origin",
		  "https://evil.example"),
	      403);
	T_STR(rig_field("error.code"), "policy_denied");
	rig_down();
}

TEST(roles_are_kept)
{
	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes", VIEWER, BASE), 403);
	T_STR(rig_field("error.code"), "role_required");
	T_INT(ASK("GET", "/metrics", DEV), 403);
	T_INT(ASK("GET", "/metrics", OPERATOR), 200);
	T_INT(ASK("GET", "/v1/nodes", OPERATOR), 200);
	rig_down();
}

TEST(unknown_paths_wrong_verbs_and_planned_routes_are_told_apart)
{
	rig_up();
	T_INT(ASK("GET", "/v1/nonsense", DEV), 404);
	T_INT(ASK("PUT", "/v1/sandboxes", DEV), 405);
	T_STR(rig_last.allow, "GET, POST");
	T_INT(ASK("POST", "/v1/sandboxes/sb1/pause", DEV), 422);
	T_STR(rig_field("error.code"), "not_supported");
	T_INT(ASK("GET", "/v1/sandboxes/x/files?path=/a", DEV), 404);
	rig_down();
}

/* ---- create and end ---- */

TEST(create_waits_and_answers_the_running_sandbox)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create("{\"template\":\"base\",\"name\":\"t1\",\"labels\":"
			"{\"k\":\"v\"},\"env\":{\"SECRET\":\"x\"}}");
	T_STR(rig_field("sandbox.state"), "running");
	T_STR(rig_field("operation.state"), "succeeded");
	T_STR(rig_field("sandbox.isolation.level"), "software");
	T_TRUE(id_valid(id, "sb", 20));
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "SECRET"));
	T_HAS(rig_fake.last_ensure, "\"incarnation\":\"inc1\"");
	T_HAS(rig_fake.last_ensure, "\"hostname\":\"t1\"");
	T_HAS(rig_fake.last_ensure, "\"memory_mib\":256");
	T_TRUE(!strstr(rig_fake.last_ensure, "provenance"));
	/* one reads one's own writes */
	T_INT(ASK("GET", "/v1/sandboxes/@t1", VIEWER), 200);
	T_STR(rig_field("id"), id);
	T_INT(ASK("DELETE", "/v1/sandboxes/@t1?wait_s=60", DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	T_STR(rig_field("sandbox.end.reason"), "request");
	rig_down();
}

TEST(create_without_waiting_is_202_with_location)
{
	owned_str op = NULL;
	char path[100];

	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	T_STR(rig_field("sandbox.state"), "starting");
	op = xstrdup(rig_field("operation.id"));
	snprintf(path, sizeof(path), "/v1/operations/%s", op);
	T_STR(rig_last.location, path);
	snprintf(path, sizeof(path), "/v1/operations/%s?wait_s=60", op);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_STR(rig_field("operation.state"), "succeeded");
	T_STR(rig_field("sandbox.state"), "running");
	rig_down();
}

TEST(delete_twice_is_200_and_of_a_foreign_tenant_404)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s", id);
	T_INT(ASK("GET", path, STRANGER), 404);
	free(path);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	T_INT(rig_fake.n_end, 1);
	T_INT(ASK("DELETE", "/v1/sandboxes/sbaaaaaaaaaaaaaaaaaaaa", DEV), 404);
	rig_down();
}

TEST(a_name_is_unique_while_alive)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create("{\"template\":\"base\",\"name\":\"once\"}");
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"name\":\"once\"}"),
	      409);
	T_STR(rig_field("error.code"), "name_taken");
	T_STR(rig_field("error.field"), "name");
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	free(rig_create("{\"template\":\"base\",\"name\":\"once\"}"));
	rig_down();
}

TEST(the_same_key_and_body_replay_and_another_body_is_409)
{
	owned_str first = NULL;

	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE,
		  "idempotency-key", "k1"),
	      201);
	first = xstrdup(rig_field("sandbox.id"));
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE,
		  "idempotency-key", "k1"),
	      201);
	T_STR(rig_field("sandbox.id"), first);
	T_STR(rig_last.replayed, "true");
	T_INT(rig_fake.n_ensure, 1);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"base:x\"}",
		  "idempotency-key", "k1"),
	      409);
	T_STR(rig_field("error.code"), "idempotency_mismatch");
	rig_down();
}

TEST(a_replay_while_the_first_still_runs_joins_it)
{
	struct call first;

	rig_up();
	rig_fake.mode = FAKE_HANGS;
	rig_send(&first, &(struct ask){ "POST", "/v1/sandboxes?wait_s=60", DEV,
					BASE, "idempotency-key", "k2" });
	while (!rig_fake.n_ensure)
		loop_once(rig_loop, 20);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE, "idempotency-key", "k2"),
	      202);
	T_STR(rig_last.replayed, "true");
	T_STR(rig_field("operation.state"), "running");
	T_INT(rig_fake.n_ensure, 1);
	rig_end(&first);
	rig_down();
}

TEST(an_end_overtakes_a_create_that_hangs)
{
	owned_str id = NULL;
	owned_str op = NULL;
	owned_str path = NULL;

	rig_up();
	rig_fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	id = xstrdup(rig_field("sandbox.id"));
	op = xstrdup(rig_field("operation.id"));
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	free(path);
	path = xasprintf("/v1/operations/%s", op);
	T_INT(ASK("GET", path, DEV), 200);
	T_STR(rig_field("operation.state"), "cancelled");
	T_HAS(rig_field("operation.superseded_by"), "op_");
	rig_down();
}

TEST(a_create_that_outlives_wait_s_is_202)
{
	rig_up();
	rig_fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=1", DEV, BASE), 202);
	T_STR(rig_field("operation.state"), "running");
	rig_down();
}

TEST(a_node_that_refuses_is_a_typed_error_with_the_operation)
{
	rig_up();
	rig_fake.mode = FAKE_FULL;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 503);
	T_STR(rig_field("error.code"), "capacity");
	T_STR(rig_field("error.message"), "no slot is free");
	T_HAS(rig_field("error.operation"), "op_");
	rig_fake.mode = FAKE_GARBAGE;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 503);
	T_STR(rig_field("error.code"), "node_unavailable");
	rig_down();
}

TEST(a_node_with_a_new_incarnation_is_asked_again)
{
	rig_up();
	rig_fake.mode = FAKE_RESTARTED;
	free(rig_create(BASE));
	T_INT(rig_fake.n_ensure, 2);
	rig_down();
}

TEST(a_demand_for_hardware_isolation_is_refused_here)
{
	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"isolation\":\"hardware\"}"),
	      409);
	T_STR(rig_field("error.code"), "isolation_unavailable");
	T_INT(rig_fake.n_ensure, 0);
	rig_down();
}

TEST(an_unknown_template_is_404_and_a_bad_body_400)
{
	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"nope\"}"),
	      404);
	T_STR(rig_field("error.field"), "template");
	T_HAS(rig_field("error.message"), "nope");
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":"), 400);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"tmplate\":\"base\"}"), 400);
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"snapshot\":\"snp_1\"}"),
	      422);
	rig_down();
}

TEST(the_trace_of_the_client_reaches_the_node)
{
	const char *t =
	    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

	rig_up();
	T_INT(
	    ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE, "traceparent", t),
	    201);
	T_STR(rig_fake.last_traceparent, t);
	rig_down();
}

TEST(a_restarted_api_goes_on_reading_what_was_accepted)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	rig_fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	id = xstrdup(rig_field("sandbox.id"));
	rig_end(&rig_last);
	api_free(rig_api);
	rig_fake.mode = FAKE_GOOD;
	rig_api_start();
	rig_wait_node();
	path = xasprintf("/v1/sandboxes/%s", id);
	T_INT(ASK("GET", path, DEV), 200);
	T_STR(rig_field("state"), "starting");
	free(path);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	rig_down();
}

/* ---- lists ---- */

TEST(pages_follow_each_other_without_a_gap)
{
	char *ids[3];
	char path[160];
	int seen = 0;

	rig_up();
	for (int i = 0; i < 3; i++)
		ids[i] = rig_create("{\"template\":\"base\",\"labels\":"
				    "{\"list\":\"pages\"}}");
	snprintf(path, sizeof(path), "/v1/sandboxes?label=list=pages&limit=1");
	for (int i = 2; i >= 0; i--) {
		const json_t *item;

		T_INT(ASK("GET", path, VIEWER), 200);
		item = json_array_get(json_object_get(rig_body, "items"), 0);
		T_STR(json_string_value(json_object_get(item, "id")), ids[i]);
		seen++;
		snprintf(path, sizeof(path),
			 "/v1/sandboxes?label=list=pages&limit=1&after=%s",
			 rig_field("next"));
	}
	T_INT(seen, 3);
	T_TRUE(json_is_null(json_object_get(rig_body, "next")));
	T_INT(ASK("GET", "/v1/operations?after=s00", VIEWER), 400);
	T_STR(rig_field("error.code"), "bad_cursor");
	T_INT(ASK("GET", "/v1/operations?after=%00", VIEWER), 400);
	T_STR(rig_field("error.code"), "bad_cursor");
	for (int i = 0; i < 3; i++)
		free(ids[i]);
	rig_down();
}

/* ---- keys ---- */

TEST(a_key_is_shown_once_and_dies_at_once_when_revoked)
{
	owned_str secret = NULL;
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"ci\",\"role\":\"developer\"}", "idempotency-key",
		  "key1"),
	      201);
	secret = xstrdup(rig_field("secret"));
	id = xstrdup(rig_field("id"));
	T_INT(strlen(secret), 44);
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"ci\",\"role\":\"developer\"}", "idempotency-key",
		  "key1"),
	      201);
	T_STR(rig_field("id"), id);
	T_STR(rig_field("secret"), "");
	T_INT(ASK("GET", "/v1/whoami", secret), 200);
	path = xasprintf("/v1/keys/%s", id);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	T_INT(ASK("DELETE", path, OPERATOR), 200);
	T_INT(ASK("GET", "/v1/whoami", secret), 401);
	T_HAS(rig_field("error.message"), "revoked");
	T_INT(ASK("POST", "/v1/keys", STRANGER,
		  "{\"name\":\"up\",\"role\":\"operator\"}"),
	      403);
	rig_down();
}

/* ---- templates ---- */

#define HEX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BUILD                                                                  \
	"{\"from\":{\"artifacts\":{\"kernel\":\"" HEX "\",\"initramfs\":\""    \
	"sha256:" HEX "\",\"root\":\"sha256:" HEX "\"}},\"defaults\":"         \
	"{\"memory_mib\":300},\"provenance\":{\"by\":\"test\"}}"

TEST(a_build_registers_prepares_and_moves_the_tag)
{
	owned_str release = NULL;
	owned_str path = NULL;

	rig_up();
	T_INT(
	    ASK("POST", "/v1/templates/mine/builds?wait_s=60", OPERATOR, BUILD),
	    201);
	T_STR(rig_field("operation.state"), "succeeded");
	T_STR(rig_field("operation.progress.phase"), "ready");
	T_INT(rig_fake.n_prepare, 1);
	T_INT(ASK("GET", "/v1/templates/mine", VIEWER), 200);
	release = xstrdup(rig_field("release"));
	path = xasprintf("/v1/releases/%s", release);
	T_INT(ASK("GET", path, STRANGER), 200); /* public */
	T_STR(rig_field("manifest.kernel"), "sha256:" HEX);
	free(rig_create("{\"template\":\"mine\"}"));
	T_HAS(rig_fake.last_ensure, release);
	T_HAS(rig_fake.last_ensure, "\"memory_mib\":300");
	rig_down();
}

TEST(a_failed_build_moves_no_tag)
{
	rig_up();
	rig_fake.mode = FAKE_BUILD_FAILS;
	T_INT(
	    ASK("POST", "/v1/templates/bad/builds?wait_s=60", OPERATOR, BUILD),
	    404);
	T_HAS(rig_field("error.message"), "artifact root");
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"bad\"}"), 404);
	rig_down();
}
