/* SPDX-License-Identifier: Apache-2.0 */

/* key, token, tenant, project, quota: who may do how much. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "cli/sandbox.h"
#include "net/json.h"

static const struct column key_cols[] = {
	{ "ID", "id", COL_TEXT },
	{ "NAME", "name", COL_TEXT },
	{ "ROLE", "role", COL_TEXT },
	{ "PREFIX", "prefix", COL_TEXT },
	{ "PROJECT", "project", COL_TEXT },
	{ "AGE", "created_at", COL_AGE },
	{ "REVOKED", "revoked_at", COL_TIME },
};
static const struct column key_lines[] = {
	{ "id", "id", COL_TEXT },
	{ "name", "name", COL_TEXT },
	{ "role", "role", COL_TEXT },
	{ "project", "project", COL_TEXT },
	{ "revoked", "revoked_at", COL_TIME },
	{ "secret (shown once)", "secret", COL_TEXT },
};

static int key_ls(struct cli *c, int argc, char **argv)
{
	const char *project = NULL;
	const struct arg_opt opts[] = {
		{ "project", 0, ARG_STR, &project, "PRJ",
		  "of this project (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "key ls [options]",
				.summary = "Keys of the project; never their "
					   "secrets.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	owned_str p = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	p = client_escape(project ? project : "");
	path = xasprintf("/v1/keys%s%s", project ? "?project=" : "", p);
	return list_print(c, path, 0, key_cols, ARRAY_SIZE(key_cols));
}

static int key_create(struct cli *c, int argc, char **argv)
{
	const char *role = "developer", *name = NULL, *project = NULL;
	const struct arg_opt opts[] = {
		{ "role", 0, ARG_STR, &role, "ROLE",
		  "viewer, developer (the default), admin, operator", 0, 0 },
		{ "name", 0, ARG_STR, &name, "NAME", "what it is for", 0, 0 },
		{ "project", 0, ARG_STR, &project, "PRJ",
		  "of this project (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "key create [options]",
		.summary = "Make a key; its secret is shown once.",
		.more = "  caisson key create --role viewer --name dashboard\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = json_object();
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest < argc)
		return cli_usage("key create takes no words; --name NAME");
	json_set_take(body, "role", json_string(role));
	if (name)
		json_set_take(body, "name", json_string(name));
	if (project)
		json_set_take(body, "project", json_string(project));
	return call_print(c, "POST", "/v1/keys", body, key_lines,
			  ARRAY_SIZE(key_lines));
}

/* DELETE /v1/KIND/WORD */
static int delete_one(struct cli *c, const struct args *a, int argc,
		      char **argv, const char *kind, const struct column *lines,
		      size_t n_lines)
{
	owned_str id = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("caisson %s", a->usage);
	id = client_escape(argv[rest]);
	path = xasprintf("/v1/%s/%s", kind, id);
	return call_print(c, "DELETE", path, NULL, lines, n_lines);
}

static int key_revoke(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "key revoke KEY",
				.summary = "A key, and every token made with "
					   "it, is worth nothing from now on.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return delete_one(c, &a, argc, argv, "keys", key_lines,
			  ARRAY_SIZE(key_lines));
}

int verb_key(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "key", "list keys", key_ls },
		{ "create", "add", "key", "make one", key_create },
		{ "revoke", "rm", "key", "end one", key_revoke },
	};
	static const struct verb_group g = {
		.name = "key",
		.summary = "Keys to the API (role admin).",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
		.alone = "ls",
	};

	return verb_group(c, &g, argc, argv);
}

/* ---- token ---- */

static json_t *comma_words(const char *s)
{
	json_t *v = json_array();

	while (*s) {
		size_t n = strcspn(s, ",");

		if (n)
			json_array_append_new(v, json_stringn(s, n));
		s += n + (s[n] == ',');
	}
	return v;
}

