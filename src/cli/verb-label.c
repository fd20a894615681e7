/* SPDX-License-Identifier: Apache-2.0 */

/* label, and open ports to others. */

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "net/json.h"

/* {"k":"v","gone":null} of the words K=V and K-. NULL after a message. */
static json_t *label_words(char *const *words, int n)
{
	owned_json labels = json_object();

	for (int i = 0; i < n; i++) {
		const char *eq = strchr(words[i], '=');
		size_t len = strlen(words[i]);
		json_t *value = eq ? json_string(eq + 1) : json_null();
		owned_str key = NULL;

		if (eq)
			key = xstrndup(words[i], (size_t)(eq - words[i]));
		else if (len > 1 && words[i][len - 1] == '-')
			key = xstrndup(words[i], len - 1);
		if (!key || !*key || !value) {
			cli_usage("label: \"%s\": expected K=V, or K- to "
				  "remove",
				  words[i]);
			json_decref(value);
			return NULL;
		}
		json_set_take(labels, key, value);
	}
	return TAKE(labels);
}

int verb_label(struct cli *c, int argc, char **argv)
{
	static const struct column lines[] = {
		{ "id", "id", COL_TEXT },
		{ "labels", "labels", COL_JSON },
	};
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "label SB K=V... K-...",
		.summary = "Set labels of a sandbox (K=V) and remove them "
			   "(K-); without words, show them.",
		.more = "  caisson label box team=web old-\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = NULL;
	owned_json answer = NULL;
	owned_str id = NULL;
	owned_str path = NULL;
	json_t *labels;
	struct client *cl = NULL;
	int rest, ret;
	bool change;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc)
		return cli_usage("label: caisson label SB K=V K-");
	change = rest + 1 < argc;
	labels = label_words(argv + rest + 1, argc - rest - 1);
	if (!labels)
		return CLI_OURS;
	body = json_object();
	json_set_take(body, "labels", labels);
	id = sandbox_of(c, argv[rest], &cl, &ret);
	if (!id)
		return ret;
	path = xasprintf("/v1/sandboxes/%s", id);
	cli_call(c, cl, change ? "PATCH" : "GET", path, change ? body : NULL,
		 &answer, &ret);
	client_free(cl);
	return answer ? record_print(c, answer, lines, ARRAY_SIZE(lines)) : ret;
}

/* ---- port ---- */

static const struct column port_lines[] = {
	{ "port", "port", COL_TEXT },	    { "access", "access", COL_TEXT },
	{ "url", "url", COL_TEXT },	    { "token", "token", COL_TEXT },
	{ "removed", "removed", COL_TEXT },
};

/* SB [PORT] of a port verb, then the call. */
static int port_call(struct cli *c, const struct args *a, int argc, char **argv,
		     const char *method, const char *const *access)
{
	owned_json body = NULL;
	owned_json answer = NULL;
	owned_str id = NULL;
	owned_str path = NULL;
	struct client *cl = NULL;
	int64_t port = 0;
	bool is_list = !strcmp(method, "GET");
	int rest, ret;

	if (!cli_args(a, argc, argv, &rest, &ret))
		return ret;
	if (rest + (is_list ? 1 : 2) != argc ||
	    (!is_list && !text_int(argv[rest + 1], 1, 65535, &port)))
		return cli_usage("caisson %s", a->usage);
	id = sandbox_of(c, argv[rest], &cl, &ret);
	if (!id)
		return ret;
	path = strcmp(method, "DELETE")
		   ? xasprintf("/v1/sandboxes/%s/ports", id)
		   : xasprintf("/v1/sandboxes/%s/ports?port=%d", id, (int)port);
	if (access) {
		body = json_object();
		json_set_take(body, "port", json_integer(port));
		json_set_take(body, "access", json_string(*access));
	}
	cli_call(c, cl, method, path, body, &answer, &ret);
	client_free(cl);
	if (!answer)
		return ret;
	if (is_list)
		return records_print(c, json_object_get(answer, "items"),
				     port_lines, 3);
	return record_print(c, answer, port_lines, ARRAY_SIZE(port_lines));
}

static int port_ls(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "port ls SB",
		.summary = "Ports of a sandbox that are open to others than "
			   "keys of the project.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return port_call(c, &a, argc, argv, "GET", NULL);
}

static int port_open(struct cli *c, int argc, char **argv)
{
	const char *access = "token";
	const struct arg_opt opts[] = {
		{ "access", 0, ARG_STR, &access, "WHO",
		  "private, token (the default) or public", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "port open [options] SB PORT",
		.summary = "Open a port of a sandbox to others; prints its URL "
			   "and, once, its token.",
		.more = "The token is sent as Caisson-Port-Token or Bearer; "
			"opening again makes another.\n\n"
			"  caisson port open box 8000\n"
			"  caisson port open --access public box 8000\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return port_call(c, &a, argc, argv, "POST", &access);
}

static int port_close(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "port close SB PORT",
		.summary = "Back to private; again is no error.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return port_call(c, &a, argc, argv, "DELETE", NULL);
}

int verb_port(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "port", "ports that others may use", port_ls },
		{ "open", NULL, "port", "let others use one", port_open },
		{ "close", NULL, "port", "back to private", port_close },
	};
	static const struct verb_group g = {
		.name = "port",
		.summary = "Who may use a sandbox's ports; `caisson forward` "
			   "brings one here.",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
	};

	return verb_group(c, &g, argc, argv);
}
