/* SPDX-License-Identifier: Apache-2.0 */

/* Changing what is there: conditions, labels, lifetime, taking back, quotas,
 * cordons, tags, tenants; and sending a change twice. */

#include <stdio.h>
#include <string.h>

#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "db/test-cluster.h"

static char path[300];

static const char *at(const char *fmt, const char *id)
{
	char one[200];

	snprintf(one, sizeof(one), "%s", id);
	snprintf(path, sizeof(path), "/v1/%s%s", fmt, one);
	return path;
}

/* A number of the last body by path. */
static long long number(const char *name)
{
	const json_t *v = rig_body;
	char part[64];

	while (*name) {
		size_t n = strcspn(name, ".");

		snprintf(part, sizeof(part), "%.*s", (int)n, name);
		v = json_object_get(v, part);
		name += n + (name[n] == '.');
	}
	return json_is_integer(v) ? json_integer_value(v) : -1;
}

static size_t items(void)
{
	return json_array_size(json_object_get(rig_body, "items"));
}

/* ---- PATCH ---- */

TEST(labels_are_merged_and_a_null_removes_one)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create("{\"template\":\"base\",\"labels\":{\"a\":\"1\","
			"\"b\":\"2\"}}");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":null,\"c\":\"3\"}}"),
	      200);
	T_STR(rig_field("labels.a"), "");
	T_STR(rig_field("labels.b"), "2");
	T_STR(rig_field("labels.c"), "3");
	T_INT(number("generation"), 2);
	T_INT(number("observed_generation"), 2);
	T_STR(rig_last.etag, "\"2\"");
	rig_down();
}

TEST(a_patch_that_changes_nothing_makes_no_generation)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create("{\"template\":\"base\",\"labels\":{\"a\":\"1\"}}");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"1\"}}"),
	      200);
	T_INT(number("generation"), 1);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV, "{}"), 200);
	T_INT(number("generation"), 1);
	rig_down();
}

TEST(the_end_moves_with_ttl_and_null_takes_it_away)
{
	owned_str id = NULL;
	owned_str before = NULL;

	rig_up();
	id = rig_create(BASE);
	before = xstrdup(rig_field("sandbox.ends_at"));
	T_INT(strlen(before), 24);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"lifetime\":{\"ttl_s\":86400,\"on_expiry\":\"end\"}}"),
	      200);
	T_INT(number("lifetime.ttl_s"), 86400);
	T_TRUE(strcmp(rig_field("ends_at"), before) > 0);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"lifetime\":{\"ttl_s\":null}}"),
	      200);
	T_STR(rig_field("ends_at"), "");
	rig_down();
}

TEST(what_a_patch_cannot_do_yet_is_typed_and_changes_nothing)
{
	static const char *const later[] = {
		"{\"labels\":{\"x\":\"1\"},\"lifetime\":{\"idle_s\":5}}",
		"{\"lifetime\":{\"on_expiry\":\"pause\"}}",
		"{\"lifetime\":{\"wake_on_traffic\":true}}",
		"{\"snapshots\":{\"disk_every_s\":60}}",
	};
	owned_str id = NULL;

	rig_up();
	id = rig_create(BASE);
	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		T_INT(ASK("PATCH", at("sandboxes/", id), DEV, later[i]), 422);
		T_STR(rig_field("error.code"), "not_supported");
		T_TRUE(*rig_field("error.field"));
	}
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV, "{\"label\":{}}"), 400);
	T_HAS(rig_field("error.message"), "labels");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"lifetime\":{\"ttl_s\":0}}"),
	      400);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV, "{\"labels\":{\"x\":1}}"),
	      400);
	T_INT(ASK("GET", at("sandboxes/", id), DEV), 200);
	T_INT(number("generation"), 1);
	rig_down();
}

