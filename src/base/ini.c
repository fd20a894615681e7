/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ini.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"

#define INI_FILE_MAX (1u << 20)
#define INI_WORD_MAX 1024 /* bytes of a section, key or value */
#define SUGGEST_MAX  128

struct parser {
	const char *name;
	size_t line;
	char section[INI_WORD_MAX];
	bool in_section;
	const struct ini_key *keys;
	size_t n_keys;
	struct err *e;
};

static struct view trim(struct view v)
{
	while (v.n && (v.p[0] == ' ' || v.p[0] == '\t')) {
		v.p++;
		v.n--;
	}
	while (v.n && (v.p[v.n - 1] == ' ' || v.p[v.n - 1] == '\t' ||
		       v.p[v.n - 1] == '\r'))
		v.n--;
	return v;
}

static int bad(struct parser *p, const char *what, const char *name,
	       const char *expected)
{
	return err_set(p->e, -EINVAL, ERR_INVALID, "%s:%zu: %s \"%.64s\": %s",
		       p->name, p->line, what, name, expected);
}

static int copy_word(struct parser *p, const char *what, struct view v,
		     char ret[INI_WORD_MAX])
{
	if (v.n >= INI_WORD_MAX)
		return err_set(p->e, -EINVAL, ERR_INVALID,
			       "%s:%zu: %s is longer than %d bytes", p->name,
			       p->line, what, INI_WORD_MAX - 1);
	if (v.n)
		memcpy(ret, v.p, v.n);
	ret[v.n] = 0;
	return 0;
}

/* "unknown", with the nearest of the words the table has. */
static int unknown(struct parser *p, const char *what, const char *name,
		   const char *section)
{
	const char *words[SUGGEST_MAX], *near;
	char text[INI_WORD_MAX + 64];
	size_t n = 0;

	for (size_t i = 0; i < p->n_keys && n < SUGGEST_MAX; i++) {
		if (!section)
			words[n++] = p->keys[i].section;
		else if (strcmp(p->keys[i].section, section) == 0)
			words[n++] = p->keys[i].key;
	}
	near = args_suggest(name, words, n);
	if (!near)
		return bad(p, what, name, "unknown");
	snprintf(text, sizeof(text), "unknown; did you mean \"%s\"?", near);
	return bad(p, what, name, text);
}

static int parse_section(struct parser *p, struct view v)
{
	int r;

	if (v.n < 3 || v.p[v.n - 1] != ']')
		return err_set(p->e, -EINVAL, ERR_INVALID,
			       "%s:%zu: expected [section]", p->name, p->line);
	r = copy_word(p, "section", (struct view){ v.p + 1, v.n - 2 },
		      p->section);
	if (r < 0)
		return r;
	p->in_section = true;
	for (size_t i = 0; i < p->n_keys; i++) {
		if (strcmp(p->keys[i].section, p->section) == 0)
			return 0;
	}
	return unknown(p, "section", p->section, NULL);
}

static bool parse_bool(const char *s, bool *ret)
{
	static const char *const yes[] = { "yes", "true", "on" };
	static const char *const no[] = { "no", "false", "off" };

	for (size_t i = 0; i < 3; i++) {
		if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
			*ret = strcmp(s, yes[i]) == 0;
			return true;
		}
	}
	return false;
}

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },	  { "K", 1 << 10 },	     { "M", 1 << 20 },
	{ "G", 1 << 30 }, { "T", (int64_t)1 << 40 }, { NULL, 0 },
};
static const struct unit time_units[] = {
	{ "ms", 1 },	  { "s", 1000 },     { "m", 60000 },
	{ "h", 3600000 }, { "d", 86400000 }, { NULL, 0 },
};

static bool parse_number(const char *s, const struct unit *units, int64_t *ret)
{
	size_t n = strspn(s, "0123456789");
	char digits[24];
	int64_t v;

	if (!units)
		return text_int(s, INT64_MIN, INT64_MAX, ret);
	if (n == 0 || n >= sizeof(digits))
		return false;
	memcpy(digits, s, n);
	digits[n] = 0;
	if (!text_int(digits, 0, INT64_MAX, &v))
		return false;
	for (; units->name; units++) {
		if (strcmp(units->name, s + n) == 0)
			return !__builtin_mul_overflow(v, units->factor, ret);
	}
	return false;
}

