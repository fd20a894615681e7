/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is answered is what the document says: answers of a whole server,
 * checked against the schemas that clients are generated from. The checker
 * knows the words that our schemas use, and fails on a field that no schema
 * names: an addition must be described.
 */

#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "api/openapi.h"
#include "api/route.h"
#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "db/test-cluster.h"
#include "net/json.h"

static json_t *all; /* the schemas by name */

static void load(void)
{
	owned_str text = openapi_text();
	owned_json doc = json_loads(text, 0, NULL);

	json_decref(all);
	all = json_deep_copy(
	    json_object_get(json_object_get(doc, "components"), "schemas"));
}

static const char *type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return "string";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		break;
	}
	return "null";
}

static bool is_type(const json_t *v, const char *name)
{
	return strcmp(type_of(v), name) == 0 ||
	       (strcmp(name, "number") == 0 && json_is_integer(v));
}

static bool type_fits(const json_t *v, const json_t *type)
{
	json_t *one;
	size_t i;

	if (!type)
		return true;
	if (json_is_string(type))
		return is_type(v, json_string_value(type));
	json_array_foreach(
	    type, i, one) if (is_type(v, json_string_value(one))) return true;
	return false;
}

static bool check(const json_t *v, const json_t *schema, char *where);

static bool object_fits(const json_t *v, const json_t *schema, char *where)
{
	json_t *props = json_object_get(schema, "properties");
	json_t *rest = json_object_get(schema, "additionalProperties");
	json_t *need, *one;
	size_t i, n = strlen(where);
	const char *key;

	json_array_foreach(
	    json_object_get(schema, "required"), i,
	    need) if (!json_object_get(v, json_string_value(need)))
	{
		snprintf(where + n, 300 - n, ".%s is not there",
			 json_string_value(need));
		return false;
	}
	json_object_foreach((json_t *)(uintptr_t)v, key, one)
	{
		json_t *s = json_object_get(props, key);

		snprintf(where + n, 300 - n, ".%s", key);
		if (!s)
			s = json_is_object(rest) ? rest : NULL;
		if (!s && (props || json_is_false(rest)))
			return false; /* not described */
		if (s && !check(one, s, where))
			return false;
		where[n] = '\0';
	}
	return true;
}

static bool string_fits(const json_t *v, const json_t *schema)
{
	const char *pattern =
	    json_string_value(json_object_get(schema, "pattern"));
	regex_t re;
	bool ok;

	if (!pattern)
		return true;
	T_INT(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	ok = regexec(&re, json_string_value(v), 0, NULL, 0) == 0;
	regfree(&re);
	return ok;
}

static bool some_fits(const json_t *v, const json_t *list, char *where)
{
	char start[300], last[300] = "";
	json_t *one;
	size_t i;

	snprintf(start, sizeof(start), "%s", where);
	json_array_foreach(list, i, one)
	{
		snprintf(where, 300, "%s", start);
		if (check(v, one, where))
			return true;
		if (!*last)
			snprintf(last, sizeof(last), "%s", where);
	}
	snprintf(where, 300, "%s", last);
	return false;
}

static bool in_list(const json_t *v, const json_t *list)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) if (json_equal(one, v)) return true;
	return !list;
}

static bool check(const json_t *v, const json_t *schema, char *where)
{
	const char *to = json_string_value(json_object_get(schema, "$ref"));
	json_t *item, *s;
	size_t i;

	if (to)
		return check(v, json_object_get(all, strrchr(to, '/') + 1),
			     where);
	s = json_object_get(schema, "oneOf");
	if (!s)
		s = json_object_get(schema, "allOf"); /* of one */
	if (s)
		return some_fits(v, s, where);
	if (!type_fits(v, json_object_get(schema, "type")) ||
	    !in_list(v, json_object_get(schema, "enum")))
		return false;
	if (json_is_string(v))
		return string_fits(v, schema);
	if (json_is_object(v))
		return object_fits(v, schema, where);
	s = json_object_get(schema, "items");
	json_array_foreach(v, i,
			   item) if (s && !check(item, s, where)) return false;
	return true;
}

/* The last answer is a NAME. */
static void is_a(const char *name)
{
	const json_t *schema = json_object_get(all, name);
	char where[300] = "";

	if (!schema || !rig_body || !check(rig_body, schema, where)) {
		owned_str text = rig_body ? json_text(rig_body) : NULL;

		test_fail(__FILE__, __LINE__, "not a %s at %s: %s", name, where,
			  text ? text : "no JSON");
	}
}

static void ask(int status, const char *method, const char *path,
		const char *body, const char *name)
{
	T_INT(ASK(method, path, OPERATOR, body), status);
	is_a(name);
}

