/* SPDX-License-Identifier: Apache-2.0 */

/* Bodies that change records. */

#include "api/body-admin.h"

#include "base/own.h"
#include "base/test.h"
#include "net/json.h"

static struct fault f;

static const char *update(const char *text, struct body_update *ret)
{
	static json_t *v;

	json_decref(v);
	v = NULL;
	T_INT(json_parse(text, strlen(text), &v, NULL), 0);
	return body_update(v, ret, &f) < 0 ? f.code : "";
}

static const char *quota(const char *text, struct body_quota *ret)
{
	owned_json v = NULL;

	T_INT(json_parse(text, strlen(text), &v, NULL), 0);
	return body_quota(v, ret, &f) < 0 ? f.code : "";
}

TEST(what_is_absent_stays_untouched)
{
	struct body_update b;

	T_STR(update("{}", &b), "");
	T_TRUE(!b.labels && !b.has_ttl && !b.on_expiry);
	T_STR(update("{\"lifetime\":{}}", &b), "");
	T_TRUE(!b.has_ttl);
}

TEST(a_null_ttl_is_no_end_and_not_an_absent_one)
{
	struct body_update b;

	T_STR(update("{\"lifetime\":{\"ttl_s\":null}}", &b), "");
	T_TRUE(b.has_ttl);
	T_INT(b.ttl_s, 0);
	T_STR(update("{\"lifetime\":{\"ttl_s\":7}}", &b), "");
	T_INT(b.ttl_s, 7);
}

TEST(a_ttl_out_of_range_is_named)
{
	static const char *const bad[] = { "0",	       "-1",
					   "31622401", "1.5",
					   "\"1\"",    "true",
					   "1e3",      "9223372036854775807" };
	struct body_update b;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned_str text =
		    xasprintf("{\"lifetime\":{\"ttl_s\":%s}}", bad[i]);

		T_STR(update(text, &b), "invalid_field");
		T_STR(f.field, "lifetime.ttl_s");
	}
}

TEST(labels_are_strings_or_null)
{
	struct body_update b;

	T_STR(update("{\"labels\":{\"a\":null,\"b\":\"\"}}", &b), "");
	T_INT(json_object_size(b.labels), 2);
	T_STR(update("{\"labels\":{\"a\":{}}}", &b), "invalid_field");
	T_STR(f.field, "labels.a");
	T_STR(update("{\"labels\":{\"a=b\":\"1\"}}", &b), "invalid_field");
	T_STR(update("{\"labels\":{\"\":\"1\"}}", &b), "invalid_field");
	T_STR(update("{\"labels\":[]}", &b), "invalid_field");
}

TEST(what_comes_later_is_told_from_what_is_unknown)
{
	struct body_update b;

	T_STR(update("{\"lifetime\":{\"on_expiry\":\"suspend\"}}", &b),
	      "not_supported");
	T_STR(f.field, "lifetime.on_expiry");
	T_STR(update("{\"lifetime\":{\"on_expiry\":\"explode\"}}", &b),
	      "invalid_field");
	T_STR(update("{\"lifetime\":{\"ttl\":1}}", &b), "unknown_field");
	T_HAS(f.message, "ttl_s");
	T_STR(update("{\"name\":\"x\"}", &b), "unknown_field");
	T_STR(update("{\"tenant\":\"x\"}", &b), "unknown_field");
	T_STR(update("{\"node\":\"x\"}", &b), "unknown_field");
}

TEST(every_limit_of_a_quota_must_be_said)
{
	struct body_quota b;

	T_STR(quota("{\"limits\":{\"sandboxes\":1,\"vcpus\":null,"
		    "\"memory_mib\":0,\"disk_mib\":5}}",
		    &b),
	      "");
	T_INT(b.sandboxes, 1);
	T_INT(b.vcpus, -1);
	T_INT(b.memory_mib, 0);
	T_STR(quota("{\"limits\":{\"sandboxes\":1,\"vcpus\":null,"
		    "\"memory_mib\":0}}",
		    &b),
	      "missing_field");
	T_STR(f.field, "limits.disk_mib");
	T_STR(quota("{\"limits\":{\"sandboxes\":-1,\"vcpus\":null,"
		    "\"memory_mib\":0,\"disk_mib\":5}}",
		    &b),
	      "invalid_field");
	T_STR(quota("{}", &b), "missing_field");
}

TEST(names_are_dns_labels)
{
	static const char *const bad[] = {
		"", "-a", "a-", "A", "a.b", "a/b", "a b", "\\u00e4", "..", "a:b"
	};
	struct body_named b;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned_str text = xasprintf("{\"name\":\"%s\"}", bad[i]);
		owned_json v = NULL;

		T_INT(json_parse(text, strlen(text), &v, NULL), 0);
		T_INT(body_tenant(v, &b, &f), -1);
		T_STR(f.field, "name");
		T_INT(body_project(v, &b, &f), -1);
		T_INT(body_template(v, &b, &f), -1);
	}
}

TEST(a_tag_points_to_a_whole_digest)
{
	owned_json v = json_object();
	const char *release;

	T_INT(body_tag(v, &release, &f), -1);
	T_STR(f.code, "missing_field");
	json_set_take(v, "release", json_string("base:latest"));
	T_INT(body_tag(v, &release, &f), -1);
	T_STR(f.code, "invalid_field");
}
