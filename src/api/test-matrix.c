/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every route of the table, asked by everybody who may not: without a key, with
 * a wrong one, with another tenant's, with a role that is too low, with a token
 * that was narrowed. The table says what is right, so a new route is tested by
 * being there.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/route.h"
#include "api/test-rig.h"
#include "api/token.h"
#include "base/own.h"
#include "base/test.h"
#include "db/test-cluster.h"

#define WRONG "e2b_9999999999999999999999999999999999999999"

/* What belongs to the default tenant. */
static char sandbox[32], exec_id[40], operation[32], key_id[32], tenant[32];

static const char *value_of(const char *name)
{
	static const struct {
		const char *name, *value;
	} all[] = {
		{ "id", sandbox },
		{ "ex", exec_id },
		{ "op", operation },
		{ "key", key_id },
		{ "ten", tenant },
		{ "t", "private" },
		{ "tag", "latest" },
		{ "n", "n1" },
		{ "port", "8080" },
		{ "snp", "snp_aaaaaaaaaaaaaaaaaaaa" },
		{ "p", "profile" },
		{ "crd", "crd_aaaaaaaaaaaaaaaaaaaa" },
		{ "whk", "whk_aaaaaaaaaaaaaaaaaaaa" },
		{ "sha256",
		  "sha256:cccccccccccccccccccccccccccccccccccccccccccc"
		  "cccccccccccccccccccc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].value;
	return "x";
}

static char *path_of(const struct route *r)
{
	struct buf b;
	char *text;

	buf_init(&b, 0);
	for (const char *p = r->path; *p;) {
		size_t n = strcspn(p, "{");
		char name[32];

		buf_printf(&b, "%.*s", (int)n, p);
		p += n;
		if (!*p)
			break;
		n = strcspn(p, "}");
		snprintf(name, sizeof(name), "%.*s", (int)n - 1, p + 1);
		buf_puts(&b, value_of(name));
		p += n + 1;
	}
	if (r->query && strstr(r->query, "path"))
		buf_printf(&b, "?path=/etc/hostname%s",
			   strstr(r->query, " to ") ? "&to=/tmp/x" : "");
	else if (r->query && strcmp(r->query, "port") == 0)
		buf_puts(&b, "?port=8080");
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}

/* A body that would be taken, so that a refusal is about who asks. */
static const char *body_of(const struct route *r)
{
	static const struct {
		const char *schema, *body;
	} all[] = {
		{ "SandboxCreate", BASE },
		{ "ExecCreate", "{\"cmd\":[\"id\"]}" },
		{ "Signal", "{\"name\":\"TERM\"}" },
		{ "Size", "{\"cols\":80,\"rows\":24}" },
		{ "TagPut", "{\"release\":\"sha256:cccccccccccccccccccccccccc"
			    "cccccccccccccccccccccccccccccccccccccc\"}" },
		{ "PortSet", "{\"port\":8080,\"access\":\"public\"}" },
		{ "TenantCreate", "{\"name\":\"matrix\"}" },
		{ "ProjectCreate", "{\"name\":\"matrix\"}" },
		{ "TemplateCreate", "{\"name\":\"matrix\"}" },
		{ "KeyCreate", "{\"name\":\"m\",\"role\":\"viewer\"}" },
	};

	if (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0)
		return NULL;
	for (size_t i = 0; r->request && i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].schema, r->request) == 0)
			return all[i].body;
	return r->request ? "{}" : NULL;
}

