/* SPDX-License-Identifier: Apache-2.0 */

/* run: a command in a sandbox of its own, its output here, its exit code ours.
 */

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/launch.h"
#include "cli/sandbox.h"
#include "cli/sigs.h"
#include "net/json.h"

struct run {
	struct cli *cli;
	struct client *client;
	struct create_opts create;
	struct exec_opts exec;
	bool keep, keep_on_fail;
	char *sandbox; /* id */
	int signal_fd;
};

static void run_fini(struct run *r)
{
	client_free(r->client);
	free(r->sandbox);
	free(r->create.labels.v);
	free(r->create.env.v);
	free(r->exec.env.v);
	fd_close(r->signal_fd);
}

static void say_isolation(const struct cli *c, const json_t *sandbox)
{
	if (!c->verbose)
		return;
	fprintf(stderr, "caisson: sandbox %s · isolation: %s (%s)\n",
		jget_str(sandbox, "id", "?"),
		jget_str(sandbox, "isolation.level", "unknown"),
		jget_str(sandbox, "isolation.reason", "no reason given"));
}

static int run_in_new(struct run *r, char *const *cmd)
{
	struct launch l = { .cli = r->cli, .opts = &r->exec };
	owned_json body = NULL;
	owned_json spec = NULL;
	owned_json answer = NULL;
	struct err e = { 0 };
	const char *id;
	int ret, end;

	body = create_body(&r->create, &e);
	spec = body ? exec_body(&r->exec, cmd, false, &e) : NULL;
	if (!spec)
		return cli_fail(r->cli, &e);
	r->client = cli_client(r->cli, &ret);
	if (!r->client)
		return ret;
	r->signal_fd = follow_signals();
	answer = sandbox_make(r->cli, r->client, body, r->signal_fd, &ret);
	if (!answer)
		return ret;
	id = jget_str(answer, "sandbox.id", "");
	if (!sandbox_id_valid(id))
		return cli_usage("the server's answer names no sandbox");
	r->sandbox = xstrdup(id);
	say_isolation(r->cli, jget(answer, "sandbox"));
	if (r->cli->json)
		print_json_line("sandbox",
				json_deep_copy(jget(answer, "sandbox")));
	l.sandbox = r->sandbox;
	l.client = r->client;
	ret = launch_exec(&l, spec);
	if (r->keep || (r->keep_on_fail && ret != 0)) {
		fprintf(stderr, "caisson: sandbox %s stays; `caisson end %s`\n",
			r->sandbox, r->sandbox);
		return ret;
	}
	end = sandbox_end(r->cli, r->client, r->sandbox, NULL);
	return ret == CLI_OK ? end : ret;
}

int verb_run(struct cli *c, int argc, char **argv)
{
	struct run r = { .cli = c, .signal_fd = -1 };
	const struct arg_opt opts[] = {
		CREATE_OPTS(&r.create),
		EXEC_OPTS(&r.exec),
		{ "interactive", 'i', ARG_FLAG, &r.exec.interactive, NULL,
		  "standard input is the command's (else it has none)", 0, 0 },
		{ "tty", 0, ARG_FLAG, &r.exec.tty, NULL,
		  "a terminal, with -i to type into", 0, 0 },
		ATTACH_OPTS(&r.exec),
		{ "keep", 0, ARG_FLAG, &r.keep, NULL,
		  "let the sandbox stay afterwards", 0, 0 },
		{ "keep-on-fail", 0, ARG_FLAG, &r.keep_on_fail, NULL,
		  "let it stay if the command fails", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "run [options] -- CMD [ARG...]",
		.summary = "Run one command in a sandbox of its own, which "
			   "ends with it.",
		.more = "Output arrives on the same descriptors as it was "
			"written; the exit code is the\ncommand's. After a "
			"second Ctrl-C the sandbox is ended. -t is the "
			"template here: a terminal is --tty.\n" ATTACH_HELP "\n"
			"  caisson run -- python3 -c 'print(6 * 7)'\n"
			"  tar c . | caisson run -i -- tar t\n"
			"  caisson run -i --tty -- bash\n"
			"  caisson run -t tiny --memory 128 -- sh -c 'echo "
			"$HOSTNAME'\n"
			"  caisson run --timeout 10 --keep-on-fail -- make "
			"test\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.stop_at_word = true,
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc)
		ret = cli_usage("run: which command? caisson run -- CMD");
	else if (r.create.template_ref && !strcmp(r.create.template_ref, "--"))
		ret = cli_usage("run: -t is the template; a terminal is -i "
				"--tty");
	else if ((ret = launch_check(c, &r.exec)) == CLI_OK)
		ret = run_in_new(&r, argv + rest);
	run_fini(&r);
	return ret;
}
