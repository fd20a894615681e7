/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body.h"

#include "base/own.h"
#include "base/test.h"
#include "net/json.h"

static struct fault f;
static json_t *v;

/* The code of the refusal, or "" if the body is good. */
static const char *create(const char *text, struct body_create *ret)
{
	static struct body_create own;

	json_decref(v);
	v = json_loads(text, JSON_DECODE_ANY, NULL);
	T_TRUE(v != NULL);
	return body_create(v, ret ? ret : &own, &f) == 0 ? "" : f.code;
}

static const char *exec(const char *text)
{
	struct body_exec own;

	json_decref(v);
	v = json_loads(text, JSON_DECODE_ANY, NULL);
	T_TRUE(v != NULL);
	return body_exec(v, &own, &f) == 0 ? "" : f.code;
}

TEST(the_smallest_create_has_defaults)
{
	struct body_create b;

	T_STR(create("{\"template\":\"base\"}", &b), "");
	T_STR(b.template, "base");
	T_TRUE(b.name == NULL && b.labels == NULL && b.env == NULL);
	T_INT(b.vcpus, 0);
	T_TRUE(b.has_ttl);
	T_INT(b.ttl_s, 3600);
	T_STR(b.on_expiry, "end");
}

TEST(a_full_create_is_read)
{
	struct body_create b;

	T_STR(create("{\"template\":\"base:v2\",\"name\":\"fix-1\",\"labels\":"
		     "{\"team\":\"web\"},\"env\":{\"A\":\"1\"},\"resources\":"
		     "{\"vcpus\":2,\"memory_mib\":1024,\"disk_mib\":4096},"
		     "\"lifetime\":{\"ttl_s\":60,\"on_expiry\":\"end\"},"
		     "\"isolation\":\"software\",\"on_node_loss\":\"lose\"}",
		     &b),
	      "");
	T_STR(b.name, "fix-1");
	T_INT(b.vcpus, 2);
	T_INT(b.memory_mib, 1024);
	T_INT(b.disk_mib, 4096);
	T_INT(b.ttl_s, 60);
	T_STR(b.isolation, "software");
}

TEST(null_means_no_end)
{
	struct body_create b;

	T_STR(
	    create("{\"template\":\"base\",\"lifetime\":{\"ttl_s\":null}}", &b),
	    "");
	T_TRUE(!b.has_ttl);
}

TEST(a_template_is_required)
{
	T_STR(create("{}", NULL), "missing_field");
	T_STR(f.field, "template");
	T_STR(f.cause, "request");
}

TEST(an_unknown_field_is_named_with_a_suggestion)
{
	T_STR(create("{\"template\":\"base\",\"lables\":{}}", NULL),
	      "unknown_field");
	T_STR(f.field, "lables");
	T_HAS(f.message, "labels");
}

TEST(an_unknown_field_below_is_named_with_its_path)
{
	T_STR(
	    create("{\"template\":\"base\",\"resources\":{\"cpus\":1}}", NULL),
	    "unknown_field");
	T_STR(f.field, "resources.cpus");
}

TEST(a_number_out_of_range_says_the_range)
{
	T_STR(
	    create("{\"template\":\"base\",\"lifetime\":{\"ttl_s\":0}}", NULL),
	    "invalid_field");
	T_STR(f.field, "lifetime.ttl_s");
	T_HAS(f.message, "from 1 to");
	T_HAS(f.message, "or null");
}

TEST(an_entry_of_a_map_is_named)
{
	T_STR(create("{\"template\":\"b\",\"labels\":{\"x\":\"y\","
		     "\"team\":1}}",
		     NULL),
	      "invalid_field");
	T_STR(f.field, "labels.team");
	T_HAS(f.message, "\"labels.team\"");
}

TEST(a_wrong_type_is_invalid)
{
	T_STR(create("{\"template\":7}", NULL), "invalid_field");
	T_STR(create("{\"template\":\"base\",\"env\":{\"A\":1}}", NULL),
	      "invalid_field");
	T_STR(create("[]", NULL), "invalid_field");
	T_STR(create("\"x\"", NULL), "invalid_field");
}