static int set_number(struct parser *p, const struct ini_key *k,
		      const struct unit *units, const char *value,
		      const char *expected)
{
	char text[128];
	int64_t v;

	if (!parse_number(value, units, &v))
		return bad(p, "key", k->key, expected);
	if ((k->min || k->max) && (v < k->min || v > k->max)) {
		snprintf(text, sizeof(text), "expected %lld to %lld%s",
			 (long long)k->min, (long long)k->max,
			 units == size_units   ? " bytes"
			 : units == time_units ? " ms"
					       : "");
		return bad(p, "key", k->key, text);
	}
	*(int64_t *)k->dest = v;
	return 0;
}

static int set(struct parser *p, const struct ini_key *k, const char *value)
{
	char **str;

	switch (k->type) {
	case INI_STR:
		str = k->dest;
		free(*str);
		*str = xstrdup(value);
		return 0;
	case INI_BOOL:
		if (!parse_bool(value, k->dest))
			return bad(p, "key", k->key, "expected yes or no");
		return 0;
	case INI_INT:
		return set_number(p, k, NULL, value, "expected a number");
	case INI_SIZE:
		return set_number(p, k, size_units, value,
				  "expected a size like 512M or 2G");
	case INI_TIME:
		return set_number(p, k, time_units, value,
				  "expected a time like 250ms, 10s or 5m");
	case INI_TYPE_MAX_:
	default:
		return bad(p, "key", k->key, "has no type");
	}
}

static int parse_pair(struct parser *p, struct view v)
{
	char key[INI_WORD_MAX], value[INI_WORD_MAX];
	const char *eq = memchr(v.p, '=', v.n);
	int r;

	if (!eq)
		return err_set(p->e, -EINVAL, ERR_INVALID,
			       "%s:%zu: expected key = value", p->name,
			       p->line);
	if (!p->in_section)
		return err_set(p->e, -EINVAL, ERR_INVALID,
			       "%s:%zu: a key before any [section]", p->name,
			       p->line);
	r = copy_word(p, "key", trim((struct view){ v.p, (size_t)(eq - v.p) }),
		      key);
	if (r == 0)
		r = copy_word(
		    p, "value",
		    trim((struct view){ eq + 1, v.n - (size_t)(eq + 1 - v.p) }),
		    value);
	if (r < 0)
		return r;
	for (size_t i = 0; i < p->n_keys; i++) {
		if (strcmp(p->keys[i].section, p->section) == 0 &&
		    strcmp(p->keys[i].key, key) == 0)
			return set(p, &p->keys[i], value);
	}
	return unknown(p, "key", key, p->section);
}

static int parse_line(struct parser *p, struct view v)
{
	v = trim(v);
	if (v.n == 0 || v.p[0] == '#' || v.p[0] == ';')
		return 0;
	if (memchr(v.p, 0, v.n))
		return err_set(p->e, -EINVAL, ERR_INVALID,
			       "%s:%zu: a NUL byte: this is no text", p->name,
			       p->line);
	return v.p[0] == '[' ? parse_section(p, v) : parse_pair(p, v);
}

int ini_parse(const char *name, const char *text, size_t n,
	      const struct ini_key *keys, size_t n_keys, struct err *e)
{
	struct parser p = {
		.name = name, .keys = keys, .n_keys = n_keys, .e = e
	};

	while (n > 0) {
		const char *end = memchr(text, '\n', n);
		size_t len = end ? (size_t)(end - text) : n;
		int r;

		p.line++;
		r = parse_line(&p, (struct view){ text, len });
		if (r < 0)
			return r;
		text += len + (end != NULL);
		n -= len + (end != NULL);
	}
	return 0;
}

int ini_load(const char *path, const struct ini_key *keys, size_t n_keys,
	     struct err *e)
{
	owned_str text = NULL;
	size_t n;
	int r = file_read(path, INI_FILE_MAX, &text, &n, e);

	return r < 0 ? r : ini_parse(path, text, n, keys, n_keys, e);
}
