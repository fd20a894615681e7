/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/stats.h"

#include "base/metrics.h"
#include "base/own.h"
#include "sandboxd/node.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/waiting.h"

static const char *const outcomes[] = { "ok",	     "failed",	"timeout",
					"cancelled", "refused", NULL };
static const char *const prepare_outcomes[] = { "ok", "failed", NULL };
static const char *steps[TIMING_MAX_ + 1];
static const double bounds[] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
				 0.05,	 0.1,	0.25,	0.5,   1,    2.5,
				 5,	 10,	30,	60 };

static struct metric creates = {
	.name = "caisson_sandboxd_creates_total",
	.help = "Sandboxes that were to be brought up, by outcome.",
	.type = METRIC_COUNTER,
	.label = "outcome",
	.label_values = outcomes,
};
static struct metric gone = {
	.name = "caisson_sandboxd_gone_total",
	.help = "Running sandboxes that ended without being asked to.",
	.type = METRIC_COUNTER,
};
static struct metric prepares = {
	.name = "caisson_sandboxd_prepares_total",
	.help = "Boot checkpoints that were to be built, by outcome.",
	.type = METRIC_COUNTER,
	.label = "outcome",
	.label_values = prepare_outcomes,
};
static struct metric claims = {
	.name = "caisson_sandboxd_claims_total",
	.help = "VMs taken for a sandbox: warm, or loaded while it waited.",
	.type = METRIC_COUNTER,
	.label = "path",
	.label_values = claim_path_names,
};
static struct metric warmed = {
	.name = "caisson_sandboxd_warmed_total",
	.help = "VMs that were to be kept warm, by outcome.",
	.type = METRIC_COUNTER,
	.label = "outcome",
	.label_values = prepare_outcomes,
};
static struct metric step_seconds = {
	.name = "caisson_sandboxd_create_step_seconds",
	.help = "How long each step of a create took.",
	.type = METRIC_HISTOGRAM,
	.label = "step",
	.label_values = steps,
	.bounds = bounds,
	.n_bounds = ARRAY_SIZE(bounds),
};
static struct metric sandboxes = {
	.name = "caisson_sandboxd_sandboxes",
	.help = "Sandboxes on this node now.",
	.type = METRIC_GAUGE,
};
static struct metric waiting = {
	.name = "caisson_sandboxd_waiting_vmms",
	.help = "Warm VMs that wait for a sandbox.",
	.type = METRIC_GAUGE,
};
static struct metric memory = {
	.name = "caisson_sandboxd_memory_used_mib",
	.help = "Memory promised to sandboxes.",
	.type = METRIC_GAUGE,
};
static struct metric memory_warm = {
	.name = "caisson_sandboxd_memory_warm_mib",
	.help = "Memory of warm VMs, given up when a sandbox needs it.",
	.type = METRIC_GAUGE,
};

void stats_init(void)
{
	for (int i = 0; i < TIMING_MAX_; i++)
		steps[i] = timing_names[i];
	metric_register(&creates);
	metric_register(&gone);
	metric_register(&prepares);
	metric_register(&claims);
	metric_register(&warmed);
	metric_register(&step_seconds);
	metric_register(&sandboxes);
	metric_register(&waiting);
	metric_register(&memory);
	metric_register(&memory_warm);
}

void stats_create(enum stats_create outcome)
{
	metric_add(&creates, outcome, 1);
}

double stats_get_create(enum stats_create outcome)
{
	return metric_get(&creates, outcome);
}

void stats_timings(const uint64_t *timings_us)
{
	for (unsigned i = 0; i < TIMING_MAX_; i++)
		if (timings_us[i])
			metric_observe(&step_seconds, i,
				       (double)timings_us[i] / 1e6);
}

void stats_gone(void)
{
	metric_add(&gone, 0, 1);
}

void stats_prepare(bool ok)
{
	metric_add(&prepares, ok ? 0 : 1, 1);
}

void stats_claimed(unsigned path)
{
	metric_add(&claims, path, 1);
}

double stats_get_claimed(unsigned path)
{
	return metric_get(&claims, path);
}

void stats_warmed(bool ok)
{
	metric_add(&warmed, ok ? 0 : 1, 1);
}

double stats_get_warmed(bool ok)
{
	return metric_get(&warmed, ok ? 0 : 1);
}

int stats_write(struct node *n, struct buf *out)
{
	metric_set(&sandboxes, 0, (double)map_len(n->sandboxes));
	metric_set(&waiting, 0, n->waiting ? waiting_count(n->waiting) : 0);
	metric_set(&memory, 0, n->memory_used_mib);
	metric_set(&memory_warm, 0, n->memory_warm_mib);
	return metrics_write(out);
}
