/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/test.h"

static const char *const codes[] = { "ok", "failed", NULL };
static const double bounds[] = { 0.005, 0.1, 1 };

static struct metric requests = { .name = "t_requests_total",
				  .help = "Requests.",
				  .type = METRIC_COUNTER,
				  .label = "code",
				  .label_values = codes };
static struct metric slots = { .name = "t_slots",
			       .help = "Slots.",
			       .type = METRIC_GAUGE };
static struct metric latency = { .name = "t_latency_seconds",
				 .help = "Latency.",
				 .type = METRIC_HISTOGRAM,
				 .bounds = bounds,
				 .n_bounds = 3 };

static const char *text(void)
{
	static struct buf b;

	buf_clear(&b);
	T_INT(metrics_write(&b), 0);
	return buf_cstr(&b);
}

TEST(metrics_counter_by_label)
{
	metric_register(&requests);
	metric_register(&requests); /* twice is a no-op */
	metric_add(&requests, 0, 1);
	metric_add(&requests, 0, 2);
	metric_add(&requests, 1, 1);
	T_TRUE(metric_get(&requests, 0) > 2.9);
	T_HAS(text(), "# HELP t_requests_total Requests.\n"
		      "# TYPE t_requests_total counter\n"
		      "t_requests_total{code=\"ok\"} 3\n"
		      "t_requests_total{code=\"failed\"} 1\n");
}

TEST(metrics_gauge_goes_both_ways)
{
	metric_register(&slots);
	metric_set(&slots, 0, 8);
	metric_add(&slots, 0, -3);
	T_HAS(text(), "# TYPE t_slots gauge\nt_slots 5\n");
	metric_set(&slots, 0, 0.1);
	T_HAS(text(), "t_slots 0.1\n");
	metric_set(&slots, 0, 1234567890123.0);
	T_HAS(text(), "t_slots 1234567890123\n");
	metric_set(&slots, 0, INFINITY);
	T_HAS(text(), "t_slots +Inf\n");
}

TEST(metrics_histogram_is_cumulative)
{
	metric_register(&latency);
	metric_observe(&latency, 0, 0.005); /* bounds are inclusive */
	metric_observe(&latency, 0, 0.05);
	metric_observe(&latency, 0, 0.5);
	metric_observe(&latency, 0, 50);
	T_HAS(text(), "t_latency_seconds_bucket{le=\"0.005\"} 1\n"
		      "t_latency_seconds_bucket{le=\"0.1\"} 2\n"
		      "t_latency_seconds_bucket{le=\"1\"} 3\n"
		      "t_latency_seconds_bucket{le=\"+Inf\"} 4\n"
		      "t_latency_seconds_sum 50.555\n"
		      "t_latency_seconds_count 4\n");
	T_TRUE(metric_get(&latency, 0) > 3.9);
}

TEST(metrics_write_says_when_there_is_no_room)
{
	struct buf b;

	metric_register(&requests);
	buf_init(&b, 10);
	T_TRUE(metrics_write(&b) < 0);
	buf_fini(&b);
}