TEST(a_patch_during_the_create_does_not_lose_its_outcome)
{
	owned_str id = NULL;
	struct call first;

	rig_up();
	rig_fake.mode = FAKE_HANGS;
	rig_send(&first, &(struct ask){ "POST", "/v1/sandboxes", DEV, BASE });
	rig_wait(&first);
	{
		json_t *v = json_loads(buf_cstr(&first.body), 0, NULL);

		id = xstrdup(json_string_value(
		    json_object_get(json_object_get(v, "sandbox"), "id")));
		json_decref(v);
	}
	rig_end(&first);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"1\"}}"),
	      200);
	T_INT(number("generation"), 2);
	T_INT(number("observed_generation"), 0);
	{
		owned_str sql = xasprintf(
		    "SELECT caisson.sandbox_observe(NULL, o.id, 1, 'running', "
		    "'software', 'fake', 'x', NULL, NULL) FROM "
		    "caisson.operations o WHERE o.sandbox = '%s'",
		    id);

		test_cluster_sql(sql);
	}
	T_INT(ASK("GET", at("sandboxes/", id), DEV), 200);
	T_STR(rig_field("state"), "running");
	T_INT(number("observed_generation"), 2);
	rig_down();
}

TEST(what_is_over_is_not_changed)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create(BASE);
	T_INT(ASK("DELETE", at("sandboxes/", id), DEV), 202);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"1\"}}"),
	      409);
	T_STR(rig_field("error.code"), "wrong_state");
	T_INT(ASK("PATCH", "/v1/sandboxes/sbaaaaaaaaaaaaaaaaaaaa", DEV, "{}"),
	      404);
	rig_down();
}

/* ---- If-Match ---- */

TEST(a_condition_is_kept)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create(BASE);
	T_INT(ASK("GET", at("sandboxes/", id), DEV), 200);
	T_STR(rig_last.etag, "\"1\"");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"1\"}}", "if-match", "\"2\""),
	      412);
	T_STR(rig_field("error.code"), "generation_changed");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"1\"}}", "if-match", "\"1\""),
	      200);
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"2\"}}", "if-match", "*"),
	      200);
	T_INT(
	    ASK("DELETE", at("sandboxes/", id), DEV, NULL, "if-match", "\"1\""),
	    412);
	T_INT(ASK("DELETE", at("sandboxes/", id), DEV, NULL, "if-match", "3"),
	      400);
	T_STR(rig_field("error.field"), "If-Match");
	T_INT(
	    ASK("DELETE", at("sandboxes/", id), DEV, NULL, "if-match", "\"3\""),
	    202);
	rig_down();
}

TEST(a_condition_where_none_is_kept_is_refused)
{
	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE, "if-match", "\"1\""),
	      422);
	T_STR(rig_field("error.field"), "If-Match");
	rig_down();
}

/* ---- idempotency ---- */

TEST(a_change_sent_twice_is_made_once)
{
	owned_str id = NULL;
	const char *b = "{\"labels\":{\"a\":\"1\"}}";

	rig_up();
	id = rig_create(BASE);
	T_INT(
	    ASK("PATCH", at("sandboxes/", id), DEV, b, "idempotency-key", "p1"),
	    200);
	T_STR(rig_last.replayed, "");
	T_STR(rig_last.etag, "\"2\"");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV,
		  "{\"labels\":{\"a\":\"2\"}}"),
	      200);
	T_INT(
	    ASK("PATCH", at("sandboxes/", id), DEV, b, "idempotency-key", "p1"),
	    200);
	T_STR(rig_last.replayed, "true");
	T_STR(rig_field("labels.a"), "1"); /* the answer of then */
	T_STR(rig_last.etag, "\"2\"");
	T_INT(ASK("GET", at("sandboxes/", id), DEV), 200);
	T_STR(rig_field("labels.a"), "2");
	T_INT(ASK("PATCH", at("sandboxes/", id), DEV, "{}", "idempotency-key",
		  "p1"),
	      409);
	T_STR(rig_field("error.code"), "idempotency_mismatch");
	rig_down();
}

