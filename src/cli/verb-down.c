/* SPDX-License-Identifier: Apache-2.0 */

/* down and status. */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cg.h"
#include "cli/cli.h"
#include "cli/stop.h"
#include "cli/tree.h"
#include "cli/upstatus.h"
#include "net/json.h"

static void say(const char *line)
{
	printf("  %s\n", line);
	fflush(stdout);
}

static void quiet(const char *line)
{
	(void)line;
}

static int forget_context(const struct stack *s, struct err *e)
{
	struct context_file f = { 0 };
	int r;

	r = context_locate(&f, e);
	if (r == 0)
		r = context_load(&f, e);
	if (r == 0 && context_remove(&f, s->context))
		r = context_save(&f, e);
	context_file_fini(&f);
	return r;
}

static int down(struct cli *c, struct stack *s, bool purge)
{
	struct err e = { 0 };
	bool needed;
	int r = 0;

	if (geteuid() != 0)
		return cli_usage("down needs root: sudo caisson down");
	s->cgroup_root = cg_root();
	if (!s->cgroup_root)
		return cli_usage("no cgroup v2 hierarchy: nothing of ours can "
				 "run here");
	needed = stop_needed(s);
	if (needed)
		r = stop_all(s, c->json ? quiet : say, &e);
	if (r == 0 && purge)
		r = tree_remove(s->data, &e);
	if (r == 0 && purge)
		r = forget_context(s, &e);
	if (r < 0)
		return cli_fail(c, &e);
	if (c->json) {
		owned_json v = json_pack("{s:b,s:b}", "was_running", needed,
					 "purged", purge);

		return cli_print_json(v);
	}
	printf(needed ? "down%s\n" : "nothing was running%s\n",
	       purge ? "; data and context removed" : "");
	return CLI_OK;
}

int verb_down(struct cli *c, int argc, char **argv)
{
	struct stack_opts o = { 0 };
	bool purge = false;
	const struct arg_opt opts[] = {
		STACK_OPTS(&o),
		{ "purge", 0, ARG_FLAG, &purge, NULL,
		  "also remove DATA (database, templates) and the context", 0,
		  0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "down [--purge] [options]",
		.summary = "End everything that `up` started, sandboxes "
			   "included. Needs root.",
		.more = "  sudo caisson down\n  sudo caisson down --purge\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct stack s;
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	o.context = c->context;
	stack_init(&s);
	if (rest < argc)
		ret = cli_usage("down takes no words (\"%s\")", argv[rest]);
	else if (stack_load(&s, &o, &e) < 0)
		ret = cli_fail(c, &e);
	else
		ret = down(c, &s, purge);
	stack_fini(&s);
	return ret;
}

int verb_status(struct cli *c, int argc, char **argv)
{
	struct stack_opts o = { 0 };
	const struct arg_opt opts[] = { STACK_OPTS(&o), CLI_COMMON(c) };
	const struct args a = {
		.usage = "status [options]",
		.summary = "What runs, and how strong the walls are; exit 0 "
			   "if all is ready.",
		.more = "  caisson status\n  caisson status --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct stack s;
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	stack_init(&s);
	ret = stack_load(&s, &o, &e) < 0 ? cli_fail(c, &e)
					 : upstatus_print(c, &s);
	stack_fini(&s);
	return ret;
}
