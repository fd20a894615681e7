/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command lines on getopt_long: a table of options, typed values, help that is
 * generated from the same table, and a suggestion for a misspelt word.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum arg_type {
	ARG_FLAG, /* bool * */
	ARG_STR,  /* const char ** (points into argv) */
	ARG_INT,  /* int64_t *, within min..max */
	ARG_LIST, /* struct arg_list *: repeatable */
};

struct arg_list {
	const char **v;
	size_t n; /* the array is allocated; the strings point into argv */
};

struct arg_opt {
	const char *name; /* long name */
	char short_name;  /* 0 = none */
	enum arg_type type;
	void *dest;
	const char *value; /* "NAME" as shown in help, NULL for flags */
	const char *help;
	int64_t min, max;
};

struct args {
	const char *usage;   /* "run [options] -- CMD [ARG...]" */
	const char *summary; /* one sentence */
	const char *more;    /* examples, NULL for none */
	const struct arg_opt *opts;
	size_t n_opts;
	bool stop_at_word; /* options end at the first word that is none */
};

enum { ARGS_OK, ARGS_HELP };

/* ARGS_OK: *ret_rest is the index in argv of the first word. ARGS_HELP: --help
 * was asked for and has been printed to stdout. -EINVAL with *e otherwise. */
int args_parse(const struct args *a, int argc, char **argv, int *ret_rest,
	       struct err *e);
void args_help(const struct args *a, const char *program, FILE *to);

/* The nearest of the words within edit distance 2, or NULL. */
const char *args_suggest(const char *word, const char *const *words,
			 size_t n_words);
