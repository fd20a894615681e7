/* SPDX-License-Identifier: Apache-2.0 */

/* files: what is in a sandbox. Names are the guest's and are never printed
 * raw. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/sandbox.h"
#include "cli/stream.h"
#include "cli/table.h"
#include "net/json.h"

struct files {
	struct cli *cli;
	struct client *client;
	char *id;
	int n; /* words behind SB */
	char **words;
};

/* Options, then SB and between min and max words. False: *ret is the exit. */
static bool files_begin(struct files *f, struct cli *c, const struct args *a,
			int argc, char **argv, int min, int max, int *ret)
{
	int rest;

	*f = (struct files){ .cli = c };
	if (!cli_args(a, argc, argv, &rest, ret))
		return false;
	f->n = argc - rest - 1;
	f->words = argv + rest + 1;
	if (f->n < min || f->n > max) {
		*ret = cli_usage("caisson %s", a->usage);
		return false;
	}
	f->id = sandbox_of(c, argv[rest], &f->client, ret);
	return f->id != NULL;
}

static void files_end(struct files *f)
{
	client_free(f->client);
	free(f->id);
}

/* The bytes of a field that may have a _b64 twin, shown; allocated. */
static char *field_shown(const json_t *v, const char *name)
{
	owned_str twin = xasprintf("%s_b64", name);
	const char *b64 = jget_str(v, twin, NULL);

	if (b64) {
		size_t n = strlen(b64);
		owned_str raw = xcalloc(n + 1, 1);
		ssize_t k = text_unbase64(b64, n, raw);

		if (k >= 0)
			return name_shown(raw, (size_t)k);
	}
	return name_shown_str(jget_str(v, name, ""));
}

/* ---- ls, stat ---- */

static char type_letter(const char *type)
{
	static const struct {
		const char *type;
		char letter;
	} types[] = { { "dir", 'd' },	 { "symlink", 'l' }, { "fifo", 'p' },
		      { "socket", 's' }, { "block", 'b' },   { "char", 'c' } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (!strcmp(type, types[i].type))
			return types[i].letter;
	}
	return '-';
}

static void entry_row(struct table *t, const json_t *x, const char *field)
{
	const char *type = jget_str(x, "type", "file");
	owned_str name = field_shown(x, field);
	owned_str target = field_shown(x, "target");
	owned_str row = xasprintf("%s%s%s%s", name, *target ? " -> " : "",
				  target, !strcmp(type, "dir") ? "/" : "");

	table_cellf(t, "%c%.4s", type_letter(type), jget_str(x, "mode", "?"));
	table_cell(t, jget_str(x, "user", "?"));
	table_cell(t, jget_str(x, "group", "?"));
	table_cellf(t, "%lld", (long long)jget_int(x, "size", 0));
	table_cellf(t, "%.19s", jget_str(x, "mtime", "?"));
	table_cell(t, row);
}

static json_t *all_entries(struct files *f, const char *path, int depth,
			   int *ret)
{
	owned_str base = remote_path(f->id, "files/list", path);
	owned_json all = json_array();
	owned_str after = NULL;

	for (;;) {
		owned_str url =
		    xasprintf("%s&depth=%d&limit=200%s%s", base, depth,
			      after ? "&after=" : "", after ? after : "");
		owned_json body = NULL;
		const char *next;

		if (remote_call(f->cli, f->client, "GET", url, &body, ret) < 0)
			return NULL;
		json_array_extend(all, json_object_get(body, "items"));
		next = jget_str(body, "next", NULL);
		if (!next)
			return TAKE(all);
		free(after);
		after = client_escape(next);
	}
}

