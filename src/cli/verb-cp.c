/* SPDX-License-Identifier: Apache-2.0 */

/* cp: files and trees, both ways. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/copyspec.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "net/json.h"

struct cp {
	struct copy copy;
	struct copyspec from, to;
	bool tree, compress;
};

static enum copy_there kind_of(const json_t *entry)
{
	return !strcmp(jget_str(entry, "type", "file"), "dir") ? COPY_FOLDER
							       : COPY_FILE;
}

/* What a path of the sandbox is now. */
static int look(struct cp *p, const char *path, enum copy_there *ret,
		int *ret_exit)
{
	owned_json entry = NULL;
	int r = remote_stat(p->copy.cli, p->copy.client, p->copy.sandbox, path,
			    true, &entry, ret_exit);

	*ret = r == 1 ? COPY_ABSENT : kind_of(entry);
	return r < 0 ? -1 : 0;
}

static enum copy_there look_here(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return COPY_ABSENT;
	return S_ISDIR(st.st_mode) ? COPY_FOLDER : COPY_FILE;
}

static int need_tree(const struct cp *p, const char *path)
{
	return cli_usage("%s is a folder; %s", path,
			 p->to.place == COPY_STREAM ||
				 p->from.place == COPY_STREAM
			     ? "a stream holds one file"
			     : "copy it with -r");
}

static int copy_down(struct cp *p)
{
	enum copy_there src, there = look_here(p->to.path ? p->to.path : "");
	owned_str target = NULL;
	const char *why = NULL;
	int ret;

	if (look(p, p->from.path, &src, &ret) < 0)
		return ret;
	if (src == COPY_ABSENT) {
		owned_str name = name_shown_str(p->from.path);

		cli_usage("no %s in %s", name, p->from.sandbox);
		return CLI_NOT_FOUND;
	}
	if (src == COPY_FOLDER && (!p->tree || p->to.place == COPY_STREAM))
		return need_tree(p, p->from.path);
	if (p->to.place == COPY_STREAM)
		return copy_stream_down(&p->copy, p->from.path, STDOUT_FILENO);
	target = copy_target(p->from.path, src == COPY_FOLDER, p->to.path,
			     there, &why);
	if (!target)
		return cli_usage("%s %s", p->to.path, why);
	return src == COPY_FOLDER
		   ? copy_tree_down(&p->copy, p->from.path, target)
		   : copy_file_down(&p->copy, p->from.path, target);
}

static int copy_up(struct cp *p)
{
	bool is_stream = p->from.place == COPY_STREAM;
	enum copy_there there,
	    src = is_stream ? COPY_FILE : look_here(p->from.path);
	owned_str target = NULL;
	const char *why = NULL;
	int ret;

	if (src == COPY_ABSENT) {
		cli_usage("%s: %s", p->from.path, strerror(ENOENT));
		return CLI_NOT_FOUND;
	}
	if (src == COPY_FOLDER && !p->tree)
		return need_tree(p, p->from.path);
	if (look(p, p->to.path, &there, &ret) < 0)
		return ret;
	target = copy_target(is_stream ? "" : p->from.path, src == COPY_FOLDER,
			     p->to.path, there, &why);
	if (!target)
		return cli_usage("%s:%s %s", p->to.sandbox, p->to.path, why);
	if (is_stream)
		return copy_stream_up(&p->copy, STDIN_FILENO, target);
	return src == COPY_FOLDER
		   ? copy_tree_up(&p->copy, p->from.path, target)
		   : copy_file_up(&p->copy, p->from.path, target);
}

/* Which side is the sandbox's; the exit code if it is not one of them. */
static int check(const struct cp *p)
{
	bool from = p->from.place == COPY_SANDBOX,
	     to = p->to.place == COPY_SANDBOX;

	if (from && to)
		return cli_usage("cp: one side is this machine; between "
				 "sandboxes: caisson cp A:/x - | caisson cp - "
				 "B:/x");
	if (!from && !to)
		return cli_usage("cp: one side is SB:PATH; a file here whose "
				 "name has a colon is ./NAME");
	return CLI_OK;
}

