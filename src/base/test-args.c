/* SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"

static bool verbose;
static const char *run_dir;
static int64_t slots;
static struct arg_list env;

static const struct arg_opt opts[] = {
	{ "verbose", 'v', ARG_FLAG, &verbose, NULL, "say more", 0, 0 },
	{ "run", 0, ARG_STR, &run_dir, "DIR", "sockets are here", 0, 0 },
	{ "slots", 's', ARG_INT, &slots, "N", "how many", 1, 1000 },
	{ "env", 'e', ARG_LIST, &env, "NAME=VALUE", "a variable", 0, 0 },
};
static struct args args = { .usage = "[options] CMD [ARG...]",
			    .summary = "Does a thing.",
			    .more = "Example: prog run",
			    .opts = opts,
			    .n_opts = ARRAY_SIZE(opts) };
static struct err e;
static int rest;

static int parse(int argc, const char *const *argv)
{
	char *copy[16] = { NULL }; /* getopt permutes */
	int r;

	verbose = false;
	run_dir = NULL;
	slots = 0;
	free(env.v);
	env = (struct arg_list){ 0 };
	err_clear(&e);
	for (int i = 0; i < argc; i++)
		copy[i] = (char *)(uintptr_t)argv[i];
	r = args_parse(&args, argc, copy, &rest, &e);
	if (r == 0 && rest < argc)
		T_STR(copy[rest], "CMD");
	return r;
}

#define PARSE(...)                                                             \
	parse((int)ARRAY_SIZE(((const char *[]){ "prog", __VA_ARGS__ })),      \
	      (const char *[]){ "prog", __VA_ARGS__ })

TEST(args_long_and_short)
{
	T_INT(PARSE("--run", "/r", "-v", "--slots=5", "CMD"), ARGS_OK);
	T_TRUE(verbose);
	T_STR(run_dir, "/r");
	T_INT(slots, 5);
	T_INT(PARSE("-s7", "CMD"), ARGS_OK);
	T_INT(slots, 7);
}

TEST(args_lists_collect)
{
	T_INT(PARSE("-e", "A=1", "--env", "B=2", "--env=C=3"), ARGS_OK);
	T_INT(env.n, 3);
	T_STR(env.v[0], "A=1");
	T_STR(env.v[2], "C=3");
}

TEST(args_stop_at_word_leaves_the_commands_options_alone)
{
	args.stop_at_word = true;
	T_INT(PARSE("-v", "CMD", "--nonsense", "-s"), ARGS_OK);
	T_INT(rest, 2);
	args.stop_at_word = false;
	T_INT(PARSE("CMD", "-v"), ARGS_OK);
	T_TRUE(verbose);
	T_INT(rest, 2);
}

TEST(args_double_dash_ends_options)
{
	T_INT(PARSE("-v", "--", "CMD", "--slots"), ARGS_OK);
	T_INT(rest, 3);
}

TEST(args_unknown_option_gets_a_suggestion)
{
	T_INT(PARSE("--slosts", "4"), -EINVAL);
	T_STR(e.msg, "unknown option --slosts; did you mean --slots?");
	T_INT(PARSE("--zzzzzzzz=1"), -EINVAL);
	T_STR(e.msg, "unknown option --zzzzzzzz; see --help");
	T_INT(PARSE("-x"), -EINVAL);
	T_STR(e.msg, "unknown option -x; see --help");
	T_INT(PARSE("-vx"), -EINVAL);
	T_STR(e.msg, "unknown option -x; see --help");
}

TEST(args_missing_and_surplus_values)
{
	T_INT(PARSE("--run"), -EINVAL);
	T_STR(e.msg, "option --run needs a value: --run DIR");
	T_INT(PARSE("-s"), -EINVAL);
	T_HAS(e.msg, "--slots needs a value");
	T_INT(PARSE("--verbose=1"), -EINVAL);
	T_STR(e.msg, "option --verbose takes no value");
}

TEST(args_numbers_are_checked)
{
	T_INT(PARSE("--slots", "0"), -EINVAL);
	T_STR(e.msg,
	      "option --slots: expected a number from 1 to 1000, not \"0\"");
	T_INT(PARSE("--slots", "1e3"), -EINVAL);
	T_INT(PARSE("--slots", "1001"), -EINVAL);
	T_INT(PARSE("--slots", "1000"), ARGS_OK);
}

TEST(args_help_lists_every_option)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	args_help(&args, "/usr/bin/prog", f);
	fclose(f);
	T_HAS(text, "Usage: prog [options] CMD [ARG...]");
	T_HAS(text, "Does a thing.");
	T_HAS(text, "  -v, --verbose             say more");
	T_HAS(text, "      --run DIR             sockets are here");
	T_HAS(text, "-e, --env NAME=VALUE");
	T_HAS(text, "Example: prog run");
	free(text);
}

TEST(args_suggest_is_near_only)
{
	static const char *const words[] = { "create", "delete", "exec", "ls" };

	T_STR(args_suggest("craete", words, 4), "create");
	T_STR(args_suggest("delet", words, 4), "delete");
	T_TRUE(!args_suggest("xx", words, 4)); /* anything is 2 from "ls" */
	T_TRUE(!args_suggest("frobnicate", words, 4));
	T_TRUE(!args_suggest("", words, 4));
}

TEST(args_suggest_copes_with_endless_words)
{
	static const char *const words[] = { "create" };
	char big[5000];

	memset(big, 'c', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	T_TRUE(!args_suggest(big, words, 1));
}
