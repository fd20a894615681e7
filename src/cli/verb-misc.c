/* SPDX-License-Identifier: Apache-2.0 */

/* context, login, version, node, op. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/version.h"
#include "net/json.h"

#define KEY_MAX 256u

static int context_list(const struct cli *c, const struct context_file *f)
{
	const char *current = context_current(f), *name;
	json_t *all = json_object_get(f->root, "contexts"), *entry;
	owned_json shown = json_array();
	struct table t;

	table_init(&t, 4);
	table_cell(&t, "");
	table_cell(&t, "NAME");
	table_cell(&t, "URL");
	table_cell(&t, "DATA URL");
	json_object_foreach(all, name, entry)
	{
		bool is_current = current && !strcmp(current, name);
		json_t *o = json_object(); /* without the key */

		table_cell(&t, is_current ? "*" : "");
		table_cell(&t, name);
		table_cell(&t, jget_str(entry, "url", ""));
		table_cell(&t, jget_str(entry, "data_url", ""));
		json_set_take(o, "name", json_string(name));
		json_set_take(o, "url",
			      json_string(jget_str(entry, "url", "")));
		json_set_take(o, "data_url",
			      json_string(jget_str(entry, "data_url", "")));
		json_set_take(o, "current", json_boolean(is_current));
		json_array_append_new(shown, o);
	}
	if (!c->json)
		table_print(&t);
	table_fini(&t);
	return c->json ? cli_print_json(shown) : CLI_OK;
}

/* The key alone, for $(caisson context key) in a script's header. */
static int context_key(struct cli *c, const struct context_file *f,
		       const char *name)
{
	struct context ctx = { 0 };
	struct err e = { 0 };
	int ret = CLI_OK;

	if (context_get(f, name, &ctx, &e) < 0)
		ret = cli_fail(c, &e);
	else
		puts(ctx.key);
	context_fini(&ctx);
	return ret;
}

static int context_rm(struct cli *c, struct context_file *f, const char *name)
{
	struct err e = { 0 };

	if (!context_remove(f, name))
		err_set(&e, -ENOENT, ERR_NOT_FOUND, "no context \"%s\" in %s",
			name, f->path);
	return e.code || context_save(f, &e) < 0 ? cli_fail(c, &e) : CLI_OK;
}

int verb_context(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "context [use NAME | rm NAME | key [NAME]]",
		.summary = "List the servers this user knows, or choose one.",
		.more = "  caisson context\n  caisson context use local\n"
			"  curl -H \"Authorization: Bearer "
			"$(caisson context key)\" ...\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct context_file f = { 0 };
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (context_locate(&f, &e) < 0 || context_load(&f, &e) < 0) {
		ret = cli_fail(c, &e);
	} else if (rest == argc) {
		ret = context_list(c, &f);
	} else if (rest + 2 == argc && !strcmp(argv[rest], "use")) {
		ret = context_use(&f, argv[rest + 1], &e) < 0 ||
			      context_save(&f, &e) < 0
			  ? cli_fail(c, &e)
			  : CLI_OK;
	} else if (rest + 2 == argc && !strcmp(argv[rest], "rm")) {
		ret = context_rm(c, &f, argv[rest + 1]);
	} else if (rest + 2 >= argc && !strcmp(argv[rest], "key")) {
		ret =
		    context_key(c, &f, rest + 1 < argc ? argv[rest + 1] : NULL);
	} else {
		ret = cli_usage(
		    "caisson context [use NAME | rm NAME | key [NAME]]");
	}
	context_file_fini(&f);
	return ret;
}

/* One line from stdin, where a key cannot be seen in a process list. */
static char *read_key(void)
{
	char *key = xcalloc(KEY_MAX + 1, 1);
	size_t n = 0;
	ssize_t r;

	if (isatty(STDIN_FILENO))
		fputs("key: ", stderr);
	while (n < KEY_MAX &&
	       (r = read(STDIN_FILENO, key + n, KEY_MAX - n)) > 0) {
		n += (size_t)r;
		if (memchr(key, '\n', n))
			break;
	}
	key[strcspn(key, "\r\n")] = '\0';
	return key;
}

static int login(struct cli *c, struct context *ctx)
{
	struct context_file f = { 0 };
	struct client *cl;
	struct err e = { 0 };
	owned_json who = NULL;
	struct context copy = {
		.name = xstrdup(ctx->name),
		.url = xstrdup(ctx->url),
		.data_url = xstrdup(ctx->data_url),
		.key = xstrdup(ctx->key),
	};
	int ret = CLI_OK;

	/* ask before anything is kept: a wrong key is found here */
	cl = client_new_take(&copy);
	if (cli_call(c, cl, "GET", "/v1/whoami", NULL, &who, &ret) < 0) {
		client_free(cl);
		return ret;
	}
	client_free(cl);
	if (context_locate(&f, &e) < 0 || context_load(&f, &e) < 0) {
		ret = cli_fail(c, &e);
	} else {
		context_put(&f, ctx, true);
		ret = context_save(&f, &e) < 0 ? cli_fail(c, &e) : CLI_OK;
	}
	if (ret == CLI_OK && c->json)
		ret = cli_print_json(who);
	else if (ret == CLI_OK)
		printf("context \"%s\" written to %s (0600)\n", ctx->name,
		       f.path);
	context_file_fini(&f);
	return ret;
}