/* The status alone: what streams is left then. */
static int ask(const struct route *r, const char *key, bool *ret_leak)
{
	owned_str path = path_of(r);
	struct call c;
	const char *text;
	int status;

	rig_send(&c, &(struct ask){ .method = r->method,
				    .path = path,
				    .key = key,
				    .body = body_of(r),
				    .data = r->side == SIDE_DATA });
	for (int i = 0; i < 1000 && !c.status && !c.done; i++)
		loop_once(rig_loop, 20);
	for (int i = 0; i < 20 && !c.done; i++)
		loop_once(rig_loop, 2);
	status = c.status;
	text = buf_cstr(&c.body);
	if (ret_leak)
		*ret_leak = status < 300 && text && strstr(text, sandbox + 2);
	if (text && status >= 400 &&
	    (strstr(text, "caisson.") || strstr(text, "SELECT") ||
	     strstr(text, ".sql") || strstr(text, "src/")))
		test_fail(__FILE__, __LINE__, "%s %s tells of its inside: %s",
			  r->method, r->path, text);
	rig_end(&c);
	return status;
}

static void wrong(const struct route *r, const char *who, int got,
		  const char *expected)
{
	test_fail(__FILE__, __LINE__, "%s %s asked %s: %d, expected %s",
		  r->method, r->path, who, got, expected);
}

static void belongings(void)
{
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 201);
	snprintf(sandbox, sizeof(sandbox), "%s", rig_field("sandbox.id"));
	snprintf(operation, sizeof(operation), "%s", rig_field("operation.id"));
	snprintf(exec_id, sizeof(exec_id), "ex_%.20saaaaaaaa", sandbox + 2);
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"m\",\"role\":\"viewer\"}"),
	      201);
	snprintf(key_id, sizeof(key_id), "%s", rig_field("id"));
	T_INT(ASK("GET", "/v1/whoami", DEV), 200);
	snprintf(tenant, sizeof(tenant), "%s", rig_field("tenant.id"));
	test_cluster_sql(
	    "INSERT INTO caisson.templates (tenant, project, name) "
	    "SELECT p.tenant, p.id, 'private' FROM caisson.projects p JOIN "
	    "caisson.tenants t ON t.id = p.tenant WHERE t.name = 'default' "
	    "AND p.name = 'default' ON CONFLICT DO NOTHING;"
	    "INSERT INTO caisson.template_releases (tenant, project, digest, "
	    "manifest, template, created_by) SELECT p.tenant, p.id, "
	    "'sha256:' || repeat('c', 64), '{}', 'private', 'test' FROM "
	    "caisson.projects p JOIN caisson.tenants t ON t.id = p.tenant "
	    "WHERE t.name = 'default' AND p.name = 'default' "
	    "ON CONFLICT DO NOTHING;"
	    "SELECT caisson.tag_set(p.tenant, p.id, 'private', 'latest', "
	    "'sha256:' || repeat('c', 64)) FROM caisson.projects p JOIN "
	    "caisson.tenants t ON t.id = p.tenant WHERE t.name = 'default' "
	    "AND p.name = 'default'");
}

static void unharmed(void)
{
	char path[100];

	snprintf(path, sizeof(path), "/v1/sandboxes/%s", sandbox);
	T_INT(ASK("GET", path, DEV), 200);
	T_STR(rig_field("state"), "running");
	T_STR(rig_last.etag, "\"1\"");
	T_INT(ASK("GET", "/v1/templates/private", DEV), 200);
	T_TRUE(*rig_field("release"));
	T_INT(rig_fake.n_end, 0);
	T_INT(rig_fake.n_data, 0);
	{
		owned_str sql =
		    xasprintf("SELECT 1 / (revoked_at IS NULL)::int FROM "
			      "caisson.api_keys WHERE id = '%s'",
			      key_id);

		test_cluster_sql(sql);
	}
}

TEST(without_a_key_every_route_is_401)
{
	rig_up();
	belongings();
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		int status = ask(r, NULL, NULL);

		if (r->role == ROLE_OPEN ? status == 401 : status != 401)
			wrong(r, "without a key", status, "401 unless open");
	}
	unharmed();
	rig_down();
}

TEST(with_a_wrong_key_every_route_is_401)
{
	rig_up();
	belongings();
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		int status = ask(r, WRONG, NULL);

		if (r->role == ROLE_OPEN ? status == 401 : status != 401)
			wrong(r, "with a wrong key", status, "401 unless open");
	}
	unharmed();
	rig_down();
}

