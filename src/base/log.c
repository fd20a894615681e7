/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

#define LINE_MAX_BYTES	  4096 /* <= PIPE_BUF, so that lines never mix */
#define FIELDS_MAX_BYTES  2048
#define QUOTE_MAX_BYTES	  512
#define QUOTES_PER_THREAD 4

static const char *const level_names[LOG_LEVEL_MAX_] = { "debug", "info",
							 "warn", "error" };

static const char *log_program = "caisson";
static enum log_level log_least = LOG_INFO_;
static enum log_format log_form = LOG_KV;
static _Thread_local char log_trace[33];

void log_init(const char *program, enum log_level level)
{
	const char *s = getenv("CAISSON_LOG");
	const char *f = getenv("CAISSON_LOG_FORMAT");

	log_program = program;
	log_least = level;
	for (unsigned i = 0; s && i < LOG_LEVEL_MAX_; i++) {
		if (strcmp(s, level_names[i]) == 0)
			log_least = (enum log_level)i;
	}
	log_form = f && strcmp(f, "json") == 0 ? LOG_JSON : LOG_KV;
}

void log_set_level(enum log_level level)
{
	log_least = level;
}

void log_set_trace(const char *trace)
{
	snprintf(log_trace, sizeof(log_trace), "%s", trace ? trace : "");
}

/* A line under construction: what does not fit is left out, and room for the
 * end is kept. */
struct line {
	char s[LINE_MAX_BYTES];
	size_t n, room;
};

static void put(struct line *l, const char *p, size_t n)
{
	if (n > l->room - l->n)
		n = l->room - l->n;
	memcpy(l->s + l->n, p, n);
	l->n += n;
}

static void puts_to(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

/* One escaped character (or UTF-8 sequence); whole or not at all. Returns how
 * much of s was used. */
static size_t put_escaped(struct line *l, const char *s, size_t n)
{
	unsigned char c = (unsigned char)*s;
	size_t used = 1, len;
	char esc[8];

	if (c == '"' || c == '\\') {
		len = (size_t)snprintf(esc, sizeof(esc), "\\%c", c);
	} else if (c == '\n') {
		len = (size_t)snprintf(esc, sizeof(esc), "\\n");
	} else if (c < 0x20 || c == 0x7f) {
		len = (size_t)snprintf(esc, sizeof(esc), "\\u%04x", c);
	} else if (c < 0x80) {
		esc[0] = (char)c;
		len = 1;
	} else {
		used = text_utf8_prefix(s, 1);
		for (size_t k = 2; !used && k <= 4 && k <= n; k++)
			used = text_utf8_prefix(s, k);
		len =
		    used ? used : (size_t)snprintf(esc, sizeof(esc), "\\ufffd");
		if (used)
			memcpy(esc, s, used);
		else
			used = 1;
	}
	if (len <= l->room - l->n)
		put(l, esc, len);
	return used;
}

static void put_quoted(struct line *l, const char *s, size_t n)
{
	put(l, "\"", 1);
	for (size_t i = 0; i < n;)
		i += put_escaped(l, s + i, n - i);
	l->room++;
	put(l, "\"", 1);
}

const char *log_quote(const char *s)
{
	static _Thread_local char ring[QUOTES_PER_THREAD][QUOTE_MAX_BYTES + 1];
	static _Thread_local unsigned next;
	char *to = ring[next++ % QUOTES_PER_THREAD];
	struct line l;

	l.n = 0;
	l.room = QUOTE_MAX_BYTES - 1;
	if (!s)
		s = "";
	put_quoted(&l, s, strnlen(s, QUOTE_MAX_BYTES));
	memcpy(to, l.s, l.n);
	to[l.n] = 0;
	return to;
}

static bool is_key_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || c == '_' ||
	       (!first && ((c >= '0' && c <= '9') || c == '.'));
}

/* Length of "key" if s begins with `key=`, else 0. */
static size_t key_len(const char *s)
{
	size_t n = 0;

	while (is_key_char(s[n], n == 0))
		n++;
	return s[n] == '=' ? n : 0;
}