TEST(a_key_used_for_another_object_is_a_mismatch_not_a_replay)
{
	owned_str a = NULL;
	owned_str b = NULL;

	rig_up();
	a = rig_create(BASE);
	b = rig_create(BASE);
	T_INT(ASK("DELETE", at("sandboxes/", a), DEV, NULL, "idempotency-key",
		  "d1"),
	      202);
	T_INT(ASK("DELETE", at("sandboxes/", b), DEV, NULL, "idempotency-key",
		  "d1"),
	      409);
	T_INT(ASK("GET", at("sandboxes/", b), DEV), 200);
	T_STR(rig_field("state"), "running");
	snprintf(path, sizeof(path), "/v1/sandboxes/%s?wait_s=5", a);
	T_INT(ASK("DELETE", path, DEV, NULL, "idempotency-key", "d1"), 200);
	T_STR(rig_last.replayed, "true");
	rig_down();
}

TEST(a_refusal_gives_the_key_back)
{
	rig_up();
	T_INT(ASK("POST", "/v1/templates", DEV, "{\"name\":\"base2\"}"), 201);
	T_INT(ASK("POST", "/v1/templates", DEV, "{\"name\":\"base2\"}",
		  "idempotency-key", "t1"),
	      409);
	T_INT(ASK("POST", "/v1/templates", DEV, "{\"name\":\"base3\"}",
		  "idempotency-key", "t1"),
	      201);
	T_INT(ASK("POST", "/v1/templates", DEV, "{\"name\":\"base3\"}",
		  "idempotency-key", "t1"),
	      201);
	T_STR(rig_last.replayed, "true");
	T_STR(rig_last.etag, "\"1\"");
	rig_down();
}

TEST(a_second_request_waits_for_the_first)
{
	struct call c[4];
	int replays = 0;

	rig_up();
	for (int i = 0; i < 4; i++)
		rig_send(&c[i], &(struct ask){ "POST", "/v1/templates", DEV,
					       "{\"name\":\"four\"}",
					       "idempotency-key", "f1" });
	for (int i = 0; i < 4; i++) {
		rig_wait(&c[i]);
		T_INT(c[i].status, 201);
		replays += strcmp(c[i].replayed, "true") == 0;
		rig_end(&c[i]);
	}
	T_INT(replays, 3);
	rig_down();
}

TEST(a_key_longer_than_128_or_not_printable_is_400)
{
	char key[140];

	rig_up();
	memset(key, 'k', 129);
	key[129] = '\0';
	T_INT(ASK("POST", "/v1/templates", DEV, "{\"name\":\"x\"}",
		  "idempotency-key", key),
	      400);
	T_STR(rig_field("error.field"), "Idempotency-Key");
	rig_down();
}

/* ---- cancel ---- */

TEST(a_create_that_hangs_is_taken_back)
{
	owned_str op = NULL;
	owned_str id = NULL;

	rig_up();
	rig_fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	op = xstrdup(rig_field("operation.id"));
	id = xstrdup(rig_field("sandbox.id"));
	snprintf(path, sizeof(path), "/v1/operations/%s/cancel", op);
	T_INT(ASK("POST", path, STRANGER), 404);
	T_INT(ASK("POST", path, VIEWER), 403);
	T_INT(ASK("POST", path, DEV), 200);
	T_STR(rig_field("operation.state"), "cancelled");
	T_INT(ASK("POST", path, DEV), 200); /* again is the same */
	snprintf(path, sizeof(path), "/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(rig_field("sandbox.state"), "ended");
	T_INT(rig_fake.n_end, 1);
	rig_down();
}

TEST(what_is_done_and_what_ends_is_not_taken_back)
{
	owned_str op = NULL;

	rig_up();
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 201);
	op = xstrdup(rig_field("operation.id"));
	snprintf(path, sizeof(path), "/v1/operations/%s/cancel", op);
	T_INT(ASK("POST", path, DEV), 409);
	T_STR(rig_field("error.code"), "wrong_state");
	T_HAS(rig_field("error.message"), "succeeded");
	T_STR(rig_field("error.operation"), op);
	T_INT(ASK("POST", "/v1/operations/op_aaaaaaaaaaaaaaaaaaaa/cancel", DEV),
	      404);
	rig_down();
}

/* ---- lists ---- */

