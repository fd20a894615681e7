/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "base/test.h"
#include "cli/verbs.h"

static char *overview(void)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	verb_overview(cli_verbs, n_cli_verbs, f);
	fclose(f);
	return text;
}

TEST(verb_is_found_by_name)
{
	T_TRUE(verb_find(cli_verbs, n_cli_verbs, "run")->run == verb_run);
}

TEST(verb_is_found_by_alias)
{
	T_STR(verb_find(cli_verbs, n_cli_verbs, "kill")->name, "end");
	T_STR(verb_find(cli_verbs, n_cli_verbs, "rm")->name, "end");
	T_STR(verb_find(cli_verbs, n_cli_verbs, "list")->name, "ls");
}

TEST(part_of_an_alias_is_no_verb)
{
	T_TRUE(!verb_find(cli_verbs, n_cli_verbs, "kil"));
	T_TRUE(!verb_find(cli_verbs, n_cli_verbs, "kill rm"));
	T_TRUE(!verb_find(cli_verbs, n_cli_verbs, ""));
}

TEST(misspelt_verb_gets_a_suggestion)
{
	T_STR(verb_suggest(cli_verbs, n_cli_verbs, "exce"), "exec");
	T_STR(verb_suggest(cli_verbs, n_cli_verbs, "creat"), "create");
	T_STR(verb_suggest(cli_verbs, n_cli_verbs, "statsu"), "status");
}

TEST(nonsense_gets_no_suggestion)
{
	T_TRUE(!verb_suggest(cli_verbs, n_cli_verbs, "xyzzyplugh"));
}

TEST(hidden_verbs_are_neither_listed_nor_suggested)
{
	owned_str text = overview();
	const char *near = verb_suggest(cli_verbs, n_cli_verbs, "supervis");

	T_TRUE(!strstr(text, "supervise") && !strstr(text, "migrate"));
	T_TRUE(!near || strcmp(near, "supervise") != 0);
	T_TRUE(verb_find(cli_verbs, n_cli_verbs, "migrate") != NULL);
}

TEST(overview_names_each_group_once)
{
	owned_str text = overview();
	size_t times = 0;

	for (const char *p = text; (p = strstr(p, "  start  ")); p++)
		times++;
	T_INT(times, 1);
	T_HAS(text, "inside    exec");
}

TEST(every_later_verb_says_what_would_do_instead)
{
	for (size_t i = 0; i < n_cli_later; i++) {
		T_TRUE(strlen(cli_later[i].instead) > 5);
		T_TRUE(!verb_find(cli_verbs, n_cli_verbs, cli_later[i].name));
	}
}

TEST(later_verbs_of_the_documented_command_line_are_known)
{
	static const char *const words[] = { "pause",	 "resume", "suspend",
					     "branch",	 "diff",   "tree",
					     "snapshot", "egress", "cred",
					     "pool" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		T_TRUE(verb_later_find(cli_later, n_cli_later, words[i]));
}

TEST(later_verb_ends_with_125)
{
	char word[] = "snapshot";
	char *argv[] = { word, NULL };
	struct cli c = { 0 };

	T_INT(verb_dispatch(&c, NULL, cli_verbs, n_cli_verbs, cli_later,
			    n_cli_later, 1, argv),
	      CLI_OURS);
}

TEST(unknown_verb_ends_with_125)
{
	char word[] = "frobnicate\x1b[31m";
	char *argv[] = { word, NULL };
	struct cli c = { 0 };

	T_INT(verb_dispatch(&c, NULL, cli_verbs, n_cli_verbs, cli_later,
			    n_cli_later, 1, argv),
	      CLI_OURS);
}

TEST(every_verb_has_help)
{
	struct cli c = { 0 };

	for (size_t i = 0; i < n_cli_verbs; i++) {
		char help[] = "--help";
		char name[32];
		char *argv[] = { name, help, NULL };

		snprintf(name, sizeof(name), "%s", cli_verbs[i].name);
		T_INT(cli_verbs[i].run(&c, 2, argv), CLI_OK);
	}
}
