/* SPDX-License-Identifier: Apache-2.0 */

/* webhook: events to a URL. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "cli/sandbox.h"
#include "net/json.h"

static const struct column hook_cols[] = {
	{ "ID", "id", COL_TEXT },	  { "STATE", "state", COL_TEXT },
	{ "URL", "url", COL_TEXT },	  { "TYPES", "types", COL_JSON },
	{ "REASON", "reason", COL_TEXT },
};
static const struct column hook_lines[] = {
	{ "id", "id", COL_TEXT },
	{ "url", "url", COL_TEXT },
	{ "types", "types", COL_JSON },
	{ "labels", "labels", COL_JSON },
	{ "state", "state", COL_TEXT },
	{ "reason", "reason", COL_TEXT },
	{ "created", "created_at", COL_TIME },
	{ "secret (shown once)", "secret", COL_TEXT },
};
static const struct column delivery_cols[] = {
	{ "ID", "id", COL_TEXT },	  { "TYPE", "type", COL_TEXT },
	{ "STATE", "state", COL_TEXT },	  { "TRIES", "attempts", COL_TEXT },
	{ "STATUS", "status", COL_TEXT }, { "AGE", "created_at", COL_AGE },
	{ "ERROR", "error", COL_TEXT },
};

static int webhook_ls(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "webhook ls",
				.summary = "Webhooks of the project.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	return list_print(c, "/v1/webhooks", 0, hook_cols,
			  ARRAY_SIZE(hook_cols));
}

static json_t *words(const struct arg_list *l)
{
	json_t *v = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(v, json_string(l->v[i]));
	return v;
}

static int add(struct cli *c, const char *url, const struct arg_list *types,
	       const struct arg_list *labels)
{
	owned_json body = json_object();
	struct err e = { 0 };
	json_t *l;

	json_set_take(body, "url", json_string(url));
	json_set_take(body, "types",
		      types->n ? words(types) : json_pack("[s]", "*"));
	if (labels->n) {
		l = pairs_json(labels, "label", &e);
		if (!l)
			return cli_fail(c, &e);
		json_set_take(body, "labels", l);
	}
	return call_print(c, "POST", "/v1/webhooks", body, hook_lines,
			  ARRAY_SIZE(hook_lines));
}

static int webhook_add(struct cli *c, int argc, char **argv)
{
	struct arg_list types = { 0 }, labels = { 0 };
	const struct arg_opt opts[] = {
		{ "type", 0, ARG_LIST, &types, "T",
		  "only this type, or KIND.*; repeatable (all)", 0, 0 },
		{ "label", 0, ARG_LIST, &labels, "K=V",
		  "only of sandboxes with it; repeatable", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "webhook add [options] URL",
		.summary = "Send events to a URL; the secret that signs them "
			   "is shown once.",
		.more = "  caisson webhook add https://example.org/hook --type "
			"'sandbox.*'\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 == argc)
		ret = add(c, argv[rest], &types, &labels);
	else
		ret = cli_usage("webhook add: caisson webhook add URL");
	free(types.v);
	free(labels.v);
	return ret;
}

/* A verb with words that are parts of a path. */
static int on_hook(struct cli *c, const struct args *a, int argc, char **argv,
		   const char *method, const char *tail, bool has_delivery)
{
	owned_str hook = NULL;
	owned_str delivery = NULL;
	owned_str path = NULL;
	bool is_hook = !*tail;
	int rest, ret;

	if (!cli_args(a, argc, argv, &rest, &ret))
		return ret;
	if (rest + (has_delivery ? 2 : 1) != argc)
		return cli_usage("caisson %s", a->usage);
	hook = client_escape(argv[rest]);
	if (has_delivery)
		delivery = client_escape(argv[rest + 1]);
	path = xasprintf("/v1/webhooks/%s%s%s%s", hook,
			 has_delivery ? "/deliveries/" : "",
			 has_delivery ? delivery : "", tail);
	if (!strcmp(method, "GET"))
		return list_print(c, path, 200, delivery_cols,
				  ARRAY_SIZE(delivery_cols));
	return call_print(c, method, path, NULL,
			  is_hook ? hook_lines : delivery_cols,
			  is_hook ? 1 : ARRAY_SIZE(delivery_cols));
}

static int webhook_rm(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "webhook rm WHK",
				.summary = "Delete a webhook and its "
					   "deliveries.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return on_hook(c, &a, argc, argv, "DELETE", "", false);
}

static int webhook_test(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "webhook test WHK",
				.summary = "Deliver an event of type "
					   "webhook.test.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return on_hook(c, &a, argc, argv, "POST", "/test", false);
}

static int webhook_deliveries(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "webhook deliveries WHK",
				.summary = "What was delivered, or was tried; "
					   "newest first.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return on_hook(c, &a, argc, argv, "GET", "/deliveries", false);
}

static int webhook_redeliver(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = { .usage = "webhook redeliver WHK DELIVERY",
				.summary = "Deliver once more.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };

	return on_hook(c, &a, argc, argv, "POST", "/redeliver", true);
}

int verb_webhook(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "webhook", "list them", webhook_ls },
		{ "add", "create", "webhook", "events to a URL", webhook_add },
		{ "rm", "delete", "webhook", "delete one", webhook_rm },
		{ "test", NULL, "webhook", "deliver a test event",
		  webhook_test },
		{ "deliveries", NULL, "webhook", "what was delivered",
		  webhook_deliveries },
		{ "redeliver", NULL, "webhook", "deliver once more",
		  webhook_redeliver },
	};
	static const struct verb_group g = {
		.name = "webhook",
		.summary = "Events to a URL of yours, signed.",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
		.alone = "ls",
	};

	return verb_group(c, &g, argc, argv);
}
