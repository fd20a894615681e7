/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/complete.h"

#include <string.h>

#include "base/own.h"
#include "cli/verbs.h"

struct looking {
	const char *word, *before; /* to complete, and the one before it */
	char *const *words;	   /* behind the verb */
	size_t n;
	struct buf *out;
	enum complete_more more;
	const struct verb *sub; /* the verb of a group that is meant */
};

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static void offer(struct looking *l, const char *prefix, const char *word,
		  const char *summary)
{
	owned_str whole = xasprintf("%s%s", prefix, word);

	if (begins(whole, l->word))
		buf_printf(l->out, "%s\t%s\n", whole, summary);
}

static void offer_verbs(struct looking *l, const struct verb *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i].group)
			offer(l, "", v[i].name, v[i].summary);
	}
}

static bool is_option(const struct arg_opt *o, const char *word)
{
	return (begins(word, "--") && !strcmp(word + 2, o->name)) ||
	       (word[0] == '-' && word[1] == o->short_name && word[1] &&
		!word[2]);
}

/* An option before the word that takes a value. */
static const struct arg_opt *wants_value(const struct looking *l,
					 const struct args *a)
{
	for (size_t i = 0; l->before && i < a->n_opts; i++) {
		if (a->opts[i].type != ARG_FLAG &&
		    is_option(&a->opts[i], l->before))
			return &a->opts[i];
	}
	return NULL;
}

/* How many words that are no options stand before. */
static size_t position(const struct looking *l, const struct args *a)
{
	size_t at = 0;

	for (size_t i = 0; i + 1 < l->n; i++) {
		struct looking k = { .before = l->words[i] };

		if (l->words[i][0] != '-')
			at++;
		else if (wants_value(&k, a))
			i++;
	}
	return at;
}

static enum complete_more value_of(const struct arg_opt *o)
{
	if (!strcmp(o->name, "context"))
		return COMPLETE_CONTEXT;
	if (!strcmp(o->name, "template"))
		return COMPLETE_TEMPLATE;
	if (!strcmp(o->name, "sandbox"))
		return COMPLETE_SANDBOX;
	return COMPLETE_FILE;
}

static void on_args(void *arg, const struct args *a)
{
	struct looking *l = arg;
	const struct arg_opt *o = wants_value(l, a);

	if (o) {
		l->more = value_of(o);
		return;
	}
	if (l->word[0] == '-') {
		for (size_t i = 0; i < a->n_opts; i++)
			offer(l, "--", a->opts[i].name, a->opts[i].help);
		offer(l, "--", "help", "say how it is used");
		return;
	}
	if (strstr(a->usage, "SB:PATH"))
		l->more = COMPLETE_PATH;
	else if (strstr(a->usage, " SB...") ||
		 (strstr(a->usage, " SB") && position(l, a) == 0))
		l->more = COMPLETE_SANDBOX;
	else if (strstr(a->usage, " T ") || strstr(a->usage, "info T"))
		l->more = COMPLETE_TEMPLATE;
	else
		l->more = COMPLETE_FILE;
}

static void on_group(void *arg, const struct verb_group *g)
{
	struct looking *l = arg;

	l->more = COMPLETE_NOTHING;
	if (l->n == 1)
		offer_verbs(l, g->verbs, g->n);
	else
		l->sub = verb_find(g->verbs, g->n, l->words[0]);
}

enum complete_more complete_words(char *const *words, size_t n, struct buf *out)
{
	struct looking l = { .word = n ? words[n - 1] : "",
			     .before = n > 2 ? words[n - 2] : NULL,
			     .out = out };
	struct cli_describe d = { on_args, on_group, &l };
	const struct verb *v;

	if (n <= 1) {
		offer_verbs(&l, cli_verbs, n_cli_verbs);
		return COMPLETE_NOTHING;
	}
	v = verb_find(cli_verbs, n_cli_verbs, words[0]);
	if (!v)
		return COMPLETE_NOTHING;
	l.words = words + 1;
	l.n = n - 1;
	cli_describe(v, &d);
	if (l.sub) { /* one level: a group's verbs are no groups */
		l.before = n > 3 ? words[n - 2] : NULL;
		l.words++;
		l.n--;
		cli_describe(l.sub, &d);
	}
	return l.more;
}
