/* SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

#define OPTS_MAX     64
#define WORD_MAX     64
#define HELP_COLUMN  28
#define DISTANCE_MAX 2
#define FIRST_LONG   256 /* above all characters */

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein; words longer than WORD_MAX are far from everything. */
static size_t distance(const char *a, const char *b)
{
	size_t na = strnlen(a, WORD_MAX + 1), nb = strnlen(b, WORD_MAX + 1);
	size_t row[WORD_MAX + 1];

	if (na > WORD_MAX || nb > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1,
				      diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[nb];
}

const char *args_suggest(const char *word, const char *const *words,
			 size_t n_words)
{
	size_t best = DISTANCE_MAX + 1;
	const char *ret = NULL;

	for (size_t i = 0; i < n_words; i++) {
		size_t d = distance(word, words[i]);

		/* two changes turn any two letters into any others */
		if (d < best && d < strlen(words[i])) {
			best = d;
			ret = words[i];
		}
	}
	return ret;
}

static int set_int(const struct arg_opt *o, const char *value, struct err *e)
{
	if (text_int(value, o->min, o->max, o->dest))
		return 0;
	return err_set(e, -EINVAL, ERR_INVALID,
		       "option --%s: expected a number from %lld to %lld, not "
		       "\"%s\"",
		       o->name, (long long)o->min, (long long)o->max, value);
}

static int add_to_list(struct arg_list *list, const char *value)
{
	const char **v = xnew_n(const char *, list->n + 1);

	if (list->v)
		memcpy(v, list->v, list->n * sizeof(*v));
	v[list->n++] = value;
	free(list->v);
	list->v = v;
	return 0;
}

static int set_opt(const struct arg_opt *o, const char *value, struct err *e)
{
	switch (o->type) {
	case ARG_FLAG:
		*(bool *)o->dest = true;
		return 0;
	case ARG_STR:
		*(const char **)o->dest = value;
		return 0;
	case ARG_INT:
		return set_int(o, value, e);
	case ARG_LIST:
	default:
		return add_to_list(o->dest, value);
	}
}

static int unknown(const struct args *a, const char *word, struct err *e)
{
	const char *words[OPTS_MAX + 1], *near;
	char name[WORD_MAX + 1];
	size_t n = 0;

	if (word[0] == '-' && word[1] != '-')
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unknown option %s; see --help", word);
	for (; n < a->n_opts; n++)
		words[n] = a->opts[n].name;
	words[n++] = "help";
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="),
		 word + 2);
	near = args_suggest(name, words, n);
	if (near)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unknown option --%s; did you mean --%s?", name,
			       near);
	return err_set(e, -EINVAL, ERR_INVALID,
		       "unknown option --%s; see --help", name);
}

/* The tables that getopt_long wants. Long options get FIRST_LONG + index. */
struct getopt_tables {
	struct option longs[OPTS_MAX + 2];
	char shorts[2 * OPTS_MAX + 8];
};

static void make_tables(const struct args *a, struct getopt_tables *t)
{
	size_t n = 0;

	/* '+': stop at the first word; ':': say "missing" apart */
	if (a->stop_at_word)
		t->shorts[n++] = '+';
	t->shorts[n++] = ':';
	t->shorts[n++] = 'h';
	for (size_t i = 0; i < a->n_opts; i++) {
		const struct arg_opt *o = &a->opts[i];
		bool has_value = o->type != ARG_FLAG;

		t->longs[i] = (struct option){ o->name, has_value, NULL,
					       FIRST_LONG + (int)i };
		if (o->short_name)
			t->shorts[n++] = o->short_name;
		if (o->short_name && has_value)
			t->shorts[n++] = ':';
	}
	t->longs[a->n_opts] = (struct option){ "help", 0, NULL, 'h' };
	t->shorts[n] = 0;
}

static const struct arg_opt *find(const struct args *a, int c)
{
	if (c >= FIRST_LONG)
		return &a->opts[c - FIRST_LONG];
	for (size_t i = 0; i < a->n_opts; i++) {
		if (a->opts[i].short_name == c)
			return &a->opts[i];
	}
	return NULL;
}

static int refuse(const struct args *a, int c, const char *word, struct err *e)
{
	const struct arg_opt *o = optopt ? find(a, optopt) : NULL;
	char letter[3] = { '-', (char)optopt, 0 };

	if (c == ':' && o)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "option --%s needs a value: --%s %s", o->name,
			       o->name, o->value ? o->value : "VALUE");
	if (o)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "option --%s takes no value", o->name);
	return unknown(a, optopt && optopt < FIRST_LONG ? letter : word, e);
}

int args_parse(const struct args *a, int argc, char **argv, int *ret_rest,
	       struct err *e)
{
	struct getopt_tables t = { 0 };
	int c;

	CHECK(a->n_opts <= OPTS_MAX);
	make_tables(a, &t);
	optind = 0; /* glibc: start anew, also with a new '+' */
	opterr = 0;
	optopt = 0;
	while ((c = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
		const struct arg_opt *o = find(a, c);
		int r;

		if (c == 'h' && !o) {
			args_help(a, argc > 0 ? argv[0] : "", stdout);
			return ARGS_HELP;
		}
		if (c == '?' || c == ':')
			return refuse(a, c, argv[optind - 1], e);
		CHECK(o);
		r = set_opt(o, optarg, e);
		if (r < 0)
			return r;
		optopt = 0;
	}
	*ret_rest = optind;
	return ARGS_OK;
}

void args_help(const struct args *a, const char *program, FILE *to)
{
	const char *slash = strrchr(program, '/');

	fprintf(to, "Usage: %s %s\n\n%s\n", slash ? slash + 1 : program,
		a->usage, a->summary);
	if (a->n_opts)
		fprintf(to, "\nOptions:\n");
	for (size_t i = 0; i < a->n_opts; i++) {
		const struct arg_opt *o = &a->opts[i];
		char left[128], letter[5] = "    ";

		if (o->short_name)
			snprintf(letter, sizeof(letter), "-%c, ",
				 o->short_name);
		snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name,
			 o->value ? " " : "", o->value ? o->value : "");
		if (strlen(left) >= HELP_COLUMN)
			fprintf(to, "%s\n%*s%s\n", left, HELP_COLUMN, "",
				o->help);
		else
			fprintf(to, "%-*s%s\n", HELP_COLUMN, left, o->help);
	}
	if (a->more)
		fprintf(to, "\n%s\n", a->more);
}
