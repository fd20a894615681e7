/* SPDX-License-Identifier: Apache-2.0 */

/* The small pure modules: cursors, hosts, faults, keys, URLs, guests' answers,
 * commands to nodes. */

#include "api/auth.h"
#include "api/cursor.h"
#include "api/fault.h"
#include "api/guest.h"
#include "api/host.h"
#include "api/idem.h"
#include "api/openapi.h"
#include "api/proxy.h"
#include "api/task.h"
#include "api/url.h"
#include "api/wait.h"
#include "base/map.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "net/json.h"

/* ---- cursors ---- */

TEST(a_cursor_comes_back)
{
	static const int64_t seqs[] = { 0, 1, 255, 1LL << 40, INT64_MAX };
	char text[CURSOR_TEXT];
	int64_t seq;

	for (size_t i = 0; i < ARRAY_SIZE(seqs); i++) {
		cursor_encode('s', seqs[i], text);
		T_TRUE(cursor_decode('s', text, &seq));
		T_INT(seq, seqs[i]);
	}
}

TEST(a_cursor_of_another_list_is_none)
{
	char text[CURSOR_TEXT];
	int64_t seq;

	cursor_encode('s', 7, text);
	T_TRUE(!cursor_decode('o', text, &seq));
	text[0] = 'o'; /* nor is one that was relabelled */
	T_TRUE(!cursor_decode('o', text, &seq));
}

TEST(a_changed_or_cut_cursor_is_none)
{
	char text[CURSOR_TEXT];
	int64_t seq;

	cursor_encode('s', 7, text);
	text[16] = '8';
	T_TRUE(!cursor_decode('s', text, &seq));
	text[16] = '7';
	T_TRUE(cursor_decode('s', text, &seq));
	text[20] = '\0';
	T_TRUE(!cursor_decode('s', text, &seq));
	T_TRUE(!cursor_decode('s', "", &seq));
	T_TRUE(!cursor_decode('s', "sFFFFFFFFFFFFFFFF0000", &seq));
}

/* ---- hosts and origins ---- */

TEST(loopback_names_are_allowed_with_any_port)
{
	T_TRUE(host_allowed("127.0.0.1", NULL, 0));
	T_TRUE(host_allowed("127.0.0.1:7700", NULL, 0));
	T_TRUE(host_allowed("localhost:7700", NULL, 0));
	T_TRUE(host_allowed("LOCALHOST", NULL, 0));
	T_TRUE(host_allowed("[::1]:7700", NULL, 0));
	T_TRUE(host_allowed("[::1]", NULL, 0));
}

TEST(other_names_are_not)
{
	T_TRUE(!host_allowed(NULL, NULL, 0));
	T_TRUE(!host_allowed("", NULL, 0));
	T_TRUE(!host_allowed("evil.example", NULL, 0));
	T_TRUE(!host_allowed("127.0.0.1.evil.example", NULL, 0));
	T_TRUE(!host_allowed("localhost.evil.example:7700", NULL, 0));
	T_TRUE(!host_allowed("evil.example:127.0.0.1", NULL, 0));
	T_TRUE(!host_allowed("127.0.0.2", NULL, 0));
}

TEST(a_malformed_port_is_refused)
{
	T_TRUE(!host_allowed("localhost:", NULL, 0));
	T_TRUE(!host_allowed("localhost:x", NULL, 0));
	T_TRUE(!host_allowed("localhost:7700@evil", NULL, 0));
	T_TRUE(!host_allowed("localhost:1234567", NULL, 0));
	T_TRUE(!host_allowed("[::1", NULL, 0));
	T_TRUE(!host_allowed("[::1]x", NULL, 0));
}

TEST(configured_names_are_allowed)
{
	const char *const names[] = { "api.example", "[fd00::1]" };

	T_TRUE(host_allowed("api.example:443", names, 2));
	T_TRUE(host_allowed("API.example", names, 2));
	T_TRUE(host_allowed("[fd00::1]:7700", names, 2));
	T_TRUE(!host_allowed("xapi.example", names, 2));
}

