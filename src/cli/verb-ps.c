/* SPDX-License-Identifier: Apache-2.0 */

/* ps and logs: what runs in sandboxes, how it ended, what it said. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/jget.h"
#include "cli/launch.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "net/json.h"

#define POLL_MIN_US 200000u
#define POLL_MAX_US 2000000u

/* ---- ps ---- */

static bool exec_over(const json_t *x)
{
	const char *state = jget_str(x, "state", "");

	return !strcmp(state, "exited") || !strcmp(state, "expired");
}

/* "exit 3", "signal KILL", "timeout", or "-" while it is not over. */
static void exit_words(const json_t *x, char *ret, size_t n)
{
	const json_t *fact = json_object_get(x, "exit");
	char word[48];

	if (!json_is_object(fact)) {
		snprintf(ret, n, "-");
		return;
	}
	jget_shown(fact, "reason", "unknown", word, sizeof(word));
	if (!strcmp(word, "exited")) {
		snprintf(ret, n, "exit %lld",
			 (long long)jget_int(fact, "code", -1));
	} else if (!strcmp(word, "signaled")) {
		jget_shown(fact, "signal", "?", word, sizeof(word));
		snprintf(ret, n, "signal %s", word);
	} else {
		snprintf(ret, n, "%s", word);
	}
}

static void duration(const json_t *x, char *ret, size_t n)
{
	int64_t ms = jget_int(x, "exit.wall_ms", -1);
	int64_t at = parse_rfc3339(jget_str(x, "started_at", ""));

	if (ms < 0 && at >= 0 && !exec_over(x))
		ms = now_unix_ms() - at;
	if (ms < 0)
		snprintf(ret, n, "-");
	else if (ms < 10000)
		snprintf(ret, n, "%lld.%01lld s", (long long)(ms / 1000),
			 (long long)(ms % 1000 / 100));
	else if (ms < 60000)
		snprintf(ret, n, "%lld s", (long long)(ms / 1000));
	else if (ms < 3600000)
		snprintf(ret, n, "%lld m %02lld s", (long long)(ms / 60000),
			 (long long)(ms / 1000 % 60));
	else
		snprintf(ret, n, "%lld h %02lld m", (long long)(ms / 3600000),
			 (long long)(ms / 60000 % 60));
}

static void command_words(const json_t *x, char *ret, size_t n)
{
	const json_t *cmd = json_object_get(x, "cmd");
	size_t used = 0, i;
	json_t *w;

	ret[0] = '\0';
	json_array_foreach(cmd, i, w)
	{
		int r =
		    snprintf(ret + used, n - used, "%s%s", i ? " " : "",
			     json_string_value(w) ? json_string_value(w) : "?");

		if (r < 0 || (size_t)r >= n - used) {
			size_t whole = text_utf8_prefix(ret, n - 4);

			snprintf(ret + whole, n - whole, "…");
			return;
		}
		used += (size_t)r;
	}
}

static void ps_rows(struct table *t, const char *word, const json_t *items)
{
	char exit_text[64], took[48], cmd[64];
	size_t i;
	json_t *x;

	json_array_foreach(items, i, x)
	{
		exit_words(x, exit_text, sizeof(exit_text));
		duration(x, took, sizeof(took));
		command_words(x, cmd, sizeof(cmd));
		table_cell(t, word);
		table_cell(t, jget_str(x, "id", "?"));
		table_cell(t, jget_str(x, "state", "?"));
		table_cell(t, exit_text);
		table_cell(t, took);
		table_cell(t, cmd);
	}
}

/* The execs of one sandbox; while any of them goes on, wait for it. */
static json_t *ps_items(const struct cli *c, struct client *cl, const char *id,
			bool wait, int *ret_exit)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/execs", id);
	unsigned pause_us = POLL_MIN_US;

	for (;;) {
		owned_json body = NULL;
		json_t *items, *x;
		bool busy = false;
		size_t i;

		if (cli_call(c, cl, "GET", path, NULL, &body, ret_exit) < 0)
			return NULL;
		items = json_object_get(body, "items");
		json_array_foreach(items, i, x) busy = busy || !exec_over(x);
		if (!busy || !wait)
			return json_is_array(items) ? json_incref(items)
						    : json_array();
		usleep(pause_us);
		pause_us =
		    pause_us * 2 > POLL_MAX_US ? POLL_MAX_US : pause_us * 2;
	}
}

