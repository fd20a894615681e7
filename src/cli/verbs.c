/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs.h"

#include <string.h>

#include "base/check.h"
#include "base/own.h"

/* The order is the overview's. A verb without a group is for machines. */
const struct verb cli_verbs[] = {
	{ "up", NULL, "start", "start Caisson on this machine (root)",
	  verb_up },
	{ "down", NULL, "start", "end everything that `up` started (root)",
	  verb_down },
	{ "status", NULL, "start", "what runs, and how strong the walls are",
	  verb_status },
	{ "doctor", NULL, "start", "what is wrong here, and the remedy",
	  verb_doctor },
	{ "context", NULL, "start", "list servers, or `context use NAME`",
	  verb_context },
	{ "login", NULL, "start", "use a server elsewhere", verb_login },
	{ "version", NULL, "start", "version of this program and the server",
	  verb_version },
	{ "completion", NULL, "start", "completion for bash, zsh or fish",
	  verb_completion },
	{ "run", NULL, "sandbox", "one command in a sandbox of its own",
	  verb_run },
	{ "create", NULL, "sandbox", "make a sandbox that stays", verb_create },
	{ "ls", "list", "sandbox", "list sandboxes", verb_ls },
	{ "info", "show", "sandbox", "one sandbox in full", verb_info },
	{ "end", "kill rm", "sandbox", "end sandboxes", verb_end },
	{ "label", NULL, "sandbox", "set and remove labels", verb_label },
	{ "exec", NULL, "inside", "run a command in a sandbox", verb_exec },
	{ "shell", "sh", "inside", "a login shell in a sandbox", verb_shell },
	{ "ps", NULL, "inside", "commands of sandboxes, and how they ended",
	  verb_ps },
	{ "attach", NULL, "inside", "come back to a command", verb_attach },
	{ "logs", NULL, "inside", "the console, or a command's output",
	  verb_logs },
	{ "cp", NULL, "inside", "files and folders, both ways", verb_cp },
	{ "files", NULL, "inside", "list, read, write, move, watch",
	  verb_files },
	{ "forward", NULL, "inside", "a sandbox's ports on this machine",
	  verb_forward },
	{ "open", NULL, "inside", "a sandbox's web server in the browser",
	  verb_open },
	{ "port", NULL, "inside", "who else may use a port", verb_port },
	{ "ssh-config", NULL, "inside", "a Host block for ~/.ssh/config",
	  verb_ssh_config },
	{ "template", NULL, "build", "templates: build, ls, info, tag, rm",
	  verb_template },
	{ "events", NULL, "watch", "what happened, and what happens",
	  verb_events },
	{ "op", NULL, "watch", "operations: `op ls`, `op wait OP`", verb_op },
	{ "webhook", NULL, "watch", "events to a URL", verb_webhook },
	{ "metrics", NULL, "watch", "a sandbox's CPU, memory, disk over time",
	  verb_metrics },
	{ "usage", NULL, "watch", "what was used, by group", verb_usage },
	{ "mcp", NULL, "watch", "these verbs for an agent (MCP over stdio)",
	  verb_mcp },
	{ "audit", NULL, "policy", "who did what; `audit verify`", verb_audit },
	{ "key", NULL, "policy", "keys to the API", verb_key },
	{ "token", NULL, "policy", "a key narrowed to one sandbox",
	  verb_token },
	{ "quota", NULL, "policy", "limits of the project", verb_quota },
	{ "project", NULL, "policy", "projects of the tenant", verb_project },
	{ "tenant", NULL, "operate", "tenants", verb_tenant },
	{ "node", NULL, "operate", "nodes: capacity, isolation, cordon",
	  verb_node },
	{ "migrate", NULL, NULL, "bring the database to this version",
	  verb_migrate },
	{ "supervise", NULL, NULL, "what `up` leaves running", verb_supervise },
	{ "complete", NULL, NULL, "words for a shell's completion",
	  verb_complete },
	{ "manual", NULL, NULL, "caisson(1), in roff", verb_manual },
};
const size_t n_cli_verbs = ARRAY_SIZE(cli_verbs);

#define MEMORY                                                                 \
	"`caisson end SB` and `caisson create`; `caisson exec SB -- cat "      \
	"FILE` keeps what matters"
#define EGRESS "sandboxes have no network"
#define CRED   "pass what a command needs with --env"

const struct verb_later cli_later[] = {
	{ "pause", MEMORY },
	{ "resume", MEMORY },
	{ "suspend", MEMORY },
	{ "snapshot", MEMORY },
	{ "snapshots", MEMORY },
	{ "restore", "`caisson create` starts from a template" },
	{ "rollback", "`caisson create` starts from a template" },
	{ "branch", "`caisson create`, once for each copy" },
	{ "fork", "`caisson create`, once for each copy" },
	{ "diff", "`caisson exec SB -- diff A B`" },
	{ "timeline", "`caisson op ls`" },
	{ "tree", "`caisson ls`" },
	{ "egress", EGRESS },
	{ "cred", CRED },
	{ "pool", "`caisson node ls`" },
};
const size_t n_cli_later = ARRAY_SIZE(cli_later);

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	while (words && *words) {
		size_t len = strcspn(words, " ");

		if (len == n && !memcmp(words, word, n))
			return true;
		words += len + (words[len] == ' ');
	}
	return false;
}

const struct verb *verb_find(const struct verb *v, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(v[i].name, word) || has_word(v[i].alias, word))
			return &v[i];
	}
	return NULL;
}

const struct verb_later *verb_later_find(const struct verb_later *v, size_t n,
					 const char *word)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(v[i].name, word))
			return &v[i];
	}
	return NULL;
}

const char *verb_suggest(const struct verb *v, size_t n, const char *word)
{
	const char **words = xnew_n(const char *, n);
	const char *best;
	size_t listed = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].group)
			words[listed++] = v[i].name;
	}
	best = args_suggest(word, words, listed);
	free(words);
	return best;
}

void verb_overview(const struct verb *v, size_t n, FILE *to)
{
	const char *group = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!v[i].group)
			continue;
		fprintf(to, "  %-9s %-10s %s\n",
			!group || strcmp(group, v[i].group) != 0 ? v[i].group
								 : "",
			v[i].name, v[i].summary);
		group = v[i].group;
	}
}