TEST(origins_are_exact)
{
	const char *const origins[] = { "https://console.example", "null" };

	T_TRUE(origin_allowed(NULL, NULL, 0));
	T_TRUE(origin_allowed("https://console.example", origins, 2));
	T_TRUE(!origin_allowed("http://console.example", origins, 2));
	T_TRUE(!origin_allowed("https://console.example:8443", origins, 2));
	T_TRUE(!origin_allowed("null", origins, 2));
	T_TRUE(!origin_allowed("", origins, 2));
	T_TRUE(!origin_allowed("http://127.0.0.1", NULL, 0));
}

/* ---- keys ---- */

#define KEY "e2b_0123456789abcdef0123456789abcdef01234567"

TEST(keys_come_by_two_headers)
{
	T_STR(auth_key("Bearer " KEY, NULL), KEY);
	T_STR(auth_key("bearer   " KEY, NULL), KEY);
	T_STR(auth_key(NULL, KEY), KEY);
}

TEST(what_has_not_the_form_of_a_key_is_none)
{
	T_TRUE(!auth_key(NULL, NULL));
	T_TRUE(!auth_key("Basic " KEY, NULL));
	T_TRUE(!auth_key("Bearer " KEY " ", NULL));
	T_TRUE(!auth_key(NULL, KEY "0"));
	T_TRUE(!auth_key(NULL, "e2b_"));
	T_TRUE(!auth_key(NULL, "xyz_0123456789abcdef0123456789abcdef01234567"));
	T_TRUE(!auth_key(NULL, "e2b_0123456789ABCDEF0123456789abcdef01234567"));
}

TEST(a_bad_authorization_is_not_healed_by_the_other_header)
{
	T_TRUE(!auth_key("Basic abc", KEY));
}

/* ---- faults ---- */

TEST(every_code_has_one_http_status)
{
	for (const char *const *c = fault_codes(); *c; c++)
		T_TRUE(fault_status(*c) >= 400 && fault_status(*c) < 600);
	T_INT(fault_status("sandbox_ended"), 410);
	T_INT(fault_status("capacity"), 503);
	T_INT(fault_status("no_space"), 507);
	T_INT(fault_status("nonsense"), 0);
}

TEST(a_fault_is_written_with_all_its_parts)
{
	struct fault f;
	owned_str text = NULL;

	fault_set(&f, "capacity", "capacity", "wait", "full: %d", 3);
	text = fault_text(&f, "req_1");
	T_HAS(text, "\"code\":\"capacity\"");
	T_HAS(text, "\"message\":\"full: 3\"");
	T_HAS(text, "\"remedy\":\"wait\"");
	T_HAS(text, "\"retry_after_s\":1");
	T_HAS(text, "\"request_id\":\"req_1\"");
	T_TRUE(!strstr(text, "field"));
}

TEST(a_database_that_is_away_may_be_asked_again)
{
	struct fault f;
	struct err e = { .kind = ERR_UNAVAILABLE, .msg = "gone" };

	fault_of_db(&f, &e);
	T_STR(f.code, "store_unavailable");
	T_INT(f.retry_after_s, 1);
	e.kind = ERR_INTERNAL;
	fault_of_db(&f, &e);
	T_STR(f.code, "internal");
	T_TRUE(!strstr(f.message, "gone")); /* nothing of the inside */
}

static struct fault peer(const char *text)
{
	struct fault f;

	fault_of_peer(&f, "node", 500, text, strlen(text));
	return f;
}

TEST(a_peers_words_are_kept_and_its_codes_checked)
{
	struct fault f = peer("{\"error\":{\"code\":\"no_space\",\"message\":"
			      "\"disk full\",\"cause\":\"store\",\"remedy\":"
			      "\"free some\",\"retry_after_s\":9}}");

	T_STR(f.code, "no_space");
	T_STR(f.cause, "store");
	T_STR(f.message, "disk full");
	T_STR(f.remedy, "free some");
	T_INT(f.retry_after_s, 9);
	f = peer("{\"error\":{\"code\":\"made_up\",\"cause\":\"moon\","
		 "\"message\":\"m\"}}");
	T_STR(f.code, "node_unavailable");
	T_STR(f.cause, "node");
	T_STR(f.message, "m");
}

TEST(a_peer_that_says_nothing_is_unavailable)
{
	T_STR(peer("").code, "node_unavailable");
	T_STR(peer("[]").code, "node_unavailable");
	T_STR(peer("{\"error\":7}").code, "node_unavailable");
	T_STR(peer("not json").code, "node_unavailable");
}