TEST(states_may_be_repeated_and_unknown_words_are_told)
{
	owned_str id = NULL;

	rig_up();
	id = rig_create("{\"template\":\"base\",\"labels\":{\"l\":\"st\"}}");
	T_INT(ASK("GET", "/v1/sandboxes?label=l=st&state=ended&state=running",
		  DEV),
	      200);
	T_INT(items(), 1);
	T_INT(ASK("GET", "/v1/sandboxes?label=l=st&state=ended", DEV), 200);
	T_INT(items(), 0);
	T_INT(ASK("GET", "/v1/sandboxes?state=gone", DEV), 400);
	T_HAS(rig_field("error.message"), "suspended");
	T_INT(ASK("GET", "/v1/sandboxes?state=", DEV), 400);
	T_INT(ASK("GET", "/v1/sandboxes?labels=l=st", DEV), 400);
	T_STR(rig_field("error.code"), "unknown_field");
	T_INT(ASK("GET", "/v1/operations?kind=create&state=succeeded&sandbox=x",
		  DEV),
	      200);
	T_INT(items(), 0);
	T_INT(ASK("GET", "/v1/operations?kind=nope", DEV), 400);
	T_INT(
	    ASK("GET", "/v1/sandboxes?created_after=2999-01-01T00:00:00Z", DEV),
	    200);
	T_INT(items(), 0);
	T_INT(ASK("GET", "/v1/sandboxes?created_after=99-99", DEV), 400);
	rig_down();
}

TEST(rows_that_arrive_while_one_reads_are_not_repeated_and_hide_nothing)
{
	char seen[8][32] = { 0 };
	owned_str next = NULL;
	char *ids[2];
	size_t n = 0;

	rig_up();
	for (int i = 0; i < 2; i++)
		ids[i] = rig_create("{\"template\":\"base\",\"labels\":"
				    "{\"l\":\"arrive\"}}");
	snprintf(path, sizeof(path), "/v1/sandboxes?label=l=arrive&limit=1");
	for (;;) {
		const json_t *item;

		T_INT(ASK("GET", path, DEV), 200);
		item = json_array_get(json_object_get(rig_body, "items"), 0);
		snprintf(seen[n++], 32, "%s",
			 json_string_value(json_object_get(item, "id")));
		free(next);
		next = xstrdup(rig_field("next"));
		if (!*next)
			break;
		free(rig_create("{\"template\":\"base\",\"labels\":"
				"{\"l\":\"arrive\"}}"));
		snprintf(path, sizeof(path),
			 "/v1/sandboxes?label=l=arrive&limit=1&after=%s", next);
	}
	T_INT(n, 2);
	for (int i = 0; i < 2; i++) {
		T_STR(seen[i], ids[1 - i]);
	}
	for (int i = 0; i < 2; i++)
		free(ids[i]);
	rig_down();
}

/* ---- quotas ---- */

TEST(a_quota_is_kept_where_sandboxes_are_made)
{
	owned_str id = NULL;
	long long used;
	char body[200];

	rig_up();
	id = rig_create(BASE);
	T_INT(ASK("GET", "/v1/quotas", VIEWER), 200);
	used = number("used.sandboxes");
	T_TRUE(used >= 1);
	T_STR(rig_last.etag, "\"0\"");
	snprintf(body, sizeof(body),
		 "{\"limits\":{\"sandboxes\":%lld,\"vcpus\":null,"
		 "\"memory_mib\":null,\"disk_mib\":null}}",
		 used);
	T_INT(ASK("PUT", "/v1/quotas", DEV, body), 403);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR, body, "if-match", "\"5\""),
	      412);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR, body), 200);
	T_STR(rig_last.etag, "\"1\"");
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE, "idempotency-key", "q1"),
	      429);
	T_STR(rig_field("error.code"), "quota_reached");
	T_STR(rig_field("error.cause"), "quota");
	T_STR(rig_field("error.field"), "sandboxes");
	snprintf(body, sizeof(body),
		 "quota sandboxes: %lld of %lld are used, and this would be "
		 "above it",
		 used, used);
	T_STR(rig_field("error.message"), body);
	T_TRUE(*rig_last.retry_after);
	snprintf(path, sizeof(path), "/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE,
		  "idempotency-key", "q1"),
	      201);
	T_INT(ASK("GET", "/v1/whoami", DEV), 200);
	T_INT(number("quotas.limits.sandboxes"), used);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR,
		  "{\"limits\":{\"sandboxes\":null,\"vcpus\":null,"
		  "\"memory_mib\":0,\"disk_mib\":null}}"),
	      200);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 429);
	T_STR(rig_field("error.field"), "memory_mib");
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR,
		  "{\"limits\":{\"sandboxes\":null}}"),
	      400);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR,
		  "{\"limits\":{\"sandboxes\":null,\"vcpus\":null,"
		  "\"memory_mib\":null,\"disk_mib\":null}}"),
	      200);
	rig_down();
}

