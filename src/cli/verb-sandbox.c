/* SPDX-License-Identifier: Apache-2.0 */

/* create, ls, info, end. */

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "net/json.h"

static int create(struct cli *c, const struct create_opts *o, json_t *env)
{
	owned_json body = NULL;
	owned_json answer = NULL;
	struct client *cl = NULL;
	struct err e = { 0 };
	const json_t *s;
	int ret = CLI_OK;

	body = create_body(o, &e);
	if (!body)
		return cli_fail(c, &e);
	if (json_object_size(env))
		json_object_set(body, "env", env);
	cl = cli_client(c, &ret);
	if (cl)
		answer = sandbox_make(c, cl, body, -1, &ret);
	client_free(cl);
	if (!answer)
		return ret;
	s = jget(answer, "sandbox");
	if (c->json)
		return cli_print_json(s);
	printf("%s\n", jget_str(s, "id", "?"));
	if (c->verbose)
		fprintf(stderr, "isolation: %s (%s)\n",
			jget_str(s, "isolation.level", "unknown"),
			jget_str(s, "isolation.reason", "no reason given"));
	return CLI_OK;
}

int verb_create(struct cli *c, int argc, char **argv)
{
	struct create_opts o = { 0 };
	const struct arg_opt opts[] = {
		CREATE_OPTS(&o),
		{ "env", 'e', ARG_LIST, &o.env, "K=V",
		  "environment of its commands; repeatable", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "create [options]",
		.summary = "Make a sandbox that stays until it is ended; "
			   "prints its id.",
		.more = "  caisson create --name box\n"
			"  caisson create -t tiny --label team=web --ttl "
			"3600 --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json env = NULL;
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	env = pairs_json(&o.env, "env", &e);
	if (rest < argc)
		ret = cli_usage("create takes no words (\"%s\"); a name is "
				"given by --name",
				argv[rest]);
	else if (!env)
		ret = cli_fail(c, &e);
	else
		ret = create(c, &o, env);
	free(o.labels.v);
	free(o.env.v);
	return ret;
}

static void list_row(struct table *t, const json_t *s)
{
	int64_t at = parse_rfc3339(jget_str(s, "created_at", ""));
	char age[32] = "";

	if (at >= 0)
		format_age((now_unix_ms() - at) / 1000, age, sizeof(age));
	table_cell(t, jget_str(s, "id", "?"));
	table_cell(t, jget_str(s, "name", "-"));
	table_cell(t, jget_str(s, "state", "?"));
	table_cell(t, jget_str(s, "template", "-"));
	table_cell(t, jget_str(s, "isolation.level", "-"));
	table_cell(t, age);
}

static int list(struct cli *c, const char *path, bool all)
{
	owned_json body = NULL;
	owned_json shown = json_array();
	struct table t;
	struct client *cl;
	json_t *s;
	size_t i;
	int ret;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	ret =
	    cli_call(c, cl, "GET", path, NULL, &body, &ret) < 0 ? ret : CLI_OK;
	client_free(cl);
	if (!body)
		return ret;
	json_array_foreach(json_object_get(body, "items"), i, s)
	{
		const char *state = jget_str(s, "state", "");

		if (all || (strcmp(state, "ended") != 0 &&
			    strcmp(state, "failed") != 0 &&
			    strcmp(state, "lost") != 0))
			json_array_append(shown, s);
	}
	if (c->json)
		return cli_print_json(shown);
	table_init(&t, 6);
	table_cell(&t, "ID");
	table_cell(&t, "NAME");
	table_cell(&t, "STATE");
	table_cell(&t, "TEMPLATE");
	table_cell(&t, "ISOLATION");
	table_cell(&t, "AGE");
	json_array_foreach(shown, i, s) list_row(&t, s);
	table_print(&t);
	table_fini(&t);
	if (jget_str(body, "next", NULL))
		fprintf(stderr,
			"(the newest %zu were looked at; --json with "
			"--limit, or filters, for others)\n",
			json_array_size(json_object_get(body, "items")));
	return CLI_OK;
}

int verb_ls(struct cli *c, int argc, char **argv)
{
	bool all = false;
	const char *state = NULL, *template = NULL;
	struct arg_list labels = { 0 };
	int64_t limit = 200;
	const struct arg_opt opts[] = {
		{ "all", 'a', ARG_FLAG, &all, NULL, "with those that ended", 0,
		  0 },
		{ "state", 0, ARG_STR, &state, "STATE", "only in this state", 0,
		  0 },
		{ "template", 't', ARG_STR, &template, "T",
		  "only of this template", 0, 0 },
		{ "label", 0, ARG_LIST, &labels, "K=V",
		  "only with this label; repeatable", 0, 0 },
		{ "limit", 0, ARG_INT, &limit, "N", "look at the newest N", 1,
		  200 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "ls [options]",
		.summary = "List sandboxes, newest first.",
		.more = "  caisson ls\n  caisson ls --all --label team=web "
			"--json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct buf path;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	buf_init(&path, 0);
	buf_printf(&path, "/v1/sandboxes?limit=%d", (int)limit);
	if (state) {
		owned_str v = client_escape(state);

		buf_printf(&path, "&state=%s", v);
		all = true;
	}
	if (template) {
		owned_str v = client_escape(template);

		buf_printf(&path, "&template=%s", v);
	}
	for (size_t i = 0; i < labels.n; i++) {
		owned_str v = client_escape(labels.v[i]);

		buf_printf(&path, "&label=%s", v);
	}
	ret = list(c, buf_cstr(&path), all);
	buf_fini(&path);
	free(labels.v);
	return ret;
}

static void info_line(const json_t *s, const char *title, const char *path)
{
	const json_t *v = jget(s, path);
	char text[512];

	if (!v || json_is_null(v))
		return;
	if (json_is_string(v)) {
		jget_shown(s, path, "", text, sizeof(text));
		printf("%-12s %s\n", title, text);
	} else {
		char *dump = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

		printf("%-12s %s\n", title, dump ? dump : "?");
		free(dump);
	}
}

static void info_print(const json_t *s)
{
	static const char *const lines[][2] = {
		{ "id", "id" },
		{ "name", "name" },
		{ "state", "state" },
		{ "template", "template" },
		{ "release", "release" },
		{ "isolation", "isolation.level" },
		{ "  engine", "isolation.engine" },
		{ "  reason", "isolation.reason" },
		{ "resources", "resources" },
		{ "labels", "labels" },
		{ "lifetime", "lifetime" },
		{ "node", "node" },
		{ "durability", "durability" },
		{ "created", "created_at" },
		{ "started", "started_at" },
		{ "ends", "ends_at" },
		{ "end", "end" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		info_line(s, lines[i][0], lines[i][1]);
}

int verb_info(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "info SB",
		.summary = "One sandbox in full, with the strength of its "
			   "walls.",
		.more = "  caisson info box\n  caisson info sb4k --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json s = NULL;
	owned_str id = NULL;
	owned_str path = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("info: which sandbox? caisson info SB");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	id = sandbox_resolve(c, cl, argv[rest], &ret);
	if (id) {
		path = xasprintf("/v1/sandboxes/%s", id);
		if (cli_call(c, cl, "GET", path, NULL, &s, &ret) == 0)
			ret = CLI_OK;
	}
	client_free(cl);
	if (!s)
		return ret;
	if (c->json)
		return cli_print_json(s);
	info_print(s);
	return CLI_OK;
}

int verb_end(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "end SB...",
		.summary = "End sandboxes, from any state; again is no error.",
		.more = "  caisson end box\n  caisson rm sb4k sbx1\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json all = json_array();
	struct client *cl;
	int rest, ret, worst = CLI_OK;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc)
		return cli_usage("end: which sandbox? caisson end SB");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	for (int i = rest; i < argc; i++) {
		json_t *answer = NULL;
		owned_str id = sandbox_resolve(c, cl, argv[i], &ret);

		if (id)
			ret = sandbox_end(c, cl, id, &answer);
		if (answer && c->json)
			json_array_append(all,
					  json_object_get(answer, "sandbox"));
		else if (answer)
			printf("%s\n", id);
		json_decref(answer);
		if (worst == CLI_OK)
			worst = ret;
	}
	client_free(cl);
	if (c->json && json_array_size(all))
		cli_print_json(all);
	return worst;
}