/* Things that are one tenant's, as the path names them. */
static bool names_a_thing(const struct route *r)
{
	static const char *const kinds[] = { "{id}",  "{ex}",  "{op}",
					     "{key}", "{t}",   "{snp}",
					     "{crd}", "{whk}", "{sha256}" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strstr(r->path, kinds[i]))
			return true;
	return false;
}

/* A list filtered by a template's name is empty, not 404; a build of a name
 * that is free here is one's own. */
static bool own_name(const struct route *r)
{
	return strstr(r->path, "/builds") != NULL;
}

TEST(another_tenants_key_finds_nothing_and_changes_nothing)
{
	rig_up();
	belongings();
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		bool leak = false;
		int status = ask(r, STRANGER, &leak); /* an admin there */

		if (r->role == ROLE_OPEN)
			continue;
		if (leak)
			wrong(r, "by a stranger", status, "no foreign id");
		if (r->role > ROLE_ADMIN) {
			if (status != 403)
				wrong(r, "by an admin", status, "403");
		} else if (!r->run) {
			if (status != 422)
				wrong(r, "though planned", status, "422");
		} else if (status == 426) {
			continue; /* no WebSocket was asked for: nothing is
				   * looked at before that */
		} else if (names_a_thing(r) && !own_name(r) && status != 404) {
			wrong(r, "by a stranger", status, "404");
		}
	}
	unharmed();
	rig_down();
}

TEST(a_viewer_may_what_the_table_says)
{
	rig_up();
	belongings();
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		int status;

		if (r->role <= ROLE_VIEWER) /* elsewhere, one by one */
			continue;
		status = ask(r, VIEWER, NULL);
		if (status != 403)
			wrong(r, "by a viewer", status, "403");
	}
	unharmed();
	rig_down();
}

TEST(a_developer_may_not_what_is_an_admins)
{
	rig_up();
	belongings();
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		int status;

		if (r->role <= ROLE_DEVELOPER)
			continue;
		status = ask(r, DEV, NULL);
		if (status != 403)
			wrong(r, "by a developer", status, "403");
	}
	unharmed();
	rig_down();
}

static void mint(const char *of, unsigned allow, int64_t in_s,
		 char ret[TOKEN_TEXT])
{
	struct token t = { .kind = TOKEN_SCOPED,
			   .allow = allow,
			   .exp_s = (int64_t)time(NULL) + in_s };

	T_INT(ASK("GET", "/v1/whoami", DEV), 200);
	snprintf(t.key, sizeof(t.key), "%s", rig_field("key.id"));
	snprintf(t.prefix, sizeof(t.prefix), "%s", rig_field("key.prefix"));
	snprintf(t.subject, sizeof(t.subject), "%s", of);
	token_mint(rig_api->secret, &t, ret);
}

TEST(a_narrowed_token_may_only_what_it_names)
{
	char token[TOKEN_TEXT];

	rig_up();
	belongings();
	mint(sandbox, ALLOW_FILES, 60, token);
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		unsigned bit = route_allow(r);
		int status;

		if (r->role == ROLE_OPEN || bit == ALLOW_ANY ||
		    bit == ALLOW_FILES)
			continue;
		status = ask(r, token, NULL);
		if (status != 403)
			wrong(r, "with a token for files", status, "403");
	}
	unharmed();
	T_INT(ASK("GET", "/v1/whoami", token), 200);
	T_STR(rig_field("scope.sandbox"), sandbox);
	rig_down();
}

TEST(a_narrowed_token_knows_no_other_sandbox)
{
	char token[TOKEN_TEXT];

	rig_up();
	belongings();
	mint("sbaaaaaaaaaaaaaaaaaaaa",
	     ALLOW_EXEC | ALLOW_FILES | ALLOW_PORTS | ALLOW_END, 60, token);
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];
		int status;

		if (!route_allow(r) || !strchr(r->path, '{'))
			continue;
		status = ask(r, token, NULL);
		if (status != 404)
			wrong(r, "with a token of another sandbox", status,
			      "404");
	}
	unharmed();
	rig_down();
}