TEST(many_creates_at_once_do_not_pass_a_quota)
{
	struct call c[8];
	int made = 0, refused = 0;
	char body[200];

	rig_up();
	T_INT(ASK("GET", "/v1/quotas", VIEWER), 200);
	snprintf(body, sizeof(body),
		 "{\"limits\":{\"sandboxes\":%lld,\"vcpus\":null,"
		 "\"memory_mib\":null,\"disk_mib\":null}}",
		 number("used.sandboxes") + 3);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR, body), 200);
	for (int i = 0; i < 8; i++)
		rig_send(&c[i],
			 &(struct ask){ "POST", "/v1/sandboxes", DEV, BASE });
	for (int i = 0; i < 8; i++) {
		rig_wait(&c[i]);
		made += c[i].status == 202;
		refused += c[i].status == 429;
		rig_end(&c[i]);
	}
	T_INT(made, 3);
	T_INT(refused, 5);
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR,
		  "{\"limits\":{\"sandboxes\":null,\"vcpus\":null,"
		  "\"memory_mib\":null,\"disk_mib\":null}}"),
	      200);
	rig_down();
}

/* ---- nodes ---- */

TEST(a_cordoned_node_takes_nothing_new)
{
	rig_up();
	T_INT(ASK("POST", "/v1/nodes/nope/cordon", OPERATOR), 404);
	T_INT(ASK("POST", "/v1/nodes/n1/cordon", DEV), 403);
	T_INT(ASK("POST", "/v1/nodes/n1/cordon", OPERATOR), 200);
	T_STR(rig_field("state"), "cordoned");
	for (int i = 0; i < 100; i++) {
		if (ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE) == 503)
			break;
		rig_spin(50);
	}
	T_INT(rig_last.status, 503);
	T_INT(ASK("POST", "/v1/nodes/n1/uncordon", OPERATOR), 200);
	T_STR(rig_field("state"), "up");
	for (int i = 0; i < 100; i++) {
		if (ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE) == 201)
			break;
		rig_spin(50);
	}
	T_INT(rig_last.status, 201);
	rig_down();
}

/* ---- templates ---- */

#define HEX "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BUILD                                                                  \
	"{\"from\":{\"artifacts\":{\"kernel\":\"" HEX "\",\"initramfs\":\""    \
	"sha256:" HEX "\",\"root\":\"sha256:" HEX "\"}}}"