/* Over a loopback there is nothing to win. */
static bool is_near(struct client *cl)
{
	const struct context *ctx = client_context(cl);
	const char *url = *ctx->data_url ? ctx->data_url : ctx->url;

	return strstr(url, "//127.") || strstr(url, "//localhost") ||
	       strstr(url, "//[::1]");
}

static int cp(struct cp *p)
{
	bool down = p->from.place == COPY_SANDBOX;
	const struct copyspec *far = down ? &p->from : &p->to;
	owned_str id = NULL;
	int ret = check(p);

	if (ret != CLI_OK)
		return ret;
	id = sandbox_of(p->copy.cli, far->sandbox, &p->copy.client, &ret);
	if (!id)
		return ret;
	p->copy.sandbox = id;
	p->copy.zstd = p->compress || !is_near(p->copy.client);
	p->copy.what = far->path;
	copy_init(&p->copy);
	ret = down ? copy_down(p) : copy_up(p);
	copy_fini(&p->copy);
	client_free(p->copy.client);
	return ret;
}

int verb_cp(struct cli *c, int argc, char **argv)
{
	struct cp p = { .copy = { .cli = c, .parents = false } };
	int64_t max_bytes = 0, max_entries = 0;
	const struct arg_opt opts[] = {
		{ "recursive", 'r', ARG_FLAG, &p.tree, NULL, "folders, too", 0,
		  0 },
		{ "parents", 'p', ARG_FLAG, &p.copy.parents, NULL,
		  "make missing folders of the sandbox", 0, 0 },
		{ "owner", 0, ARG_STR, &p.copy.owner, "USER[:GROUP]",
		  "of what is made in the sandbox", 0, 0 },
		{ "mode", 0, ARG_STR, &p.copy.mode, "OCTAL",
		  "of the file in the sandbox", 0, 0 },
		{ "compress", 'z', ARG_FLAG, &p.compress, NULL,
		  "trees in zstd (else only to servers elsewhere)", 0, 0 },
		{ "quiet", 'q', ARG_FLAG, &p.copy.quiet, NULL, "no progress", 0,
		  0 },
		{ "max-bytes", 0, ARG_INT, &max_bytes, "N",
		  "take at most N bytes of a tree", 1, INT64_MAX },
		{ "max-entries", 0, ARG_INT, &max_entries, "N",
		  "take at most N entries of a tree", 1, INT64_MAX },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "cp [options] SB:PATH DEST | SRC SB:PATH",
		.summary = "Copy files and folders between here and a sandbox; "
			   "- is standard input or output.",
		.more =
		    "A folder that is there means: into it. SRC/. means the "
		    "folder's contents. Modes and\ntimes are kept; what is "
		    "there is replaced. A file arrives whole or not at all, a\n"
		    "download that breaks off goes on where it was. A tree "
		    "from a sandbox is taken\nwithout trust: no name or link "
		    "leads out of DEST, there are no devices, no setuid;\n"
		    "links that leave the tree are left out with a word.\n\n"
		    "  caisson cp -r ./repo box:/work\n"
		    "  caisson cp box:/work/out.log .\n"
		    "  pg_dump db | caisson cp - box:/tmp/db.sql\n"
		    "  caisson cp -r box:/work/. ./result\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 2 != argc)
		return cli_usage("cp: caisson cp SRC DEST, one of them "
				 "SB:PATH");
	p.copy.limits.bytes = (uint64_t)max_bytes;
	p.copy.limits.entries = (uint64_t)max_entries;
	if (copyspec_parse(argv[rest], &p.from) &&
	    copyspec_parse(argv[rest + 1], &p.to))
		ret = cp(&p);
	else
		ret = cli_usage("cp: SB: needs a path behind the colon");
	copyspec_fini(&p.from);
	copyspec_fini(&p.to);
	return ret;
}
