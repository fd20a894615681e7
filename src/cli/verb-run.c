/* SPDX-License-Identifier: Apache-2.0 */

/* run and exec: a command in a sandbox, its output here, its exit code ours. */

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/jget.h"
#include "cli/sandbox.h"
#include "net/json.h"

struct run {
	struct cli *cli;
	struct client *control, *data;
	struct create_opts create;
	struct exec_opts exec;
	bool keep, keep_on_fail, detached;
	char *sandbox; /* id */
	int signal_fd;
};

static void run_fini(struct run *r)
{
	client_free(r->control);
	client_free(r->data);
	free(r->sandbox);
	free(r->create.labels.v);
	free(r->create.env.v);
	free(r->exec.env.v);
	fd_close(r->signal_fd);
}

/* Two clients: one carries the stream while the other says "signal". */
static bool connect_clients(struct run *r, int *ret_exit)
{
	r->control = cli_client(r->cli, ret_exit);
	if (r->control)
		r->data = cli_client(r->cli, ret_exit);
	return r->data != NULL;
}

static void print_json_line(const char *key, json_t *value_take)
{
	owned_json v = json_object();
	owned_str text = NULL;

	json_set_take(v, key, value_take);
	text = json_text(v);
	printf("%s\n", text);
	fflush(stdout);
}

/* Start the command and follow it to its end; the exit code. */
static int run_command(struct run *r, const json_t *body)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/execs", r->sandbox);
	struct follow f = { .cli = r->cli,
			    .data = r->data,
			    .control = r->control,
			    .signal_fd = r->signal_fd };
	owned_json exec = NULL;
	char note[256] = "";
	int ret;

	if (cli_call(r->cli, r->control, "POST", path, body, &exec, &ret) < 0)
		return ret;
	f.exec = jget_str(exec, "id", NULL);
	if (!f.exec)
		return cli_usage("the server's answer names no exec");
	if (r->detached) {
		if (r->cli->json)
			return cli_print_json(exec);
		printf("%s\n", f.exec);
		return CLI_OK;
	}
	if (r->cli->json)
		print_json_line("exec", json_deep_copy(exec));
	ret = follow_output(&f);
	if (f.interrupted)
		ret = 128 + f.last_signal;
	else if (f.reader_gone)
		ret = 128 + 13; /* as if SIGPIPE had ended it */
	else if (f.fact)
		ret = exit_of_fact(f.fact, note, sizeof(note));
	if (*note)
		fprintf(stderr, "caisson: %s\n", note);
	json_decref(f.fact);
	return ret;
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
	if (!connect_clients(r, &ret))
		return ret;
	r->signal_fd = follow_signals();
	answer = sandbox_make(r->cli, r->control, body, r->signal_fd, &ret);
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
	ret = run_command(r, spec);
	if (r->keep || (r->keep_on_fail && ret != 0)) {
		fprintf(stderr, "caisson: sandbox %s stays; `caisson end %s`\n",
			r->sandbox, r->sandbox);
		return ret;
	}
	end = sandbox_end(r->cli, r->control, r->sandbox, NULL);
	return ret == CLI_OK ? end : ret;
}

int verb_run(struct cli *c, int argc, char **argv)
{
	struct run r = { .cli = c, .signal_fd = -1 };
	const struct arg_opt opts[] = {
		CREATE_OPTS(&r.create),
		EXEC_OPTS(&r.exec),
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
			"written; the exit code is the\ncommand's. Ctrl-C "
			"reaches the command; a second one ends the "
			"sandbox.\n\n"
			"  caisson run -- python3 -c 'print(6 * 7)'\n"
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
	else
		ret = run_in_new(&r, argv + rest);
	run_fini(&r);
	return ret;
}

int verb_exec(struct cli *c, int argc, char **argv)
{
	struct run r = { .cli = c, .signal_fd = -1 };
	const struct arg_opt opts[] = {
		EXEC_OPTS(&r.exec),
		{ "detach", 'd', ARG_FLAG, &r.detached, NULL,
		  "start it, print its id, do not wait", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "exec [options] SB -- CMD [ARG...]",
		.summary = "Run a command in a sandbox that is there.",
		.more = "  caisson exec box -- ls -l /\n"
			"  caisson exec -d box -- sh -c 'sleep 5; date > "
			"/tmp/done'\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.stop_at_word = true,
	};
	owned_json spec = NULL;
	struct err e = { 0 };
	int rest, ret, cmd;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cmd = rest + 1;
	if (cmd < argc && !strcmp(argv[cmd], "--"))
		cmd++;
	if (cmd >= argc)
		return cli_usage("exec: caisson exec SB -- CMD");
	spec = exec_body(&r.exec, argv + cmd, r.detached, &e);
	if (!spec)
		ret = cli_fail(c, &e);
	else if (connect_clients(&r, &ret) &&
		 (r.sandbox =
		      sandbox_resolve(c, r.control, argv[rest], &ret))) {
		if (!r.detached)
			r.signal_fd = follow_signals();
		ret = run_command(&r, spec);
	}
	run_fini(&r);
	return ret;
}
