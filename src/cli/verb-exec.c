/* SPDX-License-Identifier: Apache-2.0 */

/* exec, shell, attach: commands in a sandbox that is there. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/launch.h"
#include "cli/sandbox.h"
#include "cli/session.h"
#include "net/json.h"

static int exec_in(struct cli *c, const char *word, char *const *cmd,
		   const struct exec_opts *o, bool detached)
{
	struct launch l = {
		.cli = c, .word = word, .opts = o, .detached = detached
	};
	owned_json body = NULL;
	owned_str id = NULL;
	struct err e = { 0 };
	int ret;

	ret = launch_check(c, o);
	if (ret != CLI_OK)
		return ret;
	body = exec_body(o, cmd, detached, &e);
	if (!body)
		return cli_fail(c, &e);
	l.client = cli_client(c, &ret);
	if (!l.client)
		return ret;
	id = sandbox_resolve(c, l.client, word, &ret);
	if (id) {
		l.sandbox = id;
		ret = launch_exec(&l, body);
	}
	client_free(l.client);
	return ret;
}

int verb_exec(struct cli *c, int argc, char **argv)
{
	struct exec_opts o = { 0 };
	bool detached = false;
	const struct arg_opt opts[] = {
		EXEC_OPTS(&o),
		{ "detach", 'd', ARG_FLAG, &detached, NULL,
		  "start it, print its id, do not wait", 0, 0 },
		{ "interactive", 'i', ARG_FLAG, &o.interactive, NULL,
		  "standard input is the command's (else it has none)", 0, 0 },
		{ "tty", 't', ARG_FLAG, &o.tty, NULL,
		  "a terminal, with -i to type into", 0, 0 },
		ATTACH_OPTS(&o),
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "exec [options] SB -- CMD [ARG...]",
		.summary = "Run a command in a sandbox that is there.",
		.more = "With --overflow block the command waits while 8 MiB "
			"(--keep-bytes) of its output\nare unread; with roll "
			"the oldest goes.\nThe exit code is the command's; 128 "
			"+ N if signal N "
			"ended it, 124 after --timeout,\n126 if it cannot be "
			"run, 127 if it is not there, 125 for faults of "
			"ours.\n" ATTACH_HELP "\n"
			"  caisson exec box -- ls -l /\n"
			"  caisson exec -it box -- python3\n"
			"  caisson exec -i box -- sh -c 'cat > /tmp/in' < in\n"
			"  caisson exec -d box -- make test; caisson ps box "
			"--wait\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.stop_at_word = true,
	};
	int rest, ret, cmd;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cmd = rest + 1;
	if (cmd < argc && !strcmp(argv[cmd], "--"))
		cmd++;
	if (cmd >= argc)
		ret = cli_usage("exec: caisson exec SB -- CMD");
	else if (detached && (o.interactive || o.tty))
		ret = cli_usage("exec: -d runs without us; -i and -t need us");
	else
		ret = exec_in(c, argv[rest], argv + cmd, &o, detached);
	free(o.env.v);
	return ret;
}

int verb_shell(struct cli *c, int argc, char **argv)
{
	static char sh[] = "sh", dash_c[] = "-c";
	/* not the passwd's shell: it may say nologin, and is often absent */
	static char script[] =
	    "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l";
	static char *const cmd[] = { sh, dash_c, script, NULL };
	struct exec_opts o = { 0 };
	const struct arg_opt opts[] = {
		{ "env", 'e', ARG_LIST, &o.env, "K=V",
		  "environment variable; repeatable", 0, 0 },
		{ "user", 'u', ARG_STR, &o.user, "NAME", "as this user", 0, 0 },
		{ "cwd", 'w', ARG_STR, &o.cwd, "DIR",
		  "in this directory of the guest", 0, 0 },
		ATTACH_OPTS(&o),
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "shell [options] SB",
		.summary = "A login shell in a sandbox: bash if it is there, "
			   "else sh.",
		.more = ATTACH_HELP "Without a terminal here the shell reads "
				    "commands from standard input.\n\n"
				    "  caisson shell box\n"
				    "  echo 'uname -r' | caisson shell box\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	o.interactive = true;
	o.tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (rest + 1 != argc)
		ret = cli_usage("shell: which sandbox? caisson shell SB");
	else
		ret = exec_in(c, argv[rest], cmd, &o, false);
	free(o.env.v);
	return ret;
}

/* Join an exec that is there: its record says what it has. */
static int attach_to(struct cli *c, struct client *cl,
		     const struct exec_opts *o, const char *sandbox,
		     const char *word, uint64_t from, bool watch,
		     const json_t *record)
{
	bool pty = json_is_object(json_object_get(record, "pty")) ||
		   json_is_true(json_object_get(record, "pty"));
	struct session_spec spec = {
		.cli = c,
		.control = cl,
		.sandbox = word ? word : sandbox,
		.exec = jget_str(record, "id", ""),
		.from = from,
		.watch = watch,
		.detach_keys = o->detach_keys,
		.no_escapes = o->no_escapes,
		.give_up_ms =
		    1000 *
		    (uint64_t)(o->give_up_s ? o->give_up_s : SESSION_GIVE_UP_S),
	};
	struct session_end end;
	int ret;

	if (!exec_id_valid(spec.exec))
		return cli_usage("the server's answer names no exec");
	spec.tty = pty && !watch && !c->json && isatty(STDOUT_FILENO);
	/* keys are a terminal's without being asked for; any other input must
	 * be, so that the end of a script's stdin does not end a command's */
	spec.with_stdin = !watch &&
			  json_is_true(json_object_get(record, "stdin")) &&
			  (spec.tty ? isatty(STDIN_FILENO) : o->interactive);
	ret = session_run(&spec, &end);
	if (ret == CLI_OK)
		ret = session_exit_code(&spec, &end);
	json_decref(end.fact);
	return ret;
}

int verb_attach(struct cli *c, int argc, char **argv)
{
	struct exec_opts o = { 0 };
	int64_t from = 0;
	bool watch = false;
	const struct arg_opt opts[] = {
		{ "from", 0, ARG_INT, &from, "N",
		  "output from byte N on (0: all that is kept)", 0, INT64_MAX },
		{ "interactive", 'i', ARG_FLAG, &o.interactive, NULL,
		  "go on with its input (a terminal's keys: always)", 0, 0 },
		{ "watch", 0, ARG_FLAG, &watch, NULL,
		  "look only: no input, no signals, start nothing", 0, 0 },
		ATTACH_OPTS(&o),
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "attach [options] SB [EX]",
		.summary = "Come back to a command: its output from byte N, "
			   "its input, its end.",
		.more =
		    "EX is an id or a unique part of it (`caisson ps SB`); "
		    "without it the one that runs.\nAnother client that is "
		    "attached is replaced, unless --watch.\n" ATTACH_HELP "\n"
		    "  caisson attach box\n"
		    "  caisson attach box ex_... --from 48211\n"
		    "  caisson attach --watch box\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json record = NULL;
	owned_str id = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc || argc - rest > 2)
		return cli_usage("attach: caisson attach SB [EX]");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	id = sandbox_resolve(c, cl, argv[rest], &ret);
	if (id)
		record = exec_resolve(
		    c, cl, id, rest + 1 < argc ? argv[rest + 1] : NULL, &ret);
	if (record)
		ret = attach_to(c, cl, &o, id, argv[rest], (uint64_t)from,
				watch, record);
	client_free(cl);
	return ret;
}
