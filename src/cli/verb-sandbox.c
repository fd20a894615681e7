/* SPDX-License-Identifier: Apache-2.0 */

/* create, ls, info, end. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
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

static bool is_over(const json_t *s)
{
	const char *state = jget_str(s, "state", "");

	return !strcmp(state, "ended") || !strcmp(state, "failed") ||
	       !strcmp(state, "lost");
}

/* Filters of ls and of end. */
struct filters {
	const char *state, *template_ref;
	struct arg_list labels;
};

static char *filtered_path(const struct filters *f)
{
	const struct {
		const char *name, *value;
	} words[] = { { "state", f->state }, { "template", f->template_ref } };
	struct buf path;
	char sep = '?';
	char *ret;

	buf_init(&path, 0);
	buf_puts(&path, "/v1/sandboxes");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		owned_str v =
		    client_escape(words[i].value ? words[i].value : "");

		if (!words[i].value)
			continue;
		buf_printf(&path, "%c%s=%s", sep, words[i].name, v);
		sep = '&';
	}
	for (size_t i = 0; i < f->labels.n; i++) {
		owned_str v = client_escape(f->labels.v[i]);

		buf_printf(&path, "%clabel=%s", sep, v);
		sep = '&';
	}
	ret = xstrdup(buf_cstr(&path));
	buf_fini(&path);
	return ret;
}

static int print_list(const struct cli *c, const json_t *shown, bool quiet)
{
	struct table t;
	json_t *s;
	size_t i;

	if (c->json)
		return cli_print_json(shown);
	table_init(&t, quiet ? 1 : 6);
	if (!quiet) {
		table_cell(&t, "ID");
		table_cell(&t, "NAME");
		table_cell(&t, "STATE");
		table_cell(&t, "TEMPLATE");
		table_cell(&t, "ISOLATION");
		table_cell(&t, "AGE");
	}
	json_array_foreach(shown, i, s)
	{
		if (quiet)
			table_cell(&t, jget_str(s, "id", "?"));
		else
			list_row(&t, s);
	}
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

static int list(struct cli *c, const char *path, bool all, bool quiet,
		size_t limit)
{
	owned_json items = NULL;
	owned_json shown = json_array();
	struct client *cl;
	json_t *s;
	size_t i;
	int ret;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	/* those that ended are left out here, so the limit comes after */
	items = list_all(c, cl, path, all ? limit : 0, &ret);
	client_free(cl);
	if (!items)
		return ret;
	json_array_foreach(items, i, s)
	{
		if ((all || !is_over(s)) &&
		    (!limit || json_array_size(shown) < limit))
			json_array_append(shown, s);
	}
	return print_list(c, shown, quiet);
}

int verb_ls(struct cli *c, int argc, char **argv)
{
	bool all = false, quiet = false;
	struct filters f = { 0 };
	int64_t limit = 0;
	const struct arg_opt opts[] = {
		{ "all", 'a', ARG_FLAG, &all, NULL, "with those that ended", 0,
		  0 },
		{ "quiet", 'q', ARG_FLAG, &quiet, NULL, "ids alone", 0, 0 },
		{ "state", 0, ARG_STR, &f.state, "STATE", "only in this state",
		  0, 0 },
		{ "template", 't', ARG_STR, &f.template_ref, "T",
		  "only of this template", 0, 0 },
		{ "label", 0, ARG_LIST, &f.labels, "K=V",
		  "only with this label; repeatable", 0, 0 },
		{ "limit", 0, ARG_INT, &limit, "N", "the newest N alone", 1,
		  1000000 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "ls [options]",
		.summary = "List sandboxes, newest first.",
		.more = "  caisson ls\n  caisson ls --all --label team=web "
			"--json\n  caisson exec $(caisson ls -q --limit 1) -- "
			"uname -r\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	path = filtered_path(&f);
	if (rest < argc)
		ret = cli_usage("ls takes no words; `caisson info SB` shows "
				"one");
	else
		ret = list(c, path, all || f.state, quiet, (size_t)limit);
	free(f.labels.v);
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

/* One after the other; the first failure's code. */
static int end_all(struct cli *c, struct client *cl, char *const *words,
		   size_t n)
{
	owned_json all = json_array();
	int ret = CLI_OK, worst = CLI_OK;

	for (size_t i = 0; i < n; i++) {
		json_t *answer = NULL;
		owned_str id = sandbox_resolve(c, cl, words[i], &ret);

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
	if (c->json && json_array_size(all))
		cli_print_json(all);
	return worst;
}

/* "y" and Enter on a terminal; without one there is --yes. */
static bool confirmed(size_t n)
{
	char line[16] = "";

	if (!isatty(STDIN_FILENO)) {
		cli_usage("end: %zu sandboxes would end; say --yes", n);
		return false;
	}
	fprintf(stderr, "end %zu sandboxes? [y/N] ", n);
	if (!fgets(line, sizeof(line), stdin))
		return false;
	return line[0] == 'y' || line[0] == 'Y';
}

static int end_filtered(struct cli *c, struct client *cl,
			const struct filters *f, bool yes)
{
	owned_str path = filtered_path(f);
	owned_json items = NULL;
	char **words;
	size_t n = 0, i;
	json_t *s;
	int ret = CLI_OK;

	items = list_all(c, cl, path, 0, &ret);
	if (!items)
		return ret;
	words = xnew_n(char *, json_array_size(items) + 1);
	json_array_foreach(items, i, s)
	{
		if (!is_over(s))
			words[n++] = xstrdup(jget_str(s, "id", ""));
	}
	if (n == 0)
		fprintf(stderr, "caisson: no sandbox has these labels\n");
	else if (yes || confirmed(n))
		ret = end_all(c, cl, words, n);
	else
		ret = CLI_OURS;
	for (i = 0; i < n; i++)
		free(words[i]);
	free(words);
	return ret;
}

int verb_end(struct cli *c, int argc, char **argv)
{
	struct filters f = { 0 };
	bool yes = false;
	const struct arg_opt opts[] = {
		{ "label", 0, ARG_LIST, &f.labels, "K=V",
		  "all with this label; repeatable: with all of them", 0, 0 },
		{ "yes", 'y', ARG_FLAG, &yes, NULL,
		  "do not ask before --label ends them", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "end SB... | --label K=V",
		.summary = "End sandboxes, from any state; again is no error.",
		.more = "  caisson end box\n  caisson rm sb4k sbx1\n"
			"  caisson end --label team=web --yes\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct client *cl = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if ((rest < argc) == (f.labels.n > 0))
		ret = cli_usage("end: which sandbox? caisson end SB, or "
				"--label K=V");
	else if ((cl = cli_client(c, &ret)) && f.labels.n)
		ret = end_filtered(c, cl, &f, yes);
	else if (cl)
		ret = end_all(c, cl, argv + rest, (size_t)(argc - rest));
	client_free(cl);
	free(f.labels.v);
	return ret;
}