int verb_login(struct cli *c, int argc, char **argv)
{
	const char *name = "default", *data_url = NULL;
	const struct arg_opt opts[] = {
		{ "name", 0, ARG_STR, &name, "NAME", "the context's name", 0,
		  0 },
		{ "data-url", 0, ARG_STR, &data_url, "URL",
		  "data listener (the same host, port + 10)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "login [options] URL",
		.summary = "Use a server elsewhere; the key is read from "
			   "standard input.",
		.more = "  caisson login https://caisson.example.org:7700 "
			"--name work < key\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct context ctx = { 0 };
	char *colon;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc || !context_url_valid(argv[rest]) ||
	    (data_url && !context_url_valid(data_url)))
		return cli_usage("login: caisson login http://HOST:PORT");
	if (!context_name_valid(name))
		return cli_usage("login: --name takes letters, digits, - _ .");
	ctx.name = xstrdup(name);
	ctx.url = xstrdup(argv[rest]);
	ctx.data_url = xstrdup(data_url ? data_url : argv[rest]);
	colon = strrchr(ctx.data_url, ':');
	if (!data_url && colon && colon[1] >= '0' && colon[1] <= '9') {
		long port = strtol(colon + 1, NULL, 10) + 10;
		owned_str host =
		    xstrndup(ctx.data_url, (size_t)(colon - ctx.data_url));

		free(ctx.data_url);
		ctx.data_url = xasprintf("%s:%ld", host, port);
	}
	ctx.key = read_key();
	ret = login(c, &ctx);
	context_fini(&ctx);
	return ret;
}

int verb_version(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "version",
		.summary = "The version of this program and of the server.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json v = json_object();
	owned_json who = NULL;
	struct context_file file = { 0 };
	struct context ctx = { 0 };
	struct client *cl = NULL;
	struct fault f;
	struct err e = { 0 };
	const char *server;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (context_locate(&file, &e) == 0 && context_load(&file, &e) == 0 &&
	    context_get(&file, c->context, &ctx, &e) == 0) {
		cl = client_new_take(&ctx);
		client_call(cl, CLIENT_CONTROL, "GET", "/v1/whoami", NULL, 5,
			    &who, NULL, &f, &e);
	}
	client_free(cl);
	context_file_fini(&file);
	server = jget_str(
	    who, "server.version",
	    jget_str(who, "server_version", jget_str(who, "version", NULL)));
	if (c->json) {
		json_set_take(v, "client", json_string(CAISSON_VERSION));
		json_set_take(v, "server",
			      server ? json_string(server) : json_null());
		return cli_print_json(v);
	}
	printf("caisson %s\nserver  %s\n", CAISSON_VERSION,
	       server ? server : "not reached");
	return CLI_OK;
}

/* Shared by `X ls`: GET path, its items to rows. */
static int list(struct cli *c, const char *path, const char *const *titles,
		size_t n_titles, void (*row)(struct table *, const json_t *))
{
	owned_json body = NULL;
	struct table t;
	struct client *cl;
	json_t *item;
	size_t i;
	int ret = CLI_OK;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	cli_call(c, cl, "GET", path, NULL, &body, &ret);
	client_free(cl);
	if (!body)
		return ret;
	if (c->json)
		return cli_print_json(json_object_get(body, "items"));
	table_init(&t, n_titles);
	for (i = 0; i < n_titles; i++)
		table_cell(&t, titles[i]);
	json_array_foreach(json_object_get(body, "items"), i, item)
	    row(&t, item);
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

static void node_row(struct table *t, const json_t *n)
{
	bool alive = !json_is_false(json_object_get(n, "alive"));

	table_cell(t, jget_str(n, "name", "?"));
	table_cell(t, alive ? jget_str(n, "state", "?") : "silent");
	table_cell(t, jget_str(n, "engine.name", "?"));
	table_cellf(t, "%lld/%lld", (long long)jget_int(n, "used.sandboxes", 0),
		    (long long)jget_int(n, "capacity.slots", 0));
	table_cellf(t, "%lld/%lld MiB",
		    (long long)jget_int(n, "used.memory_mib", 0),
		    (long long)jget_int(n, "capacity.memory_mib", 0));
	table_cellf(t, "%lld", (long long)jget_int(n, "waiting_vmms", 0));
	table_cellf(t, "%s (%s)", jget_str(n, "engine.isolation", "unknown"),
		    jget_str(n, "engine.reason", "no reason given"));
}

static int node_ls(struct cli *c, int argc, char **argv)
{
	static const char *const titles[] = { "NAME",	  "STATE",  "ENGINE",
					      "SLOTS",	  "MEMORY", "WAITING",
					      "ISOLATION" };
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "node ls",
		.summary = "The nodes, what they hold, and how strong their "
			   "walls are.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	return list(c, "/v1/nodes", titles, ARRAY_SIZE(titles), node_row);
}

static void op_row(struct table *t, const json_t *o)
{
	int64_t at = parse_rfc3339(jget_str(o, "created_at", ""));
	char age[32] = "";

	if (at >= 0)
		format_age((now_unix_ms() - at) / 1000, age, sizeof(age));
	table_cell(t, jget_str(o, "id", "?"));
	table_cell(t, jget_str(o, "kind", "?"));
	table_cell(t, jget_str(o, "state", "?"));
	table_cell(t, jget_str(o, "sandbox", jget_str(o, "template", "-")));
	table_cell(t, age);
	table_cell(t, jget_str(o, "error.message", ""));
}

static int op_ls(struct cli *c, int argc, char **argv)
{
	static const char *const titles[] = { "ID", "KIND", "STATE",
					      "OF", "AGE",  "ERROR" };
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "op ls",
		.summary = "The newest operations.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	return list(c, "/v1/operations", titles, ARRAY_SIZE(titles), op_row);
}

static int op_wait(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "op wait OP",
		.summary = "Wait until an operation is over; exit 0 if it "
			   "succeeded.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = NULL;
	owned_str path = NULL;
	owned_str id = NULL;
	const char *state = "";
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("op wait: caisson op wait OP");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	id = client_escape(argv[rest]);
	path = xasprintf("/v1/operations/%s?wait_s=60", id);
	do {
		json_decref(body);
		body = NULL;
		if (cli_call(c, cl, "GET", path, NULL, &body, &ret) < 0)
			break;
		state = jget_str(body, "operation.state",
				 jget_str(body, "state", "failed"));
	} while (!strcmp(state, "pending") || !strcmp(state, "running"));
	client_free(cl);
	if (!body)
		return ret;
	ret = strcmp(state, "succeeded") ? CLI_OURS : CLI_OK;
	if (c->json)
		cli_print_json(body);
	else
		printf("%s\n", state);
	return ret;
}

static int cordon(struct cli *c, const char *what, const char *summary,
		  int argc, char **argv)
{
	static const struct column lines[] = {
		{ "node", "name", COL_TEXT },
		{ "state", "state", COL_TEXT },
	};
	owned_str usage = xasprintf("node %s NODE", what);
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = usage,
				.summary = summary,
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	owned_str name = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("node %s: caisson node %s NODE", what, what);
	name = client_escape(argv[rest]);
	path = xasprintf("/v1/nodes/%s/%s", name, what);
	return call_print(c, "POST", path, NULL, lines, ARRAY_SIZE(lines));
}

static int node_cordon(struct cli *c, int argc, char **argv)
{
	return cordon(c, "cordon",
		      "Place no new sandboxes on a node; those that run stay.",
		      argc, argv);
}

static int node_uncordon(struct cli *c, int argc, char **argv)
{
	return cordon(c, "uncordon", "Place sandboxes on a node again.", argc,
		      argv);
}

static int op_cancel(struct cli *c, int argc, char **argv)
{
	static const struct column lines[] = {
		{ "operation", "operation.id", COL_TEXT },
		{ "state", "operation.state", COL_TEXT },
		{ "sandbox", "sandbox.id", COL_TEXT },
	};
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "op cancel OP",
		.summary = "Take an operation back: a create ends its sandbox, "
			   "a build stops.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str id = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("op cancel: caisson op cancel OP");
	id = client_escape(argv[rest]);
	path = xasprintf("/v1/operations/%s/cancel", id);
	return call_print(c, "POST", path, NULL, lines, ARRAY_SIZE(lines));
}

int verb_node(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "node", "list nodes", node_ls },
		{ "cordon", NULL, "node", "place nothing there any more",
		  node_cordon },
		{ "uncordon", NULL, "node", "place there again",
		  node_uncordon },
	};
	static const struct verb_later later[] = {
		{ "drain", "`caisson node cordon NODE`, then `caisson end`" },
	};
	static const struct verb_group g = {
		"node", "Nodes: capacity, isolation, placing.",
		verbs,	ARRAY_SIZE(verbs),
		later,	ARRAY_SIZE(later),
		"ls"
	};

	return verb_group(c, &g, argc, argv);
}

int verb_op(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "op", "list operations", op_ls },
		{ "wait", NULL, "op", "wait for one", op_wait },
		{ "cancel", NULL, "op", "take one back", op_cancel },
	};
	static const struct verb_group g = {
		"op",  "Operations: changes that take time.",
		verbs, ARRAY_SIZE(verbs),
		NULL,  0,
		"ls"
	};

	return verb_group(c, &g, argc, argv);
}