/* ---- URLs ---- */

TEST(escaping_leaves_the_unreserved)
{
	owned_str s = url_escape("/a b/\xc3\xa4?&=%+#._~-");

	T_STR(s, "/a%20b/%C3%A4%3F%26%3D%25%2B%23._~-");
}

TEST(repeated_parameters_are_found_in_order)
{
	const char *path = "/x?label=a%3D1&other=2&label=b=2&xlabel=9&label";
	owned_str a = url_query_nth(path, "label", 0);
	owned_str b = url_query_nth(path, "label", 1);
	owned_str c = url_query_nth(path, "label", 2);

	T_STR(a, "a=1");
	T_STR(b, "b=2");
	T_TRUE(!c);
	T_TRUE(!url_query_nth("/x", "label", 0));
}

TEST(a_broken_escape_in_a_query_is_found_and_named)
{
	owned_str a = url_query_broken("/x?ok=%41&after=%00z");
	owned_str b = url_query_broken("/x?ok=1&path=%4");
	owned_str c = url_query_broken("/x?ok=%41&b=c");

	T_STR(a, "after");
	T_STR(b, "path");
	T_TRUE(!c);
	T_TRUE(!url_query_broken("/x%00"));
}

/* ---- guests ---- */

TEST(a_guests_status_is_clamped)
{
	T_INT(proxy_status(200), 200);
	T_INT(proxy_status(404), 404);
	T_INT(proxy_status(301), 503);
	T_INT(proxy_status(401), 503);
	T_INT(proxy_status(418), 503);
	T_INT(proxy_status(500), 503);
}

TEST(only_named_headers_and_harmless_types_pass)
{
	T_TRUE(proxy_header("etag", "\"x\""));
	T_TRUE(proxy_header("content-type", "application/json"));
	T_TRUE(!proxy_header("content-type", "text/html"));
	T_TRUE(!proxy_header("content-type", "application/json; x=y"));
	T_TRUE(!proxy_header("set-cookie", "a=b"));
	T_TRUE(!proxy_header("location", "/"));
	T_TRUE(!proxy_header("access-control-allow-origin", "*"));
	T_TRUE(!proxy_header("etag", "\xff"));
}

