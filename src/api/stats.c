/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stats.h"

#include <string.h>

#include "api/api.h"
#include "base/metrics.h"
#include "base/own.h"

static const char *const classes[] = {
	"none", "2xx", "3xx", "4xx", "5xx", NULL
};
static const char *const kinds[] = { "create", "end", "template_build", NULL };
static const double bounds[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
				 0.25,	0.5,	1,     2.5,  5,	    10,	  60 };

static struct metric requests = {
	.name = "caisson_api_requests_total",
	.help = "Requests answered, by class of status (none: client left).",
	.type = METRIC_COUNTER,
	.label = "class",
	.label_values = classes,
};
static struct metric seconds = {
	.name = "caisson_api_request_seconds",
	.help = "From the request's head to the end of the answer.",
	.type = METRIC_HISTOGRAM,
	.bounds = bounds,
	.n_bounds = ARRAY_SIZE(bounds),
};
static struct metric op_seconds = {
	.name = "caisson_api_operation_seconds",
	.help = "Operations this process drove to success, by kind.",
	.type = METRIC_HISTOGRAM,
	.label = "kind",
	.label_values = kinds,
	.bounds = bounds,
	.n_bounds = ARRAY_SIZE(bounds),
};
static struct metric op_failures = {
	.name = "caisson_api_operation_failures_total",
	.help = "Operations this process saw fail, by kind.",
	.type = METRIC_COUNTER,
	.label = "kind",
	.label_values = kinds,
};
static struct metric db_open = {
	.name = "caisson_api_db_connections",
	.help = "Open connections to PostgreSQL.",
	.type = METRIC_GAUGE,
};
static struct metric db_waiting = {
	.name = "caisson_api_db_waiting",
	.help = "Statements that wait for a connection.",
	.type = METRIC_GAUGE,
};

void stats_init(void)
{
	metric_register(&requests);
	metric_register(&seconds);
	metric_register(&op_seconds);
	metric_register(&op_failures);
	metric_register(&db_open);
	metric_register(&db_waiting);
}

void stats_request(int status, double s)
{
	unsigned c =
	    status >= 200 && status < 600 ? (unsigned)(status / 100) - 1 : 0;

	metric_add(&requests, c, 1);
	metric_observe(&seconds, 0, s);
}

void stats_operation(const char *kind, double s, int ok)
{
	for (unsigned i = 0; kinds[i]; i++) {
		if (strcmp(kinds[i], kind) != 0)
			continue;
		if (ok)
			metric_observe(&op_seconds, i, s);
		else
			metric_add(&op_failures, i, 1);
	}
}

int stats_write(struct api *a, struct buf *out)
{
	struct pg_stats s;

	pg_pool_stats(a->db, &s);
	metric_set(&db_open, 0, s.open);
	metric_set(&db_waiting, 0, s.waiting);
	return metrics_write(out);
}
