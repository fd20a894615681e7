/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "cli/verbs.h"
#include "net/json.h"

static void shown(FILE *to, const char *s)
{
	for (; *s; s++)
		fputc((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s, to);
}

static const struct cli_describe *describing;

bool cli_args(const struct args *a, int argc, char **argv, int *ret_rest,
	      int *ret_exit)
{
	static char program[] = "caisson";
	struct err e = { 0 };
	int r;

	if (describing) {
		describing->on_args(describing->arg, a);
		*ret_exit = CLI_OK;
		return false;
	}
	/* usage begins with the verb already */
	argv[0] = program;
	r = args_parse(a, argc, argv, ret_rest, &e);

	if (r == ARGS_HELP) {
		*ret_exit = CLI_OK;
		return false;
	}
	if (r < 0) {
		fprintf(stderr, "caisson: %s\n", e.msg);
		fprintf(stderr, "usage: caisson %s\n", a->usage);
		*ret_exit = CLI_OURS;
		return false;
	}
	return true;
}

int cli_usage(const char *fmt, ...)
{
	va_list ap;

	fputs("caisson: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return CLI_OURS;
}

int cli_print_json(const json_t *v)
{
	if (json_dumpf(v, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0)
		return CLI_OURS;
	fputc('\n', stdout);
	return fflush(stdout) == 0 ? CLI_OK : CLI_OURS;
}

static void print_error_json(const char *code, const char *message,
			     const char *cause, const char *remedy)
{
	owned_json v = json_object();
	json_t *o = json_object();

	json_set_take(o, "code", json_string(code));
	json_set_take(o, "message", json_str_lossy(message, strlen(message)));
	json_set_take(o, "cause", json_string(cause));
	if (*remedy)
		json_set_take(o, "remedy", json_string(remedy));
	json_set_take(v, "error", o);
	cli_print_json(v);
}

int cli_fail(const struct cli *c, const struct err *e)
{
	if (c->json)
		print_error_json(err_kind_name(e->kind), e->msg, "client", "");
	fputs("caisson: ", stderr);
	shown(stderr, e->msg);
	fputc('\n', stderr);
	return exit_of_err(e);
}

int cli_fault(const struct cli *c, const struct fault *f)
{
	if (c->json)
		print_error_json(f->code, f->message, f->cause, f->remedy);
	fprintf(stderr, "caisson: %s (%s%s%s)\n", f->message, f->code,
		*f->cause ? ", refused by: " : "", f->cause);
	if (*f->remedy)
		fprintf(stderr, "  remedy: %s\n", f->remedy);
	if (c->verbose && *f->request_id)
		fprintf(stderr, "  request: %s\n", f->request_id);
	return exit_of_fault(f);
}

struct client *cli_client(const struct cli *c, int *ret_exit)
{
	struct context_file file = { 0 };
	struct context ctx = { 0 };
	struct client *cl = NULL;
	struct err e = { 0 };

	if (context_locate(&file, &e) < 0 || context_load(&file, &e) < 0 ||
	    context_get(&file, c->context, &ctx, &e) < 0)
		*ret_exit = cli_fail(c, &e);
	else
		cl = client_new_take(&ctx);
	context_file_fini(&file);
	return cl;
}

int cli_call(const struct cli *c, struct client *cl, const char *method,
	     const char *path, const json_t *body, json_t **ret_body,
	     int *ret_exit)
{
	struct fault f;
	struct err e = { 0 };
	json_t *answer = NULL;
	int r;

	/* wait_s is at most 60: the server's patience, and some for the way */
	r = client_call(cl, CLIENT_CONTROL, method, path, body, 75, &answer,
			NULL, &f, &e);
	if (r == CLIENT_OK) {
		if (ret_body)
			*ret_body = answer;
		else
			json_decref(answer);
		return 0;
	}
	*ret_exit = r == CLIENT_FAULT ? cli_fault(c, &f) : cli_fail(c, &e);
	return -1;
}

void cli_describe(const struct verb *v, const struct cli_describe *d)
{
	struct cli c = { 0 };
	char help[] = "--help";
	owned_str name = xstrdup(v->name);
	char *argv[] = { name, help, NULL };

	describing = d;
	v->run(&c, 2, argv);
	describing = NULL;
}

static void group_help(const struct verb_group *g, FILE *to)
{
	size_t widest = 0;

	for (size_t i = 0; i < g->n; i++) {
		size_t n = strlen(g->verbs[i].name);

		widest = n > widest ? n : widest;
	}
	fprintf(to, "Usage: caisson %s VERB [options] [words]\n\n%s\n\n",
		g->name, g->summary);
	for (size_t i = 0; i < g->n; i++)
		fprintf(to, "  %-*s  %s\n", (int)widest, g->verbs[i].name,
			g->verbs[i].summary);
	fprintf(to, "\n`caisson %s VERB --help` has its options.\n", g->name);
}

int verb_group(struct cli *c, const struct verb_group *g, int argc, char **argv)
{
	const struct verb *alone;

	if (describing) {
		describing->on_group(describing->arg, g);
		return CLI_OK;
	}
	if (argc >= 2 &&
	    (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		group_help(g, stdout);
		return CLI_OK;
	}
	if (argc >= 2 && argv[1][0] != '-')
		return verb_dispatch(c, g->name, g->verbs, g->n, g->later,
				     g->n_later, argc - 1, argv + 1);
	alone = g->alone ? verb_find(g->verbs, g->n, g->alone) : NULL;
	if (alone)
		return alone->run(c, argc, argv);
	group_help(g, stderr);
	return CLI_OURS;
}

static void overview(FILE *to)
{
	fputs("Caisson runs code that nobody has read, each task in its own "
	      "microVM.\n\n"
	      "usage: caisson VERB [options] [words]\n\n",
	      to);
	verb_overview(cli_verbs, n_cli_verbs, to);
	fputs("\nEvery verb takes --json, --context NAME, -v and --help.\n"
	      "SB is a sandbox's id, a unique prefix of it, or its name.\n"
	      "Exit codes: the command's own; 125 ours, 126 refused, 127 not "
	      "found, 124 timeout.\n\n"
	      "The first minutes:\n"
	      "  sudo caisson up\n"
	      "  sudo caisson template build base\n"
	      "  caisson run -- python3 -c 'import platform; "
	      "print(platform.release())'\n",
	      to);
}

int verb_dispatch(struct cli *c, const char *prefix, const struct verb *v,
		  size_t n, const struct verb_later *later, size_t n_later,
		  int argc, char **argv)
{
	const char *p = prefix ? prefix : "", *gap = prefix ? " " : "";
	const struct verb_later *l;
	const struct verb *found;
	const char *near;

	found = verb_find(v, n, argv[0]);
	if (found)
		return found->run(c, argc, argv);
	l = verb_later_find(later, n_later, argv[0]);
	if (l) {
		fprintf(stderr,
			"caisson: \"%s%s%s\" is not supported in this "
			"version; instead: %s\n",
			p, gap, l->name, l->instead);
		return CLI_OURS;
	}
	near = verb_suggest(v, n, argv[0]);
	fputs("caisson: no verb \"", stderr);
	fprintf(stderr, "%s%s", p, gap);
	shown(stderr, argv[0]);
	if (near)
		fprintf(stderr, "\"; did you mean \"%s%s%s\"?\n", p, gap, near);
	else
		fprintf(stderr, "\"; `caisson%s%s --help` lists them\n", gap,
			p);
	return CLI_OURS;
}

int cli_main(int argc, char **argv)
{
	struct cli c = { 0 };
	const struct arg_opt opts[] = { CLI_COMMON(&c) };
	const struct args a = {
		.usage = "VERB [options] [words]",
		.summary = "Caisson runs code that nobody has read.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.stop_at_word = true,
	};
	int rest, ret;

	log_init("caisson", LOG_INFO_);
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		overview(stderr);
		return CLI_OURS;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
	    !strcmp(argv[1], "help")) {
		if (argc > 2) {
			char help[] = "--help";
			char *av[] = { argv[2], argc > 3 ? argv[3] : help,
				       argc > 3 ? help : NULL, NULL };

			return verb_dispatch(&c, NULL, cli_verbs, n_cli_verbs,
					     cli_later, n_cli_later,
					     argc > 3 ? 3 : 2, av);
		}
		overview(stdout);
		return CLI_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		char *av[] = { argv[1], NULL };

		return verb_version(&c, 1, av);
	}
	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc) {
		overview(stderr);
		return CLI_OURS;
	}
	return verb_dispatch(&c, NULL, cli_verbs, n_cli_verbs, cli_later,
			     n_cli_later, argc - rest, argv + rest);
}