TEST(the_checker_refuses_what_it_should)
{
	char where[300] = "";
	owned_json good = json_loads("{\"id\":\"a\",\"name\":\"b\"}", 0, NULL);
	owned_json more =
	    json_loads("{\"id\":\"a\",\"name\":\"b\",\"x\":1}", 0, NULL);
	owned_json less = json_loads("{\"id\":\"a\"}", 0, NULL);
	owned_json other = json_loads("{\"id\":1,\"name\":\"b\"}", 0, NULL);

	load();
	T_TRUE(check(good, json_object_get(all, "Named"), where));
	T_TRUE(!check(more, json_object_get(all, "Named"), where));
	T_TRUE(!check(less, json_object_get(all, "Named"), where));
	T_TRUE(!check(other, json_object_get(all, "Named"), where));
}

TEST(sandboxes_and_operations_are_as_described)
{
	owned_str id = NULL;
	char path[200];

	rig_up();
	load();
	ask(201, "POST", "/v1/sandboxes?wait_s=60",
	    "{\"template\":\"base\",\"name\":\"schema\",\"labels\":{\"a\":"
	    "\"b\"}}",
	    "Accepted");
	id = xstrdup(rig_field("sandbox.id"));
	snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	ask(200, "GET", path, NULL, "Sandbox");
	ask(200, "PATCH", path, "{\"lifetime\":{\"ttl_s\":null}}", "Sandbox");
	ask(200, "GET", "/v1/sandboxes", NULL, "SandboxList");
	ask(200, "GET", "/v1/operations", NULL, "OperationList");
	snprintf(path, sizeof(path), "/v1/sandboxes/%s?wait_s=60", id);
	ask(200, "DELETE", path, NULL, "Accepted");
	ask(200, "GET", "/v1/sandboxes?state=ended", NULL, "SandboxList");
	rig_fake.mode = FAKE_FULL;
	ask(503, "POST", "/v1/sandboxes?wait_s=60", BASE, "Error");
	ask(200, "GET", "/v1/operations?state=failed", NULL, "OperationList");
	ask(200, "GET", "/v1/sandboxes?state=failed", NULL, "SandboxList");
	rig_down();
}

TEST(records_are_as_described)
{
	char path[200];

	rig_up();
	load();
	ask(200, "GET", "/healthz", NULL, "Alive");
	ask(200, "GET", "/readyz", NULL, "Ready");
	ask(200, "GET", "/v1/whoami", NULL, "Whoami");
	ask(200, "GET", "/v1/nodes", NULL, "NodeList");
	ask(200, "POST", "/v1/nodes/n1/uncordon", NULL, "Node");
	ask(201, "POST", "/v1/keys", "{\"role\":\"viewer\"}", "Key");
	snprintf(path, sizeof(path), "/v1/keys/%s", rig_field("id"));
	ask(200, "GET", "/v1/keys", NULL, "KeyList");
	ask(200, "DELETE", path, NULL, "Key");
	ask(201, "POST", "/v1/projects", "{\"name\":\"schema\"}", "Project");
	ask(200, "GET", "/v1/projects", NULL, "ProjectList");
	ask(201, "POST", "/v1/tenants", "{\"name\":\"schema\"}",
	    "TenantCreated");
	snprintf(path, sizeof(path), "/v1/tenants/%s", rig_field("tenant.id"));
	ask(200, "DELETE", path, NULL, "TenantDeleted");
	ask(200, "GET", "/v1/tenants", NULL, "TenantList");
	ask(200, "GET", "/v1/quotas", NULL, "Quota");
	ask(200, "PUT", "/v1/quotas",
	    "{\"limits\":{\"sandboxes\":null,\"vcpus\":1000,\"memory_mib\":"
	    "null,\"disk_mib\":null}}",
	    "Quota");
	ask(404, "GET", "/v1/nonsense", NULL, "Error");
	rig_down();
}

#define HEX "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define BUILD                                                                  \
	"{\"from\":{\"artifacts\":{\"kernel\":\"" HEX "\",\"initramfs\":\""    \
	"sha256:" HEX "\",\"root\":\"sha256:" HEX "\"}}}"

TEST(templates_are_as_described)
{
	owned_str body = NULL;
	char path[200];

	rig_up();
	load();
	ask(201, "POST", "/v1/templates", "{\"name\":\"schema\"}", "Template");
	ask(201, "POST", "/v1/templates/schema/builds?wait_s=60", BUILD,
	    "Accepted");
	ask(200, "GET", "/v1/templates/schema/builds", NULL, "OperationList");
	ask(200, "GET", "/v1/templates/schema", NULL, "Template");
	snprintf(path, sizeof(path), "/v1/releases/%s", rig_field("release"));
	body = xasprintf("{\"release\":\"%s\"}", rig_field("release"));
	ask(200, "PUT", "/v1/templates/schema/tags/v1", body, "Template");
	ask(200, "GET", path, NULL, "Release");
	ask(200, "GET", "/v1/templates", NULL, "TemplateList");
	ask(200, "DELETE", "/v1/templates/schema/tags/v1", NULL, "Template");
	ask(200, "DELETE", "/v1/templates/schema", NULL, "Template");
	rig_down();
}