int verb_token(struct cli *c, int argc, char **argv)
{
	static const struct column lines[] = {
		{ "token (shown once)", "token", COL_TEXT },
		{ "allow", "allow", COL_JSON },
		{ "expires", "expires_at", COL_TIME },
	};
	const char *allow = "exec,files";
	int64_t ttl_s = 3600;
	const struct arg_opt opts[] = {
		{ "allow", 0, ARG_STR, &allow, "WORDS",
		  "of exec,files,ports,end (exec,files)", 0, 0 },
		{ "ttl", 0, ARG_INT, &ttl_s, "S", "good for S seconds (3600)",
		  1, 86400 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "token [options] SB",
		.summary = "Narrow this key to one sandbox, for a browser or "
			   "the code inside.",
		.more = "  caisson token box --allow ports --ttl 600\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = json_object();
	owned_json answer = NULL;
	owned_str id = NULL;
	struct client *cl = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("token: caisson token SB --allow exec,files");
	id = sandbox_of(c, argv[rest], &cl, &ret);
	if (!id)
		return ret;
	json_set_take(body, "sandbox", json_string(id));
	json_set_take(body, "allow", comma_words(allow));
	json_set_take(body, "ttl_s", json_integer(ttl_s));
	cli_call(c, cl, "POST", "/v1/tokens", body, &answer, &ret);
	client_free(cl);
	return answer ? record_print(c, answer, lines, ARRAY_SIZE(lines)) : ret;
}

/* ---- tenant, project ---- */

static const struct column tenant_cols[] = {
	{ "ID", "id", COL_TEXT },
	{ "NAME", "name", COL_TEXT },
	{ "AGE", "created_at", COL_AGE },
	{ "DELETED", "deleted_at", COL_TIME },
};
static const struct column project_cols[] = {
	{ "ID", "id", COL_TEXT },
	{ "NAME", "name", COL_TEXT },
	{ "TENANT", "tenant", COL_TEXT },
	{ "AGE", "created_at", COL_AGE },
};
static const struct column tenant_lines[] = {
	{ "tenant", "tenant.id", COL_TEXT },
	{ "name", "tenant.name", COL_TEXT },
	{ "project", "project.id", COL_TEXT },
	{ "deleted", "tenant.deleted_at", COL_TIME },
	{ "sandboxes that end", "ending", COL_TEXT },
};

static int tenant_ls(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "tenant ls",
				.summary = "Tenants, newest first.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	return list_print(c, "/v1/tenants", 0, tenant_cols,
			  ARRAY_SIZE(tenant_cols));
}

/* POST /v1/KIND {"name": WORD, "tenant"?} */
static int create_named(struct cli *c, const struct args *a, int argc,
			char **argv, const char *path,
			const char *const *tenant, const struct column *lines,
			size_t n_lines)
{
	owned_json body = json_object();
	int rest, ret;

	if (!cli_args(a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("caisson %s", a->usage);
	json_set_take(body, "name", json_string(argv[rest]));
	if (tenant && *tenant)
		json_set_take(body, "tenant", json_string(*tenant));
	return call_print(c, "POST", path, body, lines, n_lines);
}

static int tenant_create(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "tenant create NAME",
		.summary = "Make a tenant with its first project; then "
			   "`caisson key create --role admin --project PRJ`.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return create_named(c, &a, argc, argv, "/v1/tenants", NULL,
			    tenant_lines, ARRAY_SIZE(tenant_lines));
}

static int tenant_rm(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "tenant rm TEN",
		.summary = "Delete a tenant: its keys are dead at once, its "
			   "sandboxes end.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return delete_one(c, &a, argc, argv, "tenants", tenant_lines,
			  ARRAY_SIZE(tenant_lines));
}

int verb_tenant(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "tenant", "list them", tenant_ls },
		{ "create", "add", "tenant", "make one", tenant_create },
		{ "rm", "delete", "tenant", "delete one", tenant_rm },
	};
	static const struct verb_group g = {
		.name = "tenant",
		.summary = "Tenants see nothing of each other (role operator).",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
		.alone = "ls",
	};

	return verb_group(c, &g, argc, argv);
}