TEST(utf8_is_checked_strictly)
{
	T_TRUE(proxy_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
	T_TRUE(proxy_utf8("", 0));
	T_TRUE(!proxy_utf8("a\0b", 3));
	T_TRUE(!proxy_utf8("\xc0\x80", 2));	    /* overlong */
	T_TRUE(!proxy_utf8("\xed\xa0\x80", 3));	    /* surrogate */
	T_TRUE(!proxy_utf8("\xf4\x90\x80\x80", 4)); /* too large */
	T_TRUE(!proxy_utf8("\xe2\x82", 2));	    /* cut */
	T_TRUE(!proxy_utf8("\x80", 1));
}

TEST(an_exec_names_its_sandbox)
{
	char sb[23];

	T_TRUE(guest_of_exec("ex_abcdefghij0123456789zzzzzzzz", sb));
	T_STR(sb, "sbabcdefghij0123456789");
	T_TRUE(!guest_of_exec("ex_abcdefghij0123456789zzzzzzz", sb));
	T_TRUE(!guest_of_exec("ex_ABCDEFGHIJ0123456789zzzzzzzz", sb));
	T_TRUE(!guest_of_exec("op_abcdefghij0123456789zzzzzzzz", sb));
	T_TRUE(!guest_of_exec("", sb));
}

/* ---- commands to nodes ---- */

TEST(a_command_carries_what_makes_it_safe_to_repeat)
{
	struct task_spec s = { .op = "op_1",
			       .generation = 3,
			       .fence = 2,
			       .hostname = "h",
			       .release = "{\"digest\":\"d\"}",
			       .resources = "{\"vcpus\":1}" };
	owned_str full = task_body("inc", &s, true, 500);
	owned_str part = task_body("inc", &s, false, 500);

	T_HAS(full, "\"incarnation\":\"inc\"");
	T_HAS(full, "\"operation\":\"op_1\"");
	T_HAS(full, "\"generation\":3");
	T_HAS(full, "\"fence\":2");
	T_HAS(full, "\"time_left_ms\":500");
	T_HAS(full, "\"release\":{\"digest\":\"d\"}");
	T_TRUE(!strstr(part, "operation"));
}

TEST(the_node_gets_artifacts_only)
{
	owned_str s = task_release(
	    "sha256:x", "{\"kernel\":\"k\",\"initramfs\":\"i\",\"root\":\"r\","
			"\"root_format\":\"raw\",\"defaults\":{\"env\":{}},"
			"\"provenance\":{}}");

	T_HAS(s, "\"digest\":\"sha256:x\"");
	T_HAS(s, "\"root\":\"r\"");
	T_TRUE(!strstr(s, "defaults"));
	T_TRUE(!strstr(s, "provenance"));
	T_TRUE(!task_release("d", "{\"kernel\":\"k\"}"));
	T_TRUE(!task_release("d", "nonsense"));
}

TEST(three_states_are_final)
{
	T_TRUE(wait_is_final("succeeded"));
	T_TRUE(wait_is_final("failed"));
	T_TRUE(wait_is_final("cancelled"));
	T_TRUE(!wait_is_final("pending"));
	T_TRUE(!wait_is_final("running"));
	T_TRUE(!wait_is_final(""));
}

/* ---- the API's document ---- */

static json_t *document(void)
{
	owned_str text = openapi_text();
	json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	T_TRUE(doc != NULL);
	return doc;
}

TEST(the_document_has_every_route_and_no_other)
{
	owned_json doc = document();
	json_t *paths = json_object_get(doc, "paths"), *path, *op;
	const char *key, *method;
	size_t n = 0;

	for (size_t i = 0; i < n_routes; i++) {
		char lower[16] = { 0 };

		for (size_t k = 0; routes[i].method[k]; k++)
			lower[k] = (char)(routes[i].method[k] | 0x20);
		path = json_object_get(paths, routes[i].path);
		op = json_object_get(path, lower);
		T_TRUE(op != NULL);
		T_INT(json_is_true(json_object_get(op, "x-caisson-supported")),
		      routes[i].run != NULL);
	}
	json_object_foreach(paths, key, path)
	{
		json_object_foreach(path, method, op) n++;
	}
	T_INT(n, n_routes);
}

static void check_refs(const json_t *doc, json_t *v)
{
	json_t *item;
	const char *key;
	size_t i;

	if (json_is_array(v))
		json_array_foreach(v, i, item) check_refs(doc, item);
	if (!json_is_object(v))
		return;
	json_object_foreach(v, key, item)
	{
		const char *s = json_string_value(item);

		if (strcmp(key, "$ref") == 0 && s) {
			json_t *all = json_object_get(
			    json_object_get(doc, "components"), "schemas");

			T_TRUE(strncmp(s, "#/components/schemas/", 21) == 0);
			T_TRUE(json_object_get(all, s + 21) != NULL);
		} else {
			check_refs(doc, item);
		}
	}
}

TEST(every_route_has_a_name_of_its_own)
{
	struct map *seen = map_new();

	for (size_t i = 0; i < n_routes; i++) {
		owned_str id = openapi_id(&routes[i]);

		T_TRUE(*id &&
		       strspn(id, "abcdefghijklmnopqrstuvwxyz_") == strlen(id));
		if (map_set(seen, id, seen))
			test_fail(__FILE__, __LINE__, "%s twice", id);
	}
	map_free(seen);
}

TEST(names_of_routes_follow_from_their_paths)
{
	static const struct {
		const char *method, *path, *id;
	} cases[] = {
		{ "GET", "/v1/sandboxes", "list_sandboxes" },
		{ "GET", "/v1/sandboxes/{id}", "get_sandbox" },
		{ "POST", "/v1/sandboxes/{id}/branches",
		  "create_sandbox_branch" },
		{ "POST", "/v1/operations/{op}/cancel", "cancel_operation" },
		{ "PUT", "/v1/templates/{t}/tags/{tag}", "put_template_tag" },
		{ "GET", "/v1/webhooks/{whk}/deliveries",
		  "list_webhook_deliveries" },
		{ "DELETE", "/v1/sandboxes/{id}", "end_sandbox" },
		{ "PATCH", "/v1/sandboxes/{id}", "update_sandbox" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct route r = { .method = cases[i].method,
					 .path = cases[i].path };
		owned_str id = openapi_id(&r);

		T_STR(id, cases[i].id);
	}
}

TEST(an_answers_properties_are_required_and_a_bodys_are_closed)
{
	owned_str text = openapi_text();
	owned_json v = json_loads(text, 0, NULL);
	json_t *all =
	    json_object_get(json_object_get(v, "components"), "schemas");
	json_t *sandbox = json_object_get(all, "Sandbox");
	json_t *create = json_object_get(all, "SandboxCreate");

	T_INT(json_array_size(json_object_get(sandbox, "required")),
	      json_object_size(json_object_get(sandbox, "properties")));
	T_TRUE(json_is_false(json_object_get(create, "additionalProperties")));
	T_INT(json_array_size(json_object_get(create, "required")), 1);
}

/* ---- If-Match and kept answers ---- */

TEST(an_etag_comes_back_as_a_generation)
{
	char g[IF_MATCH_MAX];

	T_TRUE(if_match_parse("\"7\"", g));
	T_STR(g, "7");
	T_TRUE(if_match_parse("*", g));
	T_STR(g, "");
	T_TRUE(!if_match_parse("7", g));
	T_TRUE(!if_match_parse("\"\"", g));
	T_TRUE(!if_match_parse("W/\"7\"", g));
	T_TRUE(!if_match_parse("\"7\", \"8\"", g));
	T_TRUE(!if_match_parse("\"-7\"", g));
	T_TRUE(!if_match_parse("\"1234567890123456789\"", g));
	T_TRUE(!if_match_parse("", g));
}

TEST(a_kept_answer_holds_no_secret)
{
	owned_str text = idem_without_secrets(
	    "{\"id\":\"1\",\"secret\":\"s\",\"a\":[{\"token\":\"t\","
	    "\"url\":\"u\"}]}");

	T_HAS(text, "\"secret\":null");
	T_HAS(text, "\"token\":null");
	T_HAS(text, "\"url\":\"u\"");
	T_TRUE(!idem_without_secrets("no json"));
}

/* ---- narrowed tokens ---- */

TEST(a_new_route_is_closed_to_narrowed_tokens)
{
	static const struct {
		const char *method, *path;
		unsigned bit;
	} cases[] = {
		{ "GET", "/v1/sandboxes/{id}", ALLOW_ANY },
		{ "PATCH", "/v1/sandboxes/{id}", 0 },
		{ "DELETE", "/v1/sandboxes/{id}", ALLOW_END },
		{ "GET", "/v1/sandboxes", 0 },
		{ "POST", "/v1/sandboxes/{id}/execs", ALLOW_EXEC },
		{ "POST", "/v1/execs/{ex}/signal", ALLOW_EXEC },
		{ "POST", "/v1/sandboxes/{id}/execsomething", 0 },
		{ "PUT", "/v1/sandboxes/{id}/files", ALLOW_FILES },
		{ "GET", "/v1/sandboxes/{id}/ports/{port}/tunnel",
		  ALLOW_PORTS },
		{ "POST", "/v1/tokens", 0 },
		{ "POST", "/v1/keys", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct route r = { .method = cases[i].method,
					 .path = cases[i].path };

		T_INT(route_allow(&r), cases[i].bit);
	}
}

TEST(the_document_in_the_tree_is_the_one_served)
{
	owned_str text = openapi_text();
	owned_str file = NULL;
	size_t n;

	T_INT(file_read(OPENAPI_FILE, 1 << 20, &file, &n, NULL), 0);
	if (strcmp(file, text) != 0)
		test_fail(__FILE__, __LINE__,
			  "run: caisson-api --openapi > doc/openapi.json");
}

TEST(every_reference_of_the_document_resolves)
{
	owned_json doc = document();

	check_refs(doc, doc);
}

TEST(the_documents_error_names_all_codes)
{
	owned_str text = openapi_text();

	for (const char *const *c = fault_codes(); *c; c++)
		T_HAS(text, *c);
}

TEST(the_reference_names_every_route)
{
	FILE *file = fopen(API_MD, "r");
	static char text[131072];
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	T_TRUE(n > 1000);
	for (size_t i = 0; i < n_routes; i++) {
		owned_str call =
		    xasprintf("`%s %s`", routes[i].method, routes[i].path);

		if (!strstr(text, call))
			test_fail(__FILE__, __LINE__,
				  "doc/api.md does not name %s", call);
	}
}
