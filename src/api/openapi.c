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

/* What a path's parameter is. */
static json_t *path_schema(const char *name)
{
	static const struct {
		const char *name, *json;
	} all[] = {
		{ "id", "{\"type\":\"string\",\"description\":\"id, or @name "
			"of the living sandbox\"}" },
		{ "ex", "{\"type\":\"string\",\"pattern\":"
			"\"^ex_[a-z0-9]{28}$\"}" },
		{ "op", "{\"type\":\"string\",\"pattern\":"
			"\"^op_[a-z0-9]{20}$\"}" },
		{ "key", "{\"type\":\"string\",\"pattern\":"
			 "\"^key_[a-z0-9]{20}$\"}" },
		{ "port", "{\"type\":\"integer\",\"minimum\":1,"
			  "\"maximum\":65535}" },
		{ "t", "{\"type\":\"string\",\"description\":\"a template's "
		       "name\"}" },
		{ "sha256", "{\"type\":\"string\",\"description\":\"64 hex "
			    "digits, with or without sha256:\"}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return parse(all[i].json);
	return parse("{\"type\":\"string\"}");
}

static void add_path_params(json_t *list, const char *path)
{
	for (const char *p = strchr(path, '{'); p; p = strchr(p + 1, '{')) {
		owned_str name = xstrndup(p + 1, strcspn(p + 1, "}"));

		json_array_append_new(
		    list, parameter("path", name, path_schema(name)));
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

static bool changes(const struct route *r)
{
	return strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0;
}

static void add_header_params(json_t *list, const struct route *r)
{
	if (r->side == SIDE_CONTROL && changes(r) && !r->stream)
		json_array_append_new(
		    list,
		    parameter("header", "Idempotency-Key",
			      parse("{\"type\":\"string\",\"minLength\":1,"
				    "\"maxLength\":128,\"description\":\"the "
				    "same key and request again: the same "
				    "answer; kept for 24 hours\"}")));
	if (route_conditional(r))
		json_array_append_new(
		    list, parameter("header", "If-Match",
				    parse("{\"type\":\"string\",\"description\""
					  ":\"an ETag, or *; 412 if the "
					  "generation is another\"}")));
}

/* ---- names ---- */

static const struct {
	const char *method, *path, *id;
} ids[] = {
	{ "GET", "/healthz", "health" },
	{ "GET", "/readyz", "ready" },
	{ "GET", "/metrics", "prometheus" },
	{ "GET", "/v1/openapi.json", "openapi" },
	{ "GET", "/v1/whoami", "whoami" },
	{ "DELETE", "/v1/sandboxes/{id}", "end_sandbox" },
	{ "DELETE", "/v1/keys/{key}", "revoke_key" },
	{ "DELETE", "/v1/execs/{ex}", "forget_exec" },
	{ "POST", "/v1/sandboxes/{id}/run", "run_in_sandbox" },
	{ "POST", "/v1/execs/{ex}/stdin", "write_exec_stdin" },
	{ "POST", "/v1/execs/{ex}/size", "resize_exec" },
	{ "POST", "/v1/execs/{ex}/token", "create_exec_token" },
	{ "GET", "/v1/execs/{ex}/attach", "attach_exec" },
	{ "GET", "/v1/sandboxes/{id}/logs", "get_sandbox_logs" },
	{ "POST", "/v1/sandboxes/{id}/ports", "open_sandbox_port" },
	{ "DELETE", "/v1/sandboxes/{id}/ports", "close_sandbox_port" },
	{ "GET", "/v1/quotas", "get_quota" },
	{ "POST", "/v1/releases/audit", "audit_releases" },
	{ "GET", "/v1/audit", "list_audit" },
	{ "GET", "/v1/sandboxes/{id}/files", "read_file" },
	{ "HEAD", "/v1/sandboxes/{id}/files", "head_file" },
	{ "PUT", "/v1/sandboxes/{id}/files", "write_file" },
	{ "DELETE", "/v1/sandboxes/{id}/files", "remove_file" },
	{ "GET", "/v1/sandboxes/{id}/files/list", "list_files" },
	{ "GET", "/v1/sandboxes/{id}/files/stat", "stat_file" },
	{ "POST", "/v1/sandboxes/{id}/files/mkdir", "make_directory" },
	{ "POST", "/v1/sandboxes/{id}/files/move", "move_file" },
	{ "GET", "/v1/sandboxes/{id}/archive", "download_archive" },
	{ "PUT", "/v1/sandboxes/{id}/archive", "upload_archive" },
	{ "GET", "/v1/sandboxes/{id}/watch", "watch_files" },
	{ "GET", "/v1/sandboxes/{id}/ports/{port}/tunnel", "tunnel" },
	{ "POST", "/v1/templates/{t}/builds", "create_template_build" },
	{ "POST", "/v1/credentials/{crd}/versions", "rotate_credential" },
};

static bool is_plural(const char *s, size_t n)
{
	return n > 2 && s[n - 1] == 's' && s[n - 2] != 's' &&
	       strncmp(s, "egress", n) != 0 && strncmp(s, "metrics", n) != 0;
}

/* "sandboxes" -> "sandbox", "deliveries" -> "delivery" */
static void put_singular(struct buf *b, const char *s, size_t n)
{
	if (!is_plural(s, n))
		buf_put(b, s, n);
	else if (n > 4 && strncmp(s + n - 3, "ies", 3) == 0)
		buf_printf(b, "%.*sy", (int)n - 3, s);
	else if (n > 4 && (strncmp(s + n - 3, "xes", 3) == 0 ||
			   strncmp(s + n - 3, "hes", 3) == 0))
		buf_put(b, s, n - 2);
	else
		buf_put(b, s, n - 1);
}

static const char *verb_of(const char *method, bool plural, bool item)
{
	if (strcmp(method, "GET") == 0)
		return plural && !item ? "list" : "get";
	if (strcmp(method, "POST") == 0)
		return plural ? "create" : NULL; /* the last word is the verb */
	if (strcmp(method, "PATCH") == 0)
		return "update";
	return strcmp(method, "PUT") == 0 ? "put" : "delete";
}

/* The path's last word, and whether a parameter stands behind it. */
static const char *last_word(const char *path, size_t *ret_n, bool *ret_item)
{
	const char *last = path, *p = path;

	*ret_item = false;
	*ret_n = 0;
	while (*p == '/') {
		size_t n = strcspn(++p, "/");

		*ret_item = *p == '{';
		if (*p != '{') {
			last = p;
			*ret_n = n;
		}
		p += n;
	}
	return last;
}

char *openapi_id(const struct route *r)
{
	struct buf b;
	size_t n_last;
	bool item;
	const char *last = last_word(r->path, &n_last, &item), *verb;
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (strcmp(ids[i].method, r->method) == 0 &&
		    strcmp(ids[i].path, r->path) == 0)
			return xstrdup(ids[i].id);
	verb = verb_of(r->method, is_plural(last, n_last), item);
	buf_init(&b, 0);
	if (verb)
		buf_puts(&b, verb);
	else
		buf_put(&b, last, n_last);
	for (const char *p = r->path; *p == '/';) {
		size_t n = strcspn(++p, "/");

		if (*p != '{' && strncmp(p, "v1/", 3) != 0 &&
		    !(p == last && !verb)) {
			buf_puts(&b, "_");
			if (p == last && verb && strcmp(verb, "list") == 0)
				buf_put(&b, p, n);
			else
				put_singular(&b, p, n);
		}
		p += n;
	}
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}

/* ---- answers ---- */

/* Where neither the method nor the schemas say it. */
static const struct {
	const char *method, *path;
	int status[2];
} statuses[] = {
	{ "GET", "/v1/execs/{ex}/attach", { 101 } },
	{ "GET", "/v1/sandboxes/{id}/ports/{port}/tunnel", { 101 } },
	{ "DELETE", "/v1/execs/{ex}", { 204 } },
	{ "POST", "/v1/execs/{ex}/signal", { 204 } },
	{ "POST", "/v1/execs/{ex}/size", { 204 } },
	{ "POST", "/v1/sandboxes/{id}/ports", { 201, 200 } },
	{ "GET", "/v1/sandboxes/{id}/files", { 200, 206 } },
	{ "HEAD", "/v1/sandboxes/{id}/files", { 200, 206 } },
	{ "PUT", "/v1/sandboxes/{id}/files", { 201, 200 } },
	{ "DELETE", "/v1/sandboxes/{id}/files", { 204 } },
	{ "POST", "/v1/sandboxes/{id}/files/mkdir", { 201, 200 } },
};

int openapi_status(const struct route *r, unsigned i)
{
	const char *q = r->request;
	size_t n = q ? strlen(q) : 0;

	if (!r->run)
		return 0;
	for (size_t k = 0; k < ARRAY_SIZE(statuses); k++)
		if (strcmp(statuses[k].method, r->method) == 0 &&
		    strcmp(statuses[k].path, r->path) == 0)
			return statuses[k].status[i];
	if (i)
		return 0;
	if (strcmp(r->method, "POST") == 0 && q &&
	    ((n > 6 && strcmp(q + n - 6, "Create") == 0) ||
	     strcmp(q, "Build") == 0))
		return 201;
	return r->response || r->type ? 200 : 204;
}

static json_t *header(const char *what)
{
	json_t *h = parse("{\"schema\":{\"type\":\"string\"}}");

	json_set_take(h, "description", json_string(what));
	return h;
}

static json_t *headers_of(const struct route *r, bool later)
{
	json_t *all = json_object();

	json_set_take(all, "Request-Id",
		      header("names this request in the server's log"));
	if (later)
		json_set_take(all, "Location", header("the operation"));
	if (r->side == SIDE_CONTROL && changes(r) && !r->stream)
		json_set_take(all, "Idempotent-Replayed",
			      header("true: the answer of an earlier request"));
	if (!later && r->response && strcmp(r->response, "Accepted") != 0 &&
	    (route_conditional(r) ||
	     strcmp(r->path, "/v1/sandboxes/{id}") == 0 ||
	     strcmp(r->path, "/v1/templates/{t}") == 0 ||
	     strcmp(r->path, "/v1/quotas") == 0))
		json_set_take(all, "ETag", header("the generation"));
	return all;
}

static void add_answer(json_t *all, const char *status, const char *what,
		       json_t *head, json_t *body)
{
	json_t *one = json_object();

	json_set_take(one, "description", json_string(what));
	if (head)
		json_set_take(one, "headers", head);
	if (body)
		json_set_take(one, "content", body);
	json_set_take(all, status, one);
}

static json_t *answers(const struct route *r)
{
	json_t *all = json_object();
	char status[16];

	for (unsigned i = 0; i < 2 && openapi_status(r, i); i++) {
		int s = openapi_status(r, i);

		snprintf(status, sizeof(status), "%d", s);
		add_answer(all, status, "done", headers_of(r, false),
			   (r->response || r->type) && s != 204 && s != 101
			       ? content(r->type, r->response)
			       : NULL);
	}
	if (r->response && strcmp(r->response, "Accepted") == 0 && r->query &&
	    strstr(r->query, "wait_s") && changes(r))
		add_answer(all, "202",
			   "accepted, not done yet: follow Location",
			   headers_of(r, true), content(NULL, "Accepted"));
	if (r->role != ROLE_OPEN) {
		add_answer(all, "401", "no key, or not a good one", NULL,
			   content(NULL, "Error"));
		add_answer(all, "403", "not with this role, or this token",
			   NULL, content(NULL, "Error"));
		add_answer(all, "429", "too many calls, or a quota is reached",
			   NULL, content(NULL, "Error"));
	}
	if (strchr(r->path, '{'))
		add_answer(all, "404", "no such thing, or another tenant's",
			   NULL, content(NULL, "Error"));
	if (route_conditional(r))
		add_answer(all, "412", "the generation is another", NULL,
			   content(NULL, "Error"));
	add_answer(all, r->run ? "default" : "422",
		   r->run ? "refused" : "not_supported in this version", NULL,
		   content(NULL, "Error"));
	return all;
}

/* The path's first word: what the call is about. */
static json_t *tags_of(const struct route *r)
{
	const char *p =
	    strncmp(r->path, "/v1/", 4) == 0 ? r->path + 4 : "server";
	json_t *all = json_array();

	json_array_append_new(all, json_stringn(p, strcspn(p, "/")));
	return all;
}

static json_t *scopes_of(const struct route *r)
{
	const char *name = allow_name(route_allow(r));

	if (name)
		return json_string(name);
	return route_allow(r) == ALLOW_ANY ? json_string("any") : json_null();
}

static json_t *operation(const struct route *r)
{
	json_t *o = json_object(), *params = json_array(), *body;
	owned_str id = openapi_id(r);

	json_set_take(o, "operationId", json_string(id));
	json_set_take(o, "tags", tags_of(r));
	json_set_take(o, "summary", json_string(r->summary));
	json_set_take(o, "x-caisson-role", json_string(role_name(r->role)));
	json_set_take(o, "x-caisson-token", scopes_of(r));
	json_set_take(o, "x-caisson-supported", json_boolean(r->run != NULL));
	if (r->side == SIDE_DATA)
		json_set_take(o, "servers",
			      parse("[{\"url\":\"http://127.0.0.1:7710\"}]"));
	if (r->role == ROLE_OPEN)
		json_set_take(o, "security", json_array());
	add_path_params(params, r->path);
	add_query_params(params, r->query);
	add_header_params(params, r);
	json_set_take(o, "parameters", params);
	if (r->run && (r->request || r->stream) && changes(r)) {
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
	    "\"message\",\"cause\",\"remedy\",\"request_id\"],"
	    "\"properties\":{"
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

/* An answer's properties are all there, unless they say otherwise. */
static void require_all(json_t *v)
{
	json_t *props, *one, *need;
	const char *key;
	size_t i;

	json_array_foreach(v, i, one) require_all(one);
	json_object_foreach(v, key, one) require_all(one);
	props = json_object_get(v, "properties");
	if (!json_is_object(props) || json_object_get(v, "required"))
		return;
	if (json_is_string(json_object_get(v, "type")) &&
	    strcmp(json_string_value(json_object_get(v, "type")), "object") !=
		0)
		return;
	need = json_array();
	json_object_foreach(props, key,
			    one) if (!json_object_get(one, "x-optional"))
	    json_array_append_new(need, json_string(key));
	json_set_take(v, "required", need);
}

static void add_schema(json_t *all, const struct schema *s, bool closed)
{
	json_t *v = parse(s->json);

	CHECK(!json_object_get(all, s->name)); /* said twice */
	if (closed)
		require_all(v);
	json_set_take(all, s->name, v);
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
		add_schema(all, &schemas[i], false);
	for (size_t i = 0; i < n_control_schemas; i++)
		add_schema(all, &control_schemas[i], true);
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
