/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counters, gauges and histograms in Prometheus' text format 0.0.4. Label sets
 * are fixed at registration (at most one label, values from a fixed table), so
 * that no peer can make the set grow. One registry per process; not thread
 * safe.
 */

#include <stdint.h>

#include "base/buf.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
	const char *name; /* caisson_api_requests_total */
	const char *help;
	enum metric_type type;
	const char *label;		 /* NULL = none */
	const char *const *label_values; /* NULL-terminated */
	const double *bounds;		 /* histogram: ascending upper bounds */
	unsigned n_bounds;
	/* private */
	struct metric *next;
	double *values;
	unsigned n_values;
};

void metric_register(struct metric *m); /* twice is a no-op */
/* which: index into label_values, 0 without label. */
void metric_add(struct metric *m, unsigned which, double v);
void metric_set(struct metric *m, unsigned which, double v);
void metric_observe(struct metric *m, unsigned which, double v);
double metric_get(const struct metric *m, unsigned which);
int metrics_write(struct buf *out); /* 0 or -ENOBUFS */