TEST(what_comes_later_is_not_supported_and_named)
{
	T_STR(create("{\"template\":\"b\",\"snapshot\":\"snp_1\"}", NULL),
	      "not_supported");
	T_STR(f.field, "snapshot");
	T_STR(create("{\"template\":\"b\",\"lifetime\":{\"on_expiry\":"
		     "\"suspend\"}}",
		     NULL),
	      "not_supported");
	T_STR(f.field, "lifetime.on_expiry");
	T_STR(create("{\"template\":\"b\",\"lifetime\":{\"idle_s\":5}}", NULL),
	      "not_supported");
	T_STR(create("{\"template\":\"b\",\"on_node_loss\":\"restore\"}", NULL),
	      "not_supported");
	T_STR(create("{\"template\":\"b\",\"grants\":[]}", NULL),
	      "not_supported");
}

TEST(null_in_a_later_field_is_absent)
{
	T_STR(create("{\"template\":\"b\",\"snapshot\":null,\"grants\":null}",
		     NULL),
	      "");
}

TEST(on_expiry_must_be_a_known_word)
{
	T_STR(create("{\"template\":\"b\",\"lifetime\":{\"on_expiry\":"
		     "\"explode\"}}",
		     NULL),
	      "invalid_field");
	T_STR(f.field, "lifetime.on_expiry");
}

TEST(a_variable_name_has_no_equals_sign)
{
	T_STR(create("{\"template\":\"b\",\"env\":{\"A=B\":\"x\"}}", NULL),
	      "invalid_field");
	T_STR(f.field, "env.A=B");
}

TEST(names_are_dns_labels)
{
	T_TRUE(name_valid("a"));
	T_TRUE(name_valid("fix-2"));
	T_TRUE(!name_valid(""));
	T_TRUE(!name_valid("-a"));
	T_TRUE(!name_valid("a-"));
	T_TRUE(!name_valid("A"));
	T_TRUE(!name_valid("a_b"));
	T_TRUE(!name_valid("a.b"));
	T_TRUE(
	    !name_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
			"aaaaaaaaaaaa"));
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TEST(template_references_have_three_forms)
{
	T_TRUE(template_ref_valid("base"));
	T_TRUE(template_ref_valid("base:v1"));
	T_TRUE(template_ref_valid("sha256:" HEX));
	T_TRUE(!template_ref_valid("sha256:" HEX "0"));
	T_TRUE(!template_ref_valid("base:"));
	T_TRUE(!template_ref_valid(":v1"));
	T_TRUE(!template_ref_valid("a:b:c"));
	T_TRUE(!template_ref_valid("a%"));
}

TEST(digests_are_lower_case)
{
	T_TRUE(digest_valid("sha256:" HEX));
	T_TRUE(!digest_valid(HEX));
	T_TRUE(!digest_valid("sha256:00"));
	T_TRUE(!digest_valid("sha256:0011223344556677889900AABBCCDDEEFF00112233"
			     "445566778899aabbccdd"));
}

/* ---- exec ---- */

TEST(an_exec_needs_a_command)
{
	T_STR(exec("{}"), "missing_field");
	T_STR(f.field, "cmd");
	T_STR(exec("{\"cmd\":[]}"), "invalid_field");
	T_STR(exec("{\"cmd\":[\"a\"],\"shell\":\"b\"}"), "invalid_field");
	T_STR(exec("{\"cmd\":\"ls\"}"), "invalid_field");
}

TEST(an_exec_by_words_or_by_shell_is_good)
{
	T_STR(exec("{\"cmd\":[\"ls\",\"-l\"]}"), "");
	T_STR(exec("{\"shell\":\"ls | wc\",\"cwd\":\"/tmp\",\"user\":\"u\","
		   "\"stdin\":true,\"timeout_s\":5,\"start\":\"now\","
		   "\"keep_bytes\":65536,\"overflow\":\"block\"}"),
	      "");
}