TEST(tags_move_with_a_condition_and_only_to_releases_of_the_template)
{
	owned_str release = NULL;
	owned_str body = NULL;

	rig_up();
	T_INT(
	    ASK("POST", "/v1/templates/tags/builds?wait_s=60", OPERATOR, BUILD),
	    201);
	T_INT(ASK("GET", "/v1/templates/tags", DEV), 200);
	release = xstrdup(rig_field("release"));
	T_STR(rig_last.etag, "\"2\"");
	body = xasprintf("{\"release\":\"%s\"}", release);
	T_INT(ASK("PUT", "/v1/templates/tags/tags/stable", DEV, body,
		  "if-match", "\"1\""),
	      412);
	T_INT(ASK("PUT", "/v1/templates/tags/tags/stable", DEV, body,
		  "if-match", "\"2\""),
	      200);
	T_STR(rig_field("tags.stable"), release);
	T_INT(ASK("PUT", "/v1/templates/tags/tags/stable", DEV,
		  "{\"release\":\"sha256:" HEX "\"}"),
	      404);
	T_INT(ASK("PUT", "/v1/templates/tags/tags/stable", STRANGER, body),
	      404);
	T_INT(ASK("PUT", "/v1/templates/tags/tags/-x", DEV, body), 400);
	free(rig_create("{\"template\":\"tags:stable\"}"));
	T_INT(ASK("DELETE", "/v1/templates/tags/tags/stable", DEV), 200);
	T_STR(rig_field("tags.stable"), "");
	T_INT(ASK("DELETE", "/v1/templates/tags/tags/stable", DEV), 404);
	T_INT(
	    ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"tags:stable\"}"),
	    404);
	T_INT(ASK("GET", "/v1/templates/tags/builds", DEV), 200);
	T_INT(items(), 1);
	rig_down();
}

TEST(a_template_in_use_is_not_deleted)
{
	owned_str id = NULL;

	rig_up();
	T_INT(ASK("POST", "/v1/templates/used/builds?wait_s=60", OPERATOR,
		  "{\"from\":{\"artifacts\":{\"kernel\":\"" HEX
		  "\",\"initramfs\":\"" HEX "\",\"root\":\"" HEX
		  "\"}},\"defaults\":{\"vcpus\":2}}"),
	      201);
	id = rig_create("{\"template\":\"used\"}");
	T_INT(ASK("DELETE", "/v1/templates/used", DEV), 409);
	T_STR(rig_field("error.code"), "in_use");
	T_HAS(rig_field("error.message"), id);
	T_INT(ASK("DELETE", "/v1/templates/used", STRANGER), 404);
	snprintf(path, sizeof(path), "/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(
	    ASK("DELETE", "/v1/templates/used", DEV, NULL, "if-match", "\"9\""),
	    412);
	T_INT(ASK("DELETE", "/v1/templates/used", DEV), 200);
	T_INT(ASK("GET", "/v1/templates/used", DEV), 404);
	rig_down();
}

TEST(the_name_of_a_public_template_cannot_be_taken)
{
	rig_up();
	T_INT(ASK("POST", "/v1/templates", STRANGER, "{\"name\":\"base\"}"),
	      409);
	T_STR(rig_field("error.code"), "name_taken");
	T_HAS(rig_field("error.message"), "public");
	T_INT(ASK("POST", "/v1/templates", STRANGER,
		  "{\"name\":\"mine\",\"public\":true}"),
	      403);
	T_INT(ASK("POST", "/v1/templates", STRANGER, "{\"name\":\"theirs\"}"),
	      201);
	T_INT(ASK("GET", "/v1/templates/theirs", DEV), 404);
	rig_down();
}

/* ---- tenants, projects, keys ---- */