TEST(a_token_ends_with_its_time_and_with_its_key)
{
	char token[TOKEN_TEXT], path[100];

	rig_up();
	belongings();
	mint(sandbox, ALLOW_END, -1, token);
	T_INT(ASK("GET", "/v1/whoami", token), 401);
	T_STR(rig_field("error.code"), "token_expired");
	mint(sandbox, ALLOW_END, 600, token);
	snprintf(path, sizeof(path), "/v1/sandboxes/%s", sandbox);
	T_INT(ASK("GET", path, token), 200);
	token[60] = token[60] == 'a' ? 'b' : 'a';
	T_INT(ASK("GET", path, token), 401);
	T_INT(ASK("DELETE", path, token), 401);
	rig_down();
}

/* ---- row security, as the role itself ---- */

TEST(the_database_shows_a_tenant_its_own_rows_only)
{
	static const char *const tables[] = {
		"tenants",    "projects",	  "api_keys", "sandboxes",
		"operations", "idempotency_keys", "quotas",   "ports",
	};

	rig_up();
	belongings();
	T_INT(ASK("PUT", "/v1/quotas", OPERATOR,
		  "{\"limits\":{\"sandboxes\":null,\"vcpus\":null,"
		  "\"memory_mib\":null,\"disk_mib\":null}}"),
	      200);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		owned_str sql = xasprintf(
		    "BEGIN; SET LOCAL ROLE caisson_api; "
		    "SELECT caisson.scope((SELECT 'ten_nobody')); "
		    "SELECT 1 / (count(*) = 0)::int FROM caisson.%s; COMMIT",
		    tables[i]);

		test_cluster_sql(sql);
	}
	test_cluster_sql(
	    "BEGIN; SET LOCAL ROLE caisson_api; "
	    "SELECT caisson.scope('ten_nobody'); "
	    "SELECT 1 / (count(*) = 0)::int FROM caisson.templates t "
	    "WHERE NOT t.public; "
	    "SELECT 1 / (count(*) = 0)::int FROM caisson.template_releases r "
	    "WHERE NOT r.public; COMMIT");
	rig_down();
}

/* ---- guessing ---- */

TEST(who_guesses_keys_is_slowed_down_and_who_has_one_is_not)
{
	char guess[45];
	int limited = 0;

	rig_guess_burst = 5;
	rig_up();
	rig_guess_burst = 100000;
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200);
	for (int i = 0; i < 12; i++) {
		snprintf(guess, sizeof(guess), "e2b_%08x%032x", i, i);
		limited += ASK("GET", "/v1/whoami", guess) == 429;
	}
	T_TRUE(limited >= 5);
	T_STR(rig_field("error.code"), "rate_limited");
	T_TRUE(*rig_last.retry_after);
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200);
	rig_down();
}

TEST(a_key_that_calls_too_fast_is_told_when_to_come_back)
{
	int limited = 0;

	rig_rate = 2;
	rig_up();
	rig_rate = 0;
	for (int i = 0; i < 30; i++)
		limited += ASK("GET", "/v1/whoami", VIEWER) == 429;
	T_TRUE(limited > 0);
	T_INT(ASK("GET", "/healthz"), 200);
	rig_down();
}

/* Another process revokes: this one notices while a call is open. */
TEST(a_call_that_waits_is_cut_when_its_key_dies_elsewhere)
{
	struct call open;

	rig_up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"w\",\"role\":\"developer\"}"),
	      201);
	rig_fake.mode = FAKE_HANGS;
	rig_send(&open, &(struct ask){ "POST", "/v1/sandboxes?wait_s=60",
				       rig_field("secret"), BASE });
	while (!rig_fake.n_ensure)
		loop_once(rig_loop, 20);
	test_cluster_sql("UPDATE caisson.api_keys SET revoked_at = now() "
			 "WHERE name = 'w'");
	rig_wait(&open);
	T_TRUE(open.cut);
	rig_end(&open);
	rig_down();
}
