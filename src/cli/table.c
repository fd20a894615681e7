/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/own.h"

void table_init(struct table *t, size_t n_columns)
{
	CHECK(n_columns > 0);
	*t = (struct table){ .n_columns = n_columns };
}

void table_fini(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->n_cells = 0;
}

void table_cell(struct table *t, const char *text)
{
	char **grown;

	grown = realloc(t->cells, (t->n_cells + 1) * sizeof(*grown));
	CHECK(grown);
	t->cells = grown;
	t->cells[t->n_cells] = xstrdup(text ? text : "");
	for (char *p = t->cells[t->n_cells]; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
	t->n_cells++;
}

void table_cellf(struct table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_cell(t, text);
}

static size_t width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

void table_write(const struct table *t, struct buf *out)
{
	size_t rows = (t->n_cells + t->n_columns - 1) / t->n_columns;
	size_t *widest = xnew_n(size_t, t->n_columns);

	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = width(t->cells[i]);

		if (w > widest[i % t->n_columns])
			widest[i % t->n_columns] = w;
	}
	for (size_t row = 0; row < rows; row++) {
		size_t owed = 0; /* spaces before the next cell with text */

		for (size_t col = 0; col < t->n_columns; col++) {
			size_t i = row * t->n_columns + col;
			const char *s = i < t->n_cells ? t->cells[i] : "";

			if (*s) {
				buf_printf(out, "%*s%s", (int)owed, "", s);
				owed = 0;
			}
			owed += widest[col] - width(s) + 2;
		}
		buf_puts(out, "\n");
	}
	free(widest);
}

void table_print(const struct table *t)
{
	struct buf out;

	buf_init(&out, 0);
	table_write(t, &out);
	fwrite(buf_data(&out), 1, buf_len(&out), stdout);
	fflush(stdout);
	buf_fini(&out);
}

void format_age(int64_t seconds, char *ret, size_t n)
{
	const int64_t minute = 60, hour = 60 * minute, day = 24 * hour;

	if (seconds < 0)
		seconds = 0;
	if (seconds < 2 * minute)
		snprintf(ret, n, "%" PRId64 "s", seconds);
	else if (seconds < 2 * hour)
		snprintf(ret, n, "%" PRId64 "m", seconds / minute);
	else if (seconds < 2 * day)
		snprintf(ret, n, "%" PRId64 "h", seconds / hour);
	else
		snprintf(ret, n, "%" PRId64 "d", seconds / day);
}

static bool digits(const char **s, int n, int *ret)
{
	*ret = 0;
	for (int i = 0; i < n; i++) {
		if (**s < '0' || **s > '9')
			return false;
		*ret = *ret * 10 + (*(*s)++ - '0');
	}
	return true;
}

int64_t parse_rfc3339(const char *s)
{
	struct tm tm = { 0 };
	int year, mon, day, h, m, sec, ms = 0, d, scale = 100;

	if (!digits(&s, 4, &year) || *s++ != '-' || !digits(&s, 2, &mon) ||
	    *s++ != '-' || !digits(&s, 2, &day) || (*s != 'T' && *s != ' '))
		return -1;
	s++;
	if (!digits(&s, 2, &h) || *s++ != ':' || !digits(&s, 2, &m) ||
	    *s++ != ':' || !digits(&s, 2, &sec))
		return -1;
	if (*s == '.') {
		for (s++; digits(&s, 1, &d); scale /= 10)
			ms += d * scale;
	}
	if (strcmp(s, "Z") != 0 || year < 1970 || mon < 1 || mon > 12 ||
	    day < 1 || day > 31 || h > 23 || m > 59 || sec > 60)
		return -1;
	tm.tm_year = year - 1900;
	tm.tm_mon = mon - 1;
	tm.tm_mday = day;
	tm.tm_hour = h;
	tm.tm_min = m;
	tm.tm_sec = sec;
	return (int64_t)timegm(&tm) * 1000 + ms;
}