TEST(an_exec_waits_for_its_first_attach_unless_told)
{
	owned_json body = json_loads("{\"cmd\":[\"a\"]}", 0, NULL);
	owned_json out = body_exec_merge(body, "ex_1", NULL, NULL);
	struct body_exec b;

	T_INT(body_exec(body, &b, &f), 0);
	T_TRUE(b.attach);
	T_STR(json_string_value(json_object_get(out, "start")), "attach");
	json_set_take(body, "start", json_string("now"));
	T_INT(body_exec(body, &b, &f), 0);
	T_TRUE(!b.attach);
	json_decref(out);
	out = body_exec_merge(body, "ex_1", NULL, NULL);
	T_STR(json_string_value(json_object_get(out, "start")), "now");
}

TEST(a_terminal_has_two_sides)
{
	T_STR(exec("{\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":24}}"), "");
	T_STR(exec("{\"cmd\":[\"a\"],\"pty\":{\"cols\":80}}"), "missing_field");
	T_STR(f.field, "pty.rows");
	T_STR(exec("{\"cmd\":[\"a\"],\"pty\":{\"cols\":0,\"rows\":1}}"),
	      "invalid_field");
	T_STR(exec("{\"cmd\":[\"a\"],\"pty\":{\"cols\":65536,\"rows\":1}}"),
	      "invalid_field");
	T_STR(exec("{\"cmd\":[\"a\"],\"pty\":true}"), "invalid_field");
}

static const char *token(const char *text)
{
	owned_json root = json_loads(text, 0, NULL);
	struct body_token b;

	return body_token(root, &b, &f) < 0 ? f.code : "";
}

TEST(a_token_names_what_it_allows)
{
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[\"exec\",\"end\"]}"), "");
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[]}"), "invalid_field");
	T_STR(token("{\"sandbox\":\"s\"}"), "missing_field");
	T_STR(token("{\"allow\":[\"exec\"]}"), "missing_field");
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[\"any\"]}"),
	      "invalid_field");
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[\"exec\"],"
		    "\"ttl_s\":86401}"),
	      "invalid_field");
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[\"exec\"],\"ttl_s\":0}"),
	      "invalid_field");
	T_STR(token("{\"sandbox\":\"s\",\"allow\":[\"exec\"],"
		    "\"role\":\"admin\"}"),
	      "unknown_field");
}

TEST(a_relative_cwd_is_refused)
{
	T_STR(exec("{\"cmd\":[\"a\"],\"cwd\":\"tmp\"}"), "invalid_field");
	T_STR(f.field, "cwd");
}

TEST(environments_merge_and_the_exec_wins)
{
	owned_json body = json_loads(
	    "{\"cmd\":[\"a\"],\"env\":{\"C\":\"e\"},\"user\":\"me\"}", 0, NULL);
	owned_json defaults =
	    json_loads("{\"env\":{\"A\":\"t\",\"B\":\"t\",\"C\":\"t\"},"
		       "\"user\":\"u\",\"cwd\":\"/h\"}",
		       0, NULL);
	owned_json env = json_loads("{\"B\":\"s\",\"C\":\"s\"}", 0, NULL);
	owned_json m = body_exec_merge(body, "ex_1", defaults, env);
	json_t *e = json_object_get(m, "env");

	T_STR(json_string_value(json_object_get(e, "A")), "t");
	T_STR(json_string_value(json_object_get(e, "B")), "s");
	T_STR(json_string_value(json_object_get(e, "C")), "e");
	T_STR(json_string_value(json_object_get(m, "user")), "me");
	T_STR(json_string_value(json_object_get(m, "cwd")), "/h");
	T_STR(json_string_value(json_object_get(m, "id")), "ex_1");
	/* the client's own object is untouched */
	T_INT(json_object_size(json_object_get(body, "env")), 1);
	T_TRUE(!json_object_get(body, "id"));
}

TEST(merging_works_with_nothing_to_merge)
{
	owned_json body = json_loads("{\"cmd\":[\"a\"]}", 0, NULL);
	owned_json m = body_exec_merge(body, "ex_1", NULL, NULL);

	T_INT(json_object_size(json_object_get(m, "env")), 0);
	T_TRUE(!json_object_get(m, "user"));
}