static int project_ls(struct cli *c, int argc, char **argv)
{
	const char *tenant = NULL;
	const struct arg_opt opts[] = {
		{ "tenant", 0, ARG_STR, &tenant, "TEN",
		  "of this tenant (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "project ls [options]",
				.summary = "Projects of the tenant.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	owned_str t = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	t = client_escape(tenant ? tenant : "");
	path = xasprintf("/v1/projects%s%s", tenant ? "?tenant=" : "", t);
	return list_print(c, path, 0, project_cols, ARRAY_SIZE(project_cols));
}

static int project_create(struct cli *c, int argc, char **argv)
{
	static const struct column lines[] = {
		{ "project", "id", COL_TEXT },
		{ "name", "name", COL_TEXT },
		{ "tenant", "tenant", COL_TEXT },
	};
	const char *tenant = NULL;
	const struct arg_opt opts[] = {
		{ "tenant", 0, ARG_STR, &tenant, "TEN",
		  "of this tenant (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "project create [options] NAME",
				.summary = "Make a project.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return create_named(c, &a, argc, argv, "/v1/projects", &tenant, lines,
			    ARRAY_SIZE(lines));
}

int verb_project(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "project", "list them", project_ls },
		{ "create", "add", "project", "make one", project_create },
	};
	static const struct verb_group g = {
		.name = "project",
		.summary = "Projects: names, keys and quotas of their own "
			   "(role admin).",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
		.alone = "ls",
	};

	return verb_group(c, &g, argc, argv);
}

/* ---- quota ---- */

static const char *const quotas[] = { "sandboxes", "vcpus", "memory_mib",
				      "disk_mib" };

static int quota_print(const struct cli *c, const json_t *q)
{
	static const struct column cols[] = { { "QUOTA", "quota", COL_TEXT },
					      { "USED", "used", COL_TEXT },
					      { "LIMIT", "limit", COL_TEXT } };
	owned_json rows = NULL;

	if (c->json)
		return cli_print_json(q);
	rows = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(quotas); i++) {
		json_t *row = json_object();

		json_set_take(row, "quota", json_string(quotas[i]));
		json_object_set(
		    row, "used",
		    json_object_get(json_object_get(q, "used"), quotas[i]));
		json_object_set(
		    row, "limit",
		    json_object_get(json_object_get(q, "limits"), quotas[i]));
		json_array_append_new(rows, row);
	}
	return records_print(c, rows, cols, ARRAY_SIZE(cols));
}

/* The limits that are, with those of the words K=N or K=none changed. NULL
 * after a message. */
static json_t *quota_limits(const json_t *q, char *const *words, int n)
{
	owned_json limits = json_deep_copy(json_object_get(q, "limits"));

	for (int i = 0; i < n; i++) {
		const char *eq = strchr(words[i], '=');
		owned_str key =
		    xstrndup(words[i], eq ? (size_t)(eq - words[i]) : 0);
		bool known = false;
		int64_t v = 0;

		for (size_t k = 0; k < ARRAY_SIZE(quotas); k++)
			known = known || !strcmp(key, quotas[k]);
		if (!known || (strcmp(eq + 1, "none") != 0 &&
			       !text_int(eq + 1, 0, INT64_MAX, &v))) {
			cli_usage("quota: \"%s\": expected sandboxes, vcpus, "
				  "memory_mib or disk_mib, = and a number or "
				  "none",
				  words[i]);
			return NULL;
		}
		json_set_take(limits, key,
			      strcmp(eq + 1, "none") ? json_integer(v)
						     : json_null());
	}
	return TAKE(limits);
}

static int quota(struct cli *c, struct client *cl, const char *project,
		 char *const *words, int n)
{
	owned_str p = client_escape(project ? project : "");
	owned_str path =
	    xasprintf("/v1/quotas%s%s", project ? "?project=" : "", p);
	owned_json now = NULL;
	owned_json body = NULL;
	owned_json answer = NULL;
	json_t *limits;
	int ret = CLI_OK;

	if (cli_call(c, cl, "GET", path, NULL, &now, &ret) < 0)
		return ret;
	if (n == 0)
		return quota_print(c, now);
	limits = quota_limits(now, words, n);
	if (!limits)
		return CLI_OURS;
	body = json_object();
	json_set_take(body, "project",
		      json_string(jget_str(now, "project", "")));
	json_set_take(body, "limits", limits);
	if (cli_call(c, cl, "PUT", "/v1/quotas", body, &answer, &ret) < 0)
		return ret;
	return quota_print(c, answer);
}

int verb_quota(struct cli *c, int argc, char **argv)
{
	const char *project = NULL;
	const struct arg_opt opts[] = {
		{ "project", 0, ARG_STR, &project, "PRJ",
		  "of this project (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "quota [options] [NAME=N...]",
		.summary = "What the project may have at once, and has; "
			   "operators set it.",
		.more = "  caisson quota\n"
			"  caisson quota --project prj_... sandboxes=20 "
			"memory_mib=none\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	ret = quota(c, cl, project, argv + rest, argc - rest);
	client_free(cl);
	return ret;
}
