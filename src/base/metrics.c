/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "base/own.h"

/* A histogram keeps, per label value: one count per bound, the count beyond
 * the last, and the sum. Counts are cumulated when written. */

static struct metric *first, **last = &first;

static unsigned width(const struct metric *m)
{
	return m->type == METRIC_HISTOGRAM ? m->n_bounds + 2 : 1;
}

static unsigned n_labels(const struct metric *m)
{
	unsigned n = 0;

	if (!m->label)
		return 1;
	while (m->label_values[n])
		n++;
	return n;
}

void metric_register(struct metric *m)
{
	if (m->values)
		return;
	m->n_values = n_labels(m);
	CHECK(m->n_values > 0);
	m->values = xnew_n(double, (size_t)m->n_values *width(m));
	m->next = NULL;
	*last = m;
	last = &m->next;
}

static double *cells(const struct metric *m, unsigned which)
{
	CHECK(m->values && which < m->n_values);
	return m->values + (size_t)which * width(m);
}

void metric_add(struct metric *m, unsigned which, double v)
{
	CHECK(m->type == METRIC_GAUGE || (m->type == METRIC_COUNTER && v >= 0));
	*cells(m, which) += v;
}

void metric_set(struct metric *m, unsigned which, double v)
{
	CHECK(m->type == METRIC_GAUGE);
	*cells(m, which) = v;
}

void metric_observe(struct metric *m, unsigned which, double v)
{
	double *c = cells(m, which);
	unsigned i = 0;

	CHECK(m->type == METRIC_HISTOGRAM);
	while (i < m->n_bounds && v > m->bounds[i])
		i++;
	c[i] += 1;
	c[m->n_bounds + 1] += v;
}

double metric_get(const struct metric *m, unsigned which)
{
	const double *c = cells(m, which);
	double n = 0;

	if (m->type != METRIC_HISTOGRAM)
		return *c;
	for (unsigned i = 0; i <= m->n_bounds; i++)
		n += c[i];
	return n;
}

/* 17 digits give any double back; most need fewer. */
static int put_number(struct buf *out, double v)
{
	char s[32];

	if (isnan(v) || isinf(v))
		return buf_puts(out, isnan(v) ? "NaN"
				     : v > 0  ? "+Inf"
					      : "-Inf");
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(s, sizeof(s), "%.*g", digits, v);
		if (strtod(s, NULL) <= v && strtod(s, NULL) >= v)
			break;
	}
	return buf_puts(out, s);
}

/* name_suffix{label="value",le="bound"} v */
static int put_sample(struct buf *out, const struct metric *m, unsigned which,
		      const char *suffix, const double *le, double v)
{
	int r = buf_printf(out, "%s%s", m->name, suffix);

	if (m->label || le)
		r |= buf_puts(out, "{");
	if (m->label)
		r |= buf_printf(out, "%s=\"%s\"%s", m->label,
				m->label_values[which], le ? "," : "");
	if (le) {
		r |= buf_puts(out, "le=\"");
		r |= put_number(out, *le);
		r |= buf_puts(out, "\"");
	}
	if (m->label || le)
		r |= buf_puts(out, "}");
	r |= buf_puts(out, " ");
	r |= put_number(out, v);
	return r | buf_puts(out, "\n");
}

static int put_histogram(struct buf *out, const struct metric *m,
			 unsigned which)
{
	const double *c = cells(m, which), inf = INFINITY;
	double n = 0;
	int r = 0;

	for (unsigned i = 0; i <= m->n_bounds; i++) {
		n += c[i];
		r |= put_sample(out, m, which, "_bucket",
				i < m->n_bounds ? &m->bounds[i] : &inf, n);
	}
	r |= put_sample(out, m, which, "_sum", NULL, c[m->n_bounds + 1]);
	return r | put_sample(out, m, which, "_count", NULL, n);
}

int metrics_write(struct buf *out)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	int r = 0;

	for (const struct metric *m = first; m; m = m->next) {
		r |= buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name,
				m->help, m->name, types[m->type]);
		for (unsigned i = 0; i < m->n_values; i++) {
			if (m->type == METRIC_HISTOGRAM)
				r |= put_histogram(out, m, i);
			else
				r |= put_sample(out, m, i, "", NULL,
						*cells(m, i));
		}
	}
	return r; /* only ever 0 or -ENOBUFS, so or-ing keeps it */
}