/* ---- signals, keys, builds ---- */

static const char *signal_of(const char *text)
{
	json_decref(v);
	v = json_loads(text, JSON_DECODE_ANY, NULL);
	return body_signal(v, &f) == 0 ? "" : f.code;
}

TEST(signals_have_names_and_a_scope)
{
	T_STR(signal_of("{\"name\":\"TERM\"}"), "");
	T_STR(signal_of("{\"name\":\"SIGKILL\",\"scope\":\"leader\"}"), "");
	T_STR(signal_of("{}"), "missing_field");
	T_STR(signal_of("{\"name\":\"te rm\"}"), "invalid_field");
	T_STR(signal_of("{\"name\":\"TERM\",\"scope\":\"all\"}"),
	      "invalid_field");
}

static const char *key_of(const char *text, struct body_key *ret)
{
	json_decref(v);
	v = json_loads(text, JSON_DECODE_ANY, NULL);
	return body_key(v, ret, &f) == 0 ? "" : f.code;
}

TEST(keys_have_a_name_and_a_role)
{
	struct body_key b;

	T_STR(key_of("{\"name\":\"ci\",\"role\":\"admin\"}", &b), "");
	T_INT(b.role, ROLE_ADMIN);
	T_STR(key_of("{\"role\":\"viewer\"}", &b), "");
	T_STR(b.name, "");
	T_STR(key_of("{\"name\":\"ci\"}", &b), "missing_field");
	T_STR(key_of("{\"name\":\"ci\",\"role\":\"open\"}", &b),
	      "invalid_field");
}

static const char *build_of(const char *text, struct body_build *ret)
{
	json_decref(v);
	v = json_loads(text, JSON_DECODE_ANY, NULL);
	T_TRUE(v != NULL);
	return body_build(v, ret, &f) == 0 ? "" : f.code;
}

#define ARTIFACTS                                                              \
	"\"from\":{\"artifacts\":{\"kernel\":\"" HEX                           \
	"\",\"initramfs\":\"sha256:" HEX "\",\"root\":\"" HEX "\"}}"

TEST(a_manifest_is_canonical)
{
	struct body_build a, b;
	char x[72], y[72];

	T_STR(build_of("{" ARTIFACTS
		       ",\"defaults\":{\"vcpus\":1,\"memory_mib\":512}}",
		       &a),
	      "");
	T_STR(build_of("{\"defaults\":{\"memory_mib\":512,\"vcpus\":1},"
		       "\"root_format\":\"raw\"," ARTIFACTS "}",
		       &b),
	      "");
	manifest_digest(a.manifest, x);
	manifest_digest(b.manifest, y);
	T_STR(x, y);
	T_TRUE(digest_valid(x));
	body_build_fini(&a);
	body_build_fini(&b);
}

TEST(provenance_is_part_of_the_digest)
{
	struct body_build a, b;
	char x[72], y[72];

	T_STR(build_of("{" ARTIFACTS "}", &a), "");
	T_STR(build_of("{" ARTIFACTS ",\"provenance\":{\"by\":\"me\"}}", &b),
	      "");
	manifest_digest(a.manifest, x);
	manifest_digest(b.manifest, y);
	T_TRUE(strcmp(x, y) != 0);
	body_build_fini(&a);
	body_build_fini(&b);
}

TEST(a_build_needs_three_good_digests)
{
	struct body_build b;

	T_STR(build_of("{}", &b), "missing_field");
	T_STR(build_of("{\"from\":{\"artifacts\":{\"kernel\":\"" HEX
		       "\",\"root\":\"" HEX "\"}}}",
		       &b),
	      "missing_field");
	T_STR(f.field, "from.artifacts.initramfs");
	T_STR(build_of("{\"from\":{\"artifacts\":{\"kernel\":\"zz\"}}}", &b),
	      "invalid_field");
	T_STR(build_of("{\"from\":{\"image\":\"debian:12\"}}", &b),
	      "not_supported");
	T_STR(build_of("{" ARTIFACTS ",\"root_format\":\"qcow2\"}", &b),
	      "invalid_field");
}