/* The first command that did not end with 0 gives the exit code. */
static int worst_of(const json_t *items)
{
	char note[256];
	size_t i;
	json_t *x;

	json_array_foreach(items, i, x)
	{
		const json_t *fact = json_object_get(x, "exit");
		int ret = json_is_object(fact)
			      ? exit_of_fact(fact, note, sizeof(note))
			      : CLI_OK;

		if (ret != CLI_OK)
			return ret;
	}
	return CLI_OK;
}

static int ps(struct cli *c, struct client *cl, char *const *words, size_t n,
	      bool wait)
{
	static const char *const titles[] = {
		"SANDBOX", "EXEC", "STATE", "END", "DURATION", "COMMAND"
	};
	owned_json all = json_object();
	int ret = CLI_OK, worst = CLI_OK;
	struct table t;

	table_init(&t, ARRAY_SIZE(titles));
	for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
		table_cell(&t, titles[i]);
	for (size_t i = 0; i < n; i++) {
		owned_str id = sandbox_resolve(c, cl, words[i], &ret);
		owned_json items = NULL;

		if (id)
			items = ps_items(c, cl, id, wait, &ret);
		if (items) {
			ps_rows(&t, words[i], items);
			json_object_set(all, words[i], items);
			ret = wait ? worst_of(items) : CLI_OK;
		}
		worst = worst == CLI_OK ? ret : worst;
	}
	if (c->json)
		cli_print_json(all);
	else if (json_object_size(all) > 0)
		table_print(&t);
	table_fini(&t);
	return worst;
}

int verb_ps(struct cli *c, int argc, char **argv)
{
	bool wait = false;
	const struct arg_opt opts[] = {
		{ "wait", 0, ARG_FLAG, &wait, NULL,
		  "until all are over; exit code of the first that failed", 0,
		  0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "ps [options] SB...",
		.summary = "The commands of sandboxes, newest first: state, "
			   "end, duration.",
		.more = "Commands are kept for an hour after their end. With "
			"--json an object: SB -> records.\n\n"
			"  caisson ps box\n"
			"  for x in a b c; do caisson exec -d $x -- "
			"./attempt; done; caisson ps a b c --wait\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc)
		return cli_usage("ps: which sandbox? caisson ps SB");
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	ret = ps(c, cl, argv + rest, (size_t)(argc - rest), wait);
	client_free(cl);
	return ret;
}

/* ---- logs ---- */

static int logs(struct cli *c, struct client *cl, const char *sandbox,
		const char *word, struct follow *f)
{
	owned_str path = NULL;
	owned_json record = NULL;
	char note[256] = "";
	int ret = CLI_OK;

	f->cli = c;
	f->client = cl;
	if (word) {
		record = exec_resolve(c, cl, sandbox, word, &ret);
		if (!record)
			return ret;
		path = xasprintf("/v1/execs/%s/output",
				 jget_str(record, "id", "?"));
		f->side = CLIENT_DATA;
		f->has_end = true;
	} else {
		path = xasprintf("/v1/sandboxes/%s/logs", sandbox);
		f->side = CLIENT_CONTROL;
	}
	f->path = path;
	ret = follow_log(f);
	if (f->reader_gone)
		ret = CLI_OK; /* a pager that has seen enough */
	if (f->fact && c->verbose) {
		exit_of_fact(f->fact, note, sizeof(note));
		fprintf(stderr, "caisson: %s\n", *note ? note : "it ended");
	}
	json_decref(f->fact);
	return ret;
}

int verb_logs(struct cli *c, int argc, char **argv)
{
	struct follow f = { 0 };
	int64_t from = 0;
	const struct arg_opt opts[] = {
		{ "follow", 'f', ARG_FLAG, &f.follow, NULL,
		  "wait for more, until Ctrl-C or the command's end", 0, 0 },
		{ "from", 0, ARG_INT, &from, "N", "from byte N on", 0,
		  INT64_MAX },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "logs [options] SB [EX]",
		.summary = "The serial console of a sandbox, or the output of "
			   "one of its commands.",
		.more = "Reads only: nothing is started, nobody is replaced. "
			"What a command wrote to stderr\narrives on stderr. "
			"EX is an id or a unique part of it (`caisson ps "
			"SB`).\n\n"
			"  caisson logs box\n"
			"  caisson logs -f box ex_...\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str id = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest >= argc || argc - rest > 2)
		return cli_usage("logs: caisson logs [-f] SB [EX]");
	f.from = (uint64_t)from;
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	id = sandbox_resolve(c, cl, argv[rest], &ret);
	if (id)
		ret = logs(c, cl, id, rest + 1 < argc ? argv[rest + 1] : NULL,
			   &f);
	client_free(cl);
	return ret;
}
