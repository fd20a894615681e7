/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/fault.h"
#include "api/route.h"
#include "base/check.h"
#include "base/own.h"
#include "net/json.h"

static json_t *parse(const char *text)
{
	json_error_t e;
	json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, &e);

	CHECK(v); /* our own constant */
	return v;
}

static json_t *ref(const char *schema)
{
	json_t *o = json_object();
	owned_str path = xasprintf("#/components/schemas/%s", schema);

	json_set_take(o, "$ref", json_string(path));
	return o;
}

static json_t *content(const char *type, const char *schema)
{
	json_t *media = json_object(), *c = json_object();

	json_set_take(media, "schema", schema ? ref(schema) : json_object());
	json_set_take(c, type ? type : "application/json", media);
	return c;
}

static json_t *parameter(const char *in, const char *name, json_t *schema)
{
	json_t *p = json_object();

	json_set_take(p, "name", json_string(name));
	json_set_take(p, "in", json_string(in));
	json_set_take(
	    p, "required",
	    json_boolean(strcmp(in, "path") == 0 || strcmp(name, "path") == 0));
	json_set_take(p, "schema", schema);
	return p;
}

static void add_path_params(json_t *list, const char *path)
{
	for (const char *p = strchr(path, '{'); p; p = strchr(p + 1, '{')) {
		owned_str name = xstrndup(p + 1, strcspn(p + 1, "}"));

		json_array_append_new(list, parameter("path", name,
						      parse("{\"type\":"
							    "\"string\"}")));
	}
}

static json_t *query_schema(const char *name)
{
	for (size_t i = 0; i < n_query_docs; i++)
		if (strcmp(query_docs[i].name, name) == 0)
			return parse(query_docs[i].json);
	check_failed("a query parameter has no description", __FILE__,
		     __LINE__);
}

static void add_query_params(json_t *list, const char *names)
{
	while (names && *names) {
		size_t n = strcspn(names, " ");
		owned_str name = xstrndup(names, n);

		json_array_append_new(
		    list, parameter("query", name, query_schema(name)));
		names += n + (names[n] == ' ');
	}
}

static const char *status_of(const struct route *r)
{
	if (strcmp(r->method, "POST") == 0 && r->response &&
	    strcmp(r->response, "Signalled") != 0)
		return "201";
	return strcmp(r->method, "PUT") == 0 ? "201" : "200";
}

static json_t *answers(const struct route *r)
{
	json_t *all = json_object(), *one;

	if (r->run) {
		one = json_object();
		json_set_take(one, "description", json_string("done"));
		if (r->response || r->type)
			json_set_take(one, "content",
				      content(r->type, r->response));
		json_set_take(all, status_of(r), one);
	}
	if (r->response && strcmp(r->response, "Accepted") == 0) {
		one = json_object();
		json_set_take(one, "description",
			      json_string("accepted, not done yet: follow "
					  "Location"));
		json_set_take(one, "content", content(NULL, "Accepted"));
		json_set_take(all, "202", one);
	}
	one = json_object();
	json_set_take(
	    one, "description",
	    json_string(r->run ? "refused" : "not_supported in this version"));
	json_set_take(one, "content", content(NULL, "Error"));
	json_set_take(all, r->run ? "default" : "422", one);
	return all;
}

static json_t *operation(const struct route *r)
{
	json_t *o = json_object(), *params = json_array(), *body;

	json_set_take(o, "summary", json_string(r->summary));
	json_set_take(o, "x-caisson-role", json_string(role_name(r->role)));
	json_set_take(o, "x-caisson-supported", json_boolean(r->run != NULL));
	if (r->side == SIDE_DATA)
		json_set_take(o, "servers",
			      parse("[{\"url\":\"http://127.0.0.1:7710\"}]"));
	if (r->role == ROLE_OPEN)
		json_set_take(o, "security", json_array());
	add_path_params(params, r->path);
	add_query_params(params, r->query);
	json_set_take(o, "parameters", params);
	if (r->run && (r->request || r->stream) &&
	    strcmp(r->method, "GET") != 0) {
		body = json_object();
		json_set_take(body, "required", json_true());
		json_set_take(
		    body, "content",
		    content(r->request ? NULL : "application/octet-stream",
			    r->request));
		json_set_take(o, "requestBody", body);
	}
	json_set_take(o, "responses", answers(r));
	return o;
}

static json_t *paths(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < n_routes; i++) {
		json_t *p = json_object_get(all, routes[i].path);
		char method[16] = { 0 };

		if (!p) {
			p = json_object();
			json_set_take(all, routes[i].path, p);
		}
		for (size_t k = 0; k < 15 && routes[i].method[k]; k++)
			method[k] = (char)(routes[i].method[k] | 0x20);
		json_set_take(p, method, operation(&routes[i]));
	}
	return all;
}

static json_t *error_schema(void)
{
	json_t *s = parse(
	    "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{"
	    "\"error\":{\"type\":\"object\",\"required\":[\"code\","
	    "\"message\",\"cause\",\"remedy\"],\"properties\":{"
	    "\"code\":{\"type\":\"string\"},\"message\":{\"type\":\"string\"},"
	    "\"cause\":{\"enum\":[\"request\",\"policy\",\"quota\","
	    "\"capacity\",\"node\",\"guest\",\"store\",\"provider\"]},"
	    "\"remedy\":{\"type\":\"string\"},\"field\":{\"type\":\"string\"},"
	    "\"retry_after_s\":{\"type\":\"integer\"},"
	    "\"operation\":{\"type\":\"string\"},"
	    "\"request_id\":{\"type\":\"string\"}}}}}");
	json_t *codes = json_array(), *o = s;

	for (const char *const *c = fault_codes(); *c; c++)
		json_array_append_new(codes, json_string(*c));
	o = json_object_get(o, "properties");
	o = json_object_get(o, "error");
	o = json_object_get(o, "properties");
	json_set_take(json_object_get(o, "code"), "examples", codes);
	return s;
}

char *openapi_text(void)
{
	owned_json doc =
	    parse("{\"openapi\":\"3.1.0\",\"info\":{\"title\":"
		  "\"Caisson\",\"version\":\"1\"},"
		  "\"servers\":[{\"url\":\"http://127.0.0.1:7700\"}],"
		  "\"security\":[{\"bearer\":[]},{\"key\":[]}]}");
	owned_str text = NULL;
	json_t *components = json_object(), *all = json_object();

	for (size_t i = 0; i < n_schemas; i++)
		json_set_take(all, schemas[i].name, parse(schemas[i].json));
	json_set_take(all, "Error", error_schema());
	json_set_take(components, "securitySchemes",
		      parse("{\"bearer\":{\"type\":\"http\",\"scheme\":"
			    "\"bearer\"},\"key\":{\"type\":\"apiKey\","
			    "\"in\":\"header\",\"name\":\"X-API-Key\"}}"));
	json_set_take(components, "schemas", all);
	json_set_take(doc, "paths", paths());
	json_set_take(doc, "components", components);
	text = json_dumps(doc, JSON_INDENT(1));
	CHECK(text);
	return xasprintf("%s\n", text);
}