static int list(struct files *f, const char *path, int64_t depth)
{
	owned_json entry = NULL;
	owned_json items = NULL;
	struct table t;
	json_t *x;
	size_t i;
	int ret = CLI_OK;

	if (remote_stat(f->cli, f->client, f->id, path, true, &entry, &ret) < 0)
		return ret;
	if (entry && strcmp(jget_str(entry, "type", ""), "dir") != 0)
		items = json_pack("[O]", entry);
	else
		items = all_entries(f, path, (int)depth, &ret);
	if (!items)
		return ret;
	if (f->cli->json)
		return cli_print_json(items);
	table_init(&t, 6);
	json_array_foreach(items, i, x)
	    entry_row(&t, x, depth > 1 ? "path" : "name");
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

static int files_ls(struct cli *c, int argc, char **argv)
{
	int64_t depth = 1;
	const struct arg_opt opts[] = {
		{ "depth", 'd', ARG_INT, &depth, "N", "folders below, too", 1,
		  64 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "files ls [options] SB [PATH]",
		.summary = "List a folder of a sandbox.",
		.more = "  caisson files ls box /etc\n"
			"  caisson files ls -d 3 box /work --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct files f;
	int ret;

	if (!files_begin(&f, c, &a, argc, argv, 0, 1, &ret))
		return ret;
	ret = list(&f, f.n ? f.words[0] : "/", depth);
	files_end(&f);
	return ret;
}

static int files_stat(struct cli *c, int argc, char **argv)
{
	static const struct column lines[] = {
		{ "path", "path", COL_TEXT },
		{ "type", "type", COL_TEXT },
		{ "size", "size", COL_TEXT },
		{ "mode", "mode", COL_TEXT },
		{ "user", "user", COL_TEXT },
		{ "group", "group", COL_TEXT },
		{ "changed", "mtime", COL_TEXT },
		{ "target", "target", COL_TEXT },
		{ "etag", "etag", COL_TEXT },
	};
	bool follow = false;
	const struct arg_opt opts[] = {
		{ "follow", 'L', ARG_FLAG, &follow, NULL,
		  "what a link leads to", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "files stat [options] SB PATH",
		.summary = "One file or folder of a sandbox.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json entry = NULL;
	struct files f;
	int ret, r;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1, &ret))
		return ret;
	r = remote_stat(c, f.client, f.id, f.words[0], follow, &entry, &ret);
	files_end(&f);
	if (r == 1) {
		cli_usage("no such file in the sandbox");
		return CLI_NOT_FOUND;
	}
	return r < 0 ? ret : record_print(c, entry, lines, ARRAY_SIZE(lines));
}

/* ---- cat, put ---- */

static int files_cat(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "files cat SB PATH...",
		.summary = "Files of a sandbox to standard output, byte by "
			   "byte.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct files f;
	int ret;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1000, &ret))
		return ret;
	ret = CLI_OK;
	for (int i = 0; i < f.n && ret == CLI_OK; i++) {
		struct copy x = { .cli = c,
				  .client = f.client,
				  .sandbox = f.id,
				  .quiet = true,
				  .what = f.words[i] };

		copy_init(&x);
		ret = copy_stream_down(&x, f.words[i], STDOUT_FILENO);
		copy_fini(&x);
	}
	files_end(&f);
	return ret;
}

static int files_put(struct cli *c, int argc, char **argv)
{
	struct copy x = { .cli = c, .quiet = true };
	const struct arg_opt opts[] = {
		{ "mode", 0, ARG_STR, &x.mode, "OCTAL", "of the file", 0, 0 },
		{ "owner", 0, ARG_STR, &x.owner, "USER[:GROUP]", "of the file",
		  0, 0 },
		{ "parents", 'p', ARG_FLAG, &x.parents, NULL,
		  "make missing folders", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "files put [options] SB PATH",
		.summary = "Standard input into a file of a sandbox, whole or "
			   "not at all.",
		.more = "  echo hello | caisson files put box /tmp/hello\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct files f;
	int ret;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1, &ret))
		return ret;
	x.client = f.client;
	x.sandbox = f.id;
	x.what = f.words[0];
	copy_init(&x);
	ret = copy_stream_up(&x, STDIN_FILENO, f.words[0]);
	copy_fini(&x);
	files_end(&f);
	return ret;
}

/* ---- mkdir, mv, rm ---- */

static int files_mkdir(struct cli *c, int argc, char **argv)
{
	const char *mode = NULL, *owner = NULL;
	bool parents = false;
	const struct arg_opt opts[] = {
		{ "parents", 'p', ARG_FLAG, &parents, NULL,
		  "those above, too; one that is there is no error", 0, 0 },
		{ "mode", 0, ARG_STR, &mode, "OCTAL", "its mode", 0, 0 },
		{ "owner", 0, ARG_STR, &owner, "USER[:GROUP]", "its owner", 0,
		  0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "files mkdir [options] SB PATH",
				.summary = "Make a folder in a sandbox.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	owned_json entry = NULL;
	struct files f;
	int ret, r;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1, &ret))
		return ret;
	owned_str base = remote_path(f.id, "files/mkdir", f.words[0]);
	owned_str m = client_escape(mode ? mode : "");
	owned_str o = client_escape(owner ? owner : "");
	owned_str url =
	    xasprintf("%s%s%s%s%s%s", base, parents ? "&parents=1" : "",
		      mode ? "&mode=" : "", m, owner ? "&owner=" : "", o);

	r = remote_call(c, f.client, "POST", url, &entry, &ret);
	files_end(&f);
	if (r == 0)
		ret = c->json ? cli_print_json(entry) : CLI_OK;
	return ret;
}

static int files_mv(struct cli *c, int argc, char **argv)
{
	bool replace = false;
	const struct arg_opt opts[] = {
		{ "force", 'f', ARG_FLAG, &replace, NULL,
		  "replace what is there", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "files mv [options] SB FROM TO",
				.summary = "Rename in a sandbox.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	owned_json entry = NULL;
	struct files f;
	int ret, r;

	if (!files_begin(&f, c, &a, argc, argv, 2, 2, &ret))
		return ret;
	owned_str base = remote_path(f.id, "files/move", f.words[0]);
	owned_str to = client_escape(f.words[1]);
	owned_str url =
	    xasprintf("%s&to=%s%s", base, to, replace ? "&replace=1" : "");

	r = remote_call(c, f.client, "POST", url, &entry, &ret);
	files_end(&f);
	if (r == 0)
		ret = c->json ? cli_print_json(entry) : CLI_OK;
	return ret;
}

static int files_rm(struct cli *c, int argc, char **argv)
{
	bool tree = false;
	const struct arg_opt opts[] = {
		{ "recursive", 'r', ARG_FLAG, &tree, NULL,
		  "a folder with all that is in it", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = { .usage = "files rm [-r] SB PATH...",
				.summary = "Remove files of a sandbox.",
				.opts = opts,
				.n_opts = ARRAY_SIZE(opts) };
	struct files f;
	int ret, worst = CLI_OK;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1000, &ret))
		return ret;
	for (int i = 0; i < f.n; i++) {
		owned_str base = remote_path(f.id, "files", f.words[i]);
		owned_str url =
		    xasprintf("%s%s", base, tree ? "&recursive=1" : "");

		ret = CLI_OK;
		remote_call(c, f.client, "DELETE", url, NULL, &ret);
		worst = worst == CLI_OK ? ret : worst;
	}
	files_end(&f);
	return worst;
}

/* ---- watch ---- */

struct watch {
	const struct cli *cli;
	const char *url;
};

static char *watch_path(void *arg, const char *id)
{
	struct watch *w = arg;

	(void)id;
	return xstrdup(w->url);
}

static int on_change(void *arg, const struct sse_event *ev)
{
	const struct cli *c = ((struct watch *)arg)->cli;
	owned_json v = NULL;
	owned_str path = NULL;
	owned_str to = NULL;
	owned_str type = name_shown_str(ev->type);

	if (json_parse(ev->data, ev->n, &v, NULL) < 0 ||
	    !strcmp(ev->type, "alive"))
		return 0;
	if (c->json) {
		owned_str text = json_text(v);

		return printf("%s\n", text) < 0 || fflush(stdout) != 0;
	}
	path = field_shown(v, "path");
	to = field_shown(v, "to");
	return printf("%-8s %s%s%s\n", type, path, *to ? " -> " : "", to) < 0 ||
	       fflush(stdout) != 0 || !strcmp(ev->type, "gone");
}

static int files_watch(struct cli *c, int argc, char **argv)
{
	bool tree = false;
	const struct arg_opt opts[] = {
		{ "recursive", 'r', ARG_FLAG, &tree, NULL, "folders below, too",
		  0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "files watch [-r] SB PATH",
		.summary = "Changes below a folder of a sandbox, as they "
			   "happen.",
		.more = "`overflow` means that some were lost: list again. "
			"--json prints a line for each.\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct files f;
	int ret;

	if (!files_begin(&f, c, &a, argc, argv, 1, 1, &ret))
		return ret;
	owned_str base = remote_path(f.id, "watch", f.words[0]);
	owned_str url = xasprintf("%s%s", base, tree ? "&recursive=1" : "");
	struct stream s = { .cli = c,
			    .client = f.client,
			    .side = CLIENT_DATA,
			    .path = watch_path,
			    .on_event = on_change };
	struct watch w = { .cli = c, .url = url };

	s.arg = &w;
	ret = stream_follow(&s);
	files_end(&f);
	return ret;
}

int verb_files(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "ls", "list", "files", "list a folder", files_ls },
		{ "cat", NULL, "files", "files to standard output", files_cat },
		{ "put", NULL, "files", "standard input into a file",
		  files_put },
		{ "stat", NULL, "files", "one file or folder", files_stat },
		{ "mkdir", NULL, "files", "make a folder", files_mkdir },
		{ "mv", "move", "files", "rename", files_mv },
		{ "rm", "remove", "files", "remove", files_rm },
		{ "watch", NULL, "files", "changes as they happen",
		  files_watch },
	};
	static const struct verb_group g = {
		.name = "files",
		.summary = "Files of a sandbox; `caisson cp` copies them.",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
	};

	return verb_group(c, &g, argc, argv);
}
