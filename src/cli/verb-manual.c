/* SPDX-License-Identifier: Apache-2.0 */

/* manual: caisson(1) from the tables that --help is made of. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "cli/version.h"

/* Text of ours in roff: no line may begin with a dot or a quote. */
static void put(const char *s)
{
	bool start = true;

	for (; *s; s++) {
		if (start && (*s == '.' || *s == '\''))
			fputs("\\&", stdout);
		start = *s == '\n';
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-')
			fputs("\\-", stdout);
		else if (!strncmp(s, "…", 3)) { /* all else of ours is ASCII */
			fputs("...", stdout);
			s += 2;
		} else
			putchar(*s);
	}
}

static void put_option(const struct arg_opt *o)
{
	printf(".TP\n");
	if (o->short_name)
		printf("\\fB\\-%c\\fR, ", o->short_name);
	printf("\\fB\\-\\-");
	put(o->name);
	printf("\\fR");
	if (o->value) {
		printf(" \\fI");
		put(o->value);
		printf("\\fR");
	}
	putchar('\n');
	put(o->help);
	putchar('\n');
}

static bool is_common(const struct arg_opt *o)
{
	return !strcmp(o->name, "json") || !strcmp(o->name, "context") ||
	       !strcmp(o->name, "verbose");
}

static void on_args(void *arg, const struct args *a)
{
	(void)arg;
	printf(".SS caisson ");
	put(a->usage);
	putchar('\n');
	put(a->summary);
	putchar('\n');
	for (size_t i = 0; i < a->n_opts; i++) {
		if (!is_common(&a->opts[i]))
			put_option(&a->opts[i]);
	}
	if (!a->more)
		return;
	printf(".PP\n.nf\n");
	put(a->more);
	printf("\n.fi\n");
}

static void on_group(void *arg, const struct verb_group *g)
{
	const struct verb_group **ret = arg;

	*ret = g;
}

static void put_verb(const struct verb *v)
{
	const struct verb_group *g = NULL;
	const struct cli_describe d = { on_args, on_group, &g };

	cli_describe(v, &d);
	for (size_t i = 0; g && i < g->n; i++) {
		const struct verb_group *inner = NULL;
		const struct cli_describe k = { on_args, on_group, &inner };

		cli_describe(&g->verbs[i], &k);
	}
}

static void put_head(void)
{
	printf(".\\\" made by `caisson manual`\n"
	       ".TH CAISSON 1 \"\" \"caisson %s\"\n"
	       ".SH NAME\n"
	       "caisson \\- run code that nobody has read, each task in its "
	       "own microVM\n"
	       ".SH SYNOPSIS\n"
	       ".B caisson\n"
	       "\\fIVERB\\fR [\\fIoptions\\fR] [\\fIwords\\fR]\n"
	       ".SH DESCRIPTION\n"
	       "\\fISB\\fR is a sandbox's id, a unique prefix of it, or its "
	       "name.\n"
	       "Every verb takes \\fB\\-\\-json\\fR, \\fB\\-\\-context\\fR "
	       "\\fINAME\\fR, \\fB\\-v\\fR and \\fB\\-\\-help\\fR.\n",
	       CAISSON_VERSION);
}

static void put_tail(void)
{
	static const char *const codes[][2] = {
		{ "the command's own", "`run`, `exec` and `attach` end as the "
				       "command ended" },
		{ "124", "a timeout" },
		{ "125", "Caisson's failure, or a wrong use" },
		{ "126", "refused: a role, a policy, a quota, or a command "
			 "that may not be run" },
		{ "127", "not found: the sandbox, or the command" },
	};
	static const char *const names[][2] = {
		{ "CAISSON_CONFIG", "the file of contexts "
				    "(~/.config/caisson/config.json)" },
		{ "CAISSON_CONTEXT", "the context to use" },
		{ "CAISSON_URL, CAISSON_DATA_URL, CAISSON_KEY",
		  "single values of it" },
		{ "CAISSON_CA_FILE", "certificates to trust for an https "
				     "server" },
	};

	printf(".SH EXIT STATUS\n");
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		printf(".TP\n\\fB%s\\fR\n", codes[i][0]);
		put(codes[i][1]);
		putchar('\n');
	}
	printf(".SH ENVIRONMENT\n");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		printf(".TP\n\\fB%s\\fR\n", names[i][0]);
		put(names[i][1]);
		putchar('\n');
	}
}

int verb_manual(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "manual",
		.summary = "This program's manual page, in roff.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	const char *group = "";
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	put_head();
	for (size_t i = 0; i < n_cli_verbs; i++) {
		const struct verb *v = &cli_verbs[i];

		if (!v->group)
			continue;
		if (strcmp(group, v->group) != 0) {
			printf(".SH \"");
			for (const char *p = v->group; *p; p++)
				putchar(*p & ~0x20);
			printf("\"\n");
		}
		group = v->group;
		put_verb(v);
	}
	put_tail();
	return fflush(stdout) == 0 ? CLI_OK : CLI_OURS;
}
