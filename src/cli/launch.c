/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/session.h"
#include "net/json.h"

#define EXEC_ID_CHARS 28u
#define OWN_AT	      23u /* "ex_" + the sandbox's 20 */

void print_json_line(const char *key, json_t *value_take)
{
	owned_json v = json_object();
	owned_str text = NULL;

	json_set_take(v, key, value_take);
	text = json_text(v);
	printf("%s\n", text);
	fflush(stdout);
}

int launch_check(const struct cli *c, const struct exec_opts *o)
{
	if (!o->tty)
		return CLI_OK;
	if (c->json)
		return cli_usage("a terminal and --json do not go together");
	if (!isatty(STDOUT_FILENO))
		return cli_usage("-t needs a terminal, and standard output is "
				 "none; without -t it may be a pipe or a file");
	if (o->interactive && !isatty(STDIN_FILENO))
		return cli_usage("-it needs a terminal, and standard input is "
				 "none; -i alone takes a pipe or a file");
	return CLI_OK;
}

int launch_exec(struct launch *l, const json_t *body)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/execs", l->sandbox);
	struct session_spec spec = {
		.cli = l->cli,
		.control = l->client,
		.sandbox = l->word ? l->word : l->sandbox,
		.fresh = true,
		.with_stdin = l->opts->interactive,
		.tty = l->opts->tty,
		.detach_keys = l->opts->detach_keys,
		.no_escapes = l->opts->no_escapes,
		.give_up_ms =
		    1000 * (uint64_t)(l->opts->give_up_s ? l->opts->give_up_s
							 : SESSION_GIVE_UP_S),
	};
	struct session_end end;
	owned_json exec = NULL;
	int ret;

	if (cli_call(l->cli, l->client, "POST", path, body, &exec, &ret) < 0)
		return ret;
	spec.exec = jget_str(exec, "id", "");
	spec.token = jget_str(exec, "attach.token", NULL);
	if (!exec_id_valid(spec.exec))
		return cli_usage("the server's answer names no exec");
	if (l->detached) {
		if (l->cli->json)
			return cli_print_json(exec);
		printf("%s\n", spec.exec);
		return CLI_OK;
	}
	if (l->cli->json) {
		json_t *shown = json_deep_copy(exec);

		json_object_del(shown, "attach"); /* a secret, and used up */
		print_json_line("exec", shown);
	}
	ret = session_run(&spec, &end);
	if (ret == CLI_OK)
		ret = session_exit_code(&spec, &end);
	json_decref(end.fact);
	return ret;
}

bool exec_id_valid(const char *word)
{
	return id_valid(word, "ex_", EXEC_ID_CHARS);
}

int exec_pick(const json_t *items, const char *word, const json_t **ret)
{
	size_t n = word ? strlen(word) : 0, i;
	json_t *x;

	*ret = NULL;
	json_array_foreach(items, i, x)
	{
		const char *id = jget_str(x, "id", "");
		bool fits;

		if (!exec_id_valid(id))
			continue;
		if (!word)
			fits = !strcmp(jget_str(x, "state", ""), "running");
		else
			fits = n > 0 && (!strncmp(id, word, n) ||
					 !strncmp(id + OWN_AT, word, n));
		if (!fits)
			continue;
		if (*ret)
			return PICK_MANY;
		*ret = x;
	}
	return *ret ? PICK_OK : PICK_NONE;
}

json_t *exec_resolve(const struct cli *c, struct client *cl,
		     const char *sandbox, const char *word, int *ret_exit)
{
	owned_str path = NULL;
	owned_json body = NULL;
	const json_t *found;
	int r;

	if (word && exec_id_valid(word))
		path = xasprintf("/v1/execs/%s", word);
	else
		path = xasprintf("/v1/sandboxes/%s/execs", sandbox);
	if (cli_call(c, cl, "GET", path, NULL, &body, ret_exit) < 0)
		return NULL;
	if (word && exec_id_valid(word))
		return TAKE(body);
	r = exec_pick(json_object_get(body, "items"), word, &found);
	if (r == PICK_OK)
		return json_incref((json_t *)(uintptr_t)found);
	if (r == PICK_MANY)
		*ret_exit = cli_usage("more than one exec %s; `caisson ps %s` "
				      "lists them",
				      word ? "begins so" : "runs", sandbox);
	else
		*ret_exit = cli_usage("no exec %s%s; `caisson ps %s` lists "
				      "them",
				      word ? "" : "runs there",
				      word ? word : "", sandbox);
	if (r == PICK_NONE)
		*ret_exit = CLI_NOT_FOUND;
	return NULL;
}
