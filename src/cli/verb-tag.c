/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb-tag.h"

#include <string.h>

#include "base/own.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "net/json.h"

static const struct column template_lines[] = {
	{ "name", "name", COL_TEXT },
	{ "public", "public", COL_TEXT },
	{ "project", "project", COL_TEXT },
	{ "release", "release", COL_TEXT },
	{ "tags", "tags", COL_JSON },
	{ "created", "created_at", COL_TIME },
	{ "kernel", "manifest.kernel", COL_TEXT },
	{ "root", "manifest.root", COL_TEXT },
	{ "defaults", "manifest.defaults", COL_JSON },
	{ "provenance", "manifest.provenance", COL_JSON },
};

static char *template_path(const char *name, const char *tail)
{
	owned_str t = client_escape(name);

	return xasprintf("/v1/templates/%s%s", t, tail);
}

int template_info(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "template info T",
		.summary = "A template: its tags, and what its newest release "
			   "is made of.",
		.more = "  caisson template info base\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json t = NULL;
	owned_json release = NULL;
	owned_str path = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("template info: caisson template info T");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	path = template_path(argv[rest], "");
	if (cli_call(c, cl, "GET", path, NULL, &t, &ret) == 0 &&
	    jget_str(t, "release", NULL)) {
		owned_str at =
		    xasprintf("/v1/releases/%s", jget_str(t, "release", ""));

		if (cli_call(c, cl, "GET", at, NULL, &release, &ret) == 0)
			json_object_set(t, "manifest",
					json_object_get(release, "manifest"));
	}
	client_free(cl);
	return t ? record_print(c, t, template_lines,
				ARRAY_SIZE(template_lines))
		 : ret;
}

int template_tag(struct cli *c, int argc, char **argv)
{
	bool remove = false;
	const struct arg_opt opts[] = {
		{ "delete", 'd', ARG_FLAG, &remove, NULL, "delete the tag", 0,
		  0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "template tag T TAG RELEASE | -d T TAG",
		.summary = "Move a tag to a release of the template, or make "
			   "it.",
		.more = "  caisson template tag base stable sha256:41c0...\n"
			"  caisson template tag -d base stable\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = json_object();
	owned_str tag = NULL;
	owned_str tail = NULL;
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + (remove ? 2 : 3) != argc)
		return cli_usage("template tag: caisson template tag T TAG "
				 "RELEASE, or -d T TAG");
	tag = client_escape(argv[rest + 1]);
	tail = xasprintf("/tags/%s", tag);
	path = template_path(argv[rest], tail);
	if (!remove)
		json_set_take(body, "release", json_string(argv[rest + 2]));
	return call_print(c, remove ? "DELETE" : "PUT", path,
			  remove ? NULL : body, template_lines,
			  ARRAY_SIZE(template_lines));
}

int template_rm(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "template rm T",
		.summary = "Delete a template and its tags, unless sandboxes "
			   "use it.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str path = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("template rm: caisson template rm T");
	path = template_path(argv[rest], "");
	return call_print(c, "DELETE", path, NULL, template_lines, 1);
}
