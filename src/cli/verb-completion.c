/* SPDX-License-Identifier: Apache-2.0 */

/* completion: a script for the shell, which asks `caisson complete`. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/complete.h"
#include "cli/jget.h"
#include "cli/table.h"
#include "net/json.h"

#define ASK_S 3u /* somebody waits at the prompt */

static const char bash_script[] =
    "# bash completion for caisson\n"
    "_caisson() {\n"
    "\tlocal IFS=$'\\n' word\n"
    "\tCOMPREPLY=()\n"
    "\tfor word in $(\"${COMP_WORDS[0]}\" complete -- "
    "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null); do\n"
    "\t\tCOMPREPLY+=(\"${word%%$'\\t'*}\")\n"
    "\tdone\n"
    "\tif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]]; then\n"
    "\t\tcompopt -o nospace\n"
    "\tfi\n"
    "}\n"
    "complete -o default -o bashdefault -F _caisson caisson\n";

static const char zsh_script[] =
    "#compdef caisson\n"
    "# zsh completion for caisson\n"
    "_caisson() {\n"
    "\tlocal -a lines found\n"
    "\tlocal line\n"
    "\tlines=(\"${(@f)$(${words[1]} complete -- "
    "\"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "\tfor line in $lines; do\n"
    "\t\t[[ -n $line ]] && "
    "found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "\tdone\n"
    "\tif (( $#found )); then\n"
    "\t\t_describe caisson found\n"
    "\telse\n"
    "\t\t_files\n"
    "\tfi\n"
    "}\n"
    "_caisson \"$@\"\n";

static const char fish_script[] =
    "# fish completion for caisson\n"
    "function __caisson_complete\n"
    "\tset -l words (commandline -opc) (commandline -ct)\n"
    "\tcaisson complete -- $words[2..-1] 2>/dev/null\n"
    "end\n"
    "complete -c caisson -a '(__caisson_complete)'\n";

int verb_completion(struct cli *c, int argc, char **argv)
{
	static const struct {
		const char *shell, *script;
	} all[] = { { "bash", bash_script },
		    { "zsh", zsh_script },
		    { "fish", fish_script } };
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "completion bash|zsh|fish",
		.summary = "A script that completes verbs, options and "
			   "sandboxes in a shell.",
		.more = "An installed package brings it along. Else:\n\n"
			"  eval \"$(caisson completion bash)\"\n"
			"  caisson completion fish > "
			"~/.config/fish/completions/caisson.fish\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	for (size_t i = 0; rest + 1 == argc && i < ARRAY_SIZE(all); i++) {
		if (!strcmp(argv[rest], all[i].shell))
			return fputs(all[i].script, stdout) < 0 ||
				       fflush(stdout)
				   ? CLI_OURS
				   : CLI_OK;
	}
	return cli_usage("completion: for which shell? bash, zsh or fish");
}

/* ---- complete ---- */

static void offer(const char *word, const char *name, const char *tail,
		  const char *summary)
{
	/* what a shell would have to quote is not offered */
	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-._:") == strlen(name) &&
	    !strncmp(name, word, strlen(word)))
		printf("%s%s\t%s\n", name, tail, summary);
}

static json_t *ask(const char *path)
{
	struct context_file file = { 0 };
	struct context ctx = { 0 };
	struct client *cl;
	struct fault f;
	struct err e = { 0 };
	json_t *body = NULL;

	if (context_locate(&file, &e) == 0 && context_load(&file, &e) == 0 &&
	    context_get(&file, NULL, &ctx, &e) == 0) {
		cl = client_new_take(&ctx);
		client_call(cl, CLIENT_CONTROL, "GET", path, NULL, ASK_S, &body,
			    NULL, &f, &e);
		client_free(cl);
	}
	context_file_fini(&file);
	return body;
}

static void offer_sandboxes(const char *word, const char *tail)
{
	owned_json body = ask("/v1/sandboxes?limit=200");
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(body, "items"), i, s)
	{
		const char *state = jget_str(s, "state", "");
		const char *name = jget_str(s, "name", NULL);

		if (!strcmp(state, "ended") || !strcmp(state, "failed") ||
		    !strcmp(state, "lost"))
			continue;
		if (name)
			offer(word, name, tail, "sandbox");
		if (!name || *word)
			offer(word, jget_str(s, "id", ""), tail, "sandbox");
	}
}

static void offer_named(const char *word, const char *path)
{
	owned_json body = ask(path);
	json_t *t;
	size_t i;

	json_array_foreach(json_object_get(body, "items"), i, t)
	    offer(word, jget_str(t, "name", ""), "", "template");
}

static void offer_contexts(const char *word)
{
	struct context_file f = { 0 };
	struct err e = { 0 };
	const char *name;
	json_t *entry;

	if (context_locate(&f, &e) == 0 && context_load(&f, &e) == 0)
		json_object_foreach(json_object_get(f.root, "contexts"), name,
				    entry) offer(word, name, "", "context");
	context_file_fini(&f);
}

int verb_complete(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "complete -- WORDS...",
		.summary = "What may stand at the end of these words.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
		.stop_at_word = true,
	};
	enum complete_more more;
	const char *word;
	struct buf out;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	word = rest < argc ? argv[argc - 1] : "";
	buf_init(&out, 1u << 20);
	more = complete_words(argv + rest, (size_t)(argc - rest), &out);
	fwrite(buf_data(&out), 1, buf_len(&out), stdout);
	buf_fini(&out);
	if (more == COMPLETE_SANDBOX)
		offer_sandboxes(word, "");
	else if (more == COMPLETE_PATH)
		offer_sandboxes(word, ":");
	else if (more == COMPLETE_TEMPLATE)
		offer_named(word, "/v1/templates?limit=200");
	else if (more == COMPLETE_CONTEXT)
		offer_contexts(word);
	return fflush(stdout) == 0 ? CLI_OK : CLI_OURS;
}