TEST(a_deleted_tenant_is_dead_at_once)
{
	owned_str tenant = NULL;
	owned_str project = NULL;
	owned_str secret = NULL;
	owned_str body = NULL;
	owned_str id = NULL;
	struct call open;

	rig_up();
	T_INT(ASK("POST", "/v1/tenants", DEV, "{\"name\":\"acme\"}"), 403);
	T_INT(ASK("POST", "/v1/tenants", OPERATOR, "{\"name\":\"acme\"}"), 201);
	tenant = xstrdup(rig_field("tenant.id"));
	project = xstrdup(rig_field("project.id"));
	T_INT(ASK("POST", "/v1/tenants", OPERATOR, "{\"name\":\"acme\"}"), 409);
	body = xasprintf(
	    "{\"name\":\"k\",\"role\":\"admin\",\"project\":\"%s\"}", project);
	T_INT(ASK("POST", "/v1/keys", STRANGER, body), 404);
	T_INT(ASK("POST", "/v1/keys", OPERATOR, body), 201);
	T_STR(rig_field("project"), project);
	secret = xstrdup(rig_field("secret"));
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", secret, BASE), 201);
	id = xstrdup(rig_field("sandbox.id"));
	/* one that waits, and is cut */
	rig_fake.mode = FAKE_HANGS;
	rig_send(&open, &(struct ask){ "POST", "/v1/sandboxes?wait_s=60",
				       secret, BASE });
	while (rig_fake.n_ensure < 2)
		loop_once(rig_loop, 20);
	T_INT(ASK("DELETE", at("tenants/", tenant), OPERATOR), 200);
	T_INT(number("ending"), 2);
	T_INT(ASK("GET", "/v1/whoami", secret), 401);
	rig_wait(&open);
	T_TRUE(open.cut);
	rig_end(&open);
	T_INT(ASK("DELETE", at("tenants/", tenant), OPERATOR), 200);
	T_INT(number("ending"), 0);
	{
		owned_str sql =
		    xasprintf("SELECT 1 / (desired = 'deleted')::int FROM "
			      "caisson.sandboxes WHERE id = '%s'",
			      id);

		test_cluster_sql(sql);
	}
	/* the name is free again */
	T_INT(ASK("POST", "/v1/tenants", OPERATOR, "{\"name\":\"acme\"}"), 201);
	rig_down();
}

TEST(nobody_deletes_the_tenant_of_the_key_in_use)
{
	owned_str own = NULL;

	rig_up();
	T_INT(ASK("GET", "/v1/whoami", OPERATOR), 200);
	own = xstrdup(rig_field("tenant.id"));
	T_INT(ASK("DELETE", at("tenants/", own), OPERATOR), 409);
	T_STR(rig_field("error.code"), "in_use");
	T_INT(ASK("GET", "/v1/whoami", OPERATOR), 200);
	T_INT(ASK("DELETE", "/v1/tenants/ten_x", OPERATOR), 404);
	rig_down();
}

TEST(projects_are_those_of_the_tenant)
{
	owned_str other = NULL;

	rig_up();
	T_INT(ASK("GET", "/v1/whoami", STRANGER), 200);
	other = xstrdup(rig_field("tenant.id"));
	T_INT(ASK("POST", "/v1/projects", OPERATOR, "{\"name\":\"second\"}"),
	      201);
	T_INT(ASK("POST", "/v1/projects", OPERATOR, "{\"name\":\"second\"}"),
	      409);
	T_INT(ASK("POST", "/v1/projects", DEV, "{\"name\":\"third\"}"), 403);
	T_INT(ASK("GET", "/v1/projects?limit=1", OPERATOR), 200);
	T_INT(items(), 1);
	T_STR(
	    json_string_value(json_object_get(
		json_array_get(json_object_get(rig_body, "items"), 0), "name")),
	    "second");
	T_INT(ASK("GET", "/v1/projects", STRANGER), 200);
	T_INT(items(), 1);
	snprintf(path, sizeof(path), "/v1/projects?tenant=%s", other);
	T_INT(ASK("GET", path, OPERATOR), 200);
	T_INT(items(), 1);
	T_INT(ASK("GET", "/v1/projects?tenant=ten_x", STRANGER), 404);
	T_INT(ASK("GET", "/v1/tenants", OPERATOR), 200);
	T_TRUE(items() >= 2);
	rig_down();
}

TEST(an_admin_neither_makes_nor_revokes_an_operator)
{
	owned_str admin = NULL;
	owned_str id = NULL;

	rig_up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"a\",\"role\":\"admin\"}"),
	      201);
	admin = xstrdup(rig_field("secret"));
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"o\",\"role\":\"operator\"}"),
	      201);
	id = xstrdup(rig_field("id"));
	T_INT(ASK("POST", "/v1/keys", admin,
		  "{\"name\":\"o\",\"role\":\"operator\"}"),
	      403);
	T_INT(ASK("DELETE", at("keys/", id), admin), 404);
	T_INT(ASK("DELETE", at("keys/", id), OPERATOR), 200);
	T_INT(ASK("DELETE", at("keys/", id), OPERATOR), 200);
	rig_down();
}