/* A value ends where the next ` key=` begins; a quoted one at its quote.
 * Returns its length. */
static size_t value_len(const char *s)
{
	size_t n = 0;

	if (*s == '"') {
		for (n = 1; s[n] && s[n] != '"'; n++)
			n += s[n] == '\\' && s[n + 1];
		if (s[n] == '"')
			return n + 1;
		n = 0;
	}
	while (s[n] && !(s[n] == ' ' && key_len(s + n + 1)))
		n++;
	return n;
}

static bool is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 0x7f ||
		    s[i] == '"' || s[i] == '\\')
			return false;
	}
	return n > 0;
}

/* "-12", "3.5": what is a number in JSON too. */
static bool is_number(const char *s, size_t n)
{
	size_t i = s[0] == '-', dots = 0, first = i;

	if (n == i || n > 15 ||
	    (n > first + 1 && s[first] == '0' && s[first + 1] != '.'))
		return false;
	for (; i < n; i++) {
		if (s[i] == '.' && i > first && i + 1 < n && dots++ == 0)
			continue;
		if (s[i] < '0' || s[i] > '9')
			return false;
	}
	return true;
}

static void put_value(struct line *l, const char *s, size_t n)
{
	bool quoted =
	    n >= 2 && s[0] == '"' && value_len(s) == n && s[n - 1] == '"';

	if (quoted || (log_form == LOG_JSON && is_number(s, n)) ||
	    (log_form == LOG_KV && is_plain(s, n)))
		put(l, s, n);
	else
		put_quoted(l, s, n);
}

static void put_field(struct line *l, const char *key, size_t key_n,
		      const char *v, size_t v_n)
{
	/* whole fields only, so that the line stays well-formed */
	size_t before = l->n;

	if (log_form == LOG_JSON) {
		puts_to(l, l->n > 1 ? ",\"" : "\"");
		put(l, key, key_n);
		puts_to(l, "\":");
	} else {
		puts_to(l, l->n ? " " : "");
		put(l, key, key_n);
		puts_to(l, "=");
	}
	if (l->room - l->n < v_n + 2) {
		l->n = before;
		return;
	}
	put_value(l, v, v_n);
}

static void put_str(struct line *l, const char *key, const char *v)
{
	put_field(l, key, strlen(key), v, strlen(v));
}

/* Values in log_quote()d text were escaped there; everything else is escaped
 * here. */
static void put_pairs(struct line *l, const char *s)
{
	while (*s) {
		size_t k = key_len(s), v;

		if (k == 0) { /* text that is no pair */
			v = value_len(s);
			put_field(l, "text", 4, s, v);
			s += v;
		} else {
			v = value_len(s + k + 1);
			put_field(l, s, k, s + k + 1, v);
			s += k + 1 + v;
		}
		while (*s == ' ')
			s++;
	}
}

void log_event(enum log_level level, const char *name, const char *fmt, ...)
{
	char fields[FIELDS_MAX_BYTES], ts[25];
	int saved = errno;
	struct line l;
	va_list ap;

	if (level < log_least || (unsigned)level >= LOG_LEVEL_MAX_)
		return;
	va_start(ap, fmt);
	vsnprintf(fields, sizeof(fields), fmt, ap);
	va_end(ap);
	text_rfc3339(now_unix_ms(), ts);
	l.n = 0;
	l.room = sizeof(l.s) - 8;
	if (log_form == LOG_JSON)
		puts_to(&l, "{");
	put_str(&l, "ts", ts);
	put_str(&l, "level", level_names[level]);
	put_str(&l, "program", log_program);
	put_str(&l, "event", name);
	if (log_trace[0])
		put_str(&l, "trace", log_trace);
	put_pairs(&l, fields);
	l.room = sizeof(l.s);
	puts_to(&l, log_form == LOG_JSON ? "}\n" : "\n");
	(void)write_all(STDERR_FILENO, l.s, l.n);
	errno = saved;
}
