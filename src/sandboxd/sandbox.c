/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/sandbox.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/stats.h"
#include "sandboxd/vm.h"

#define TOMB_EXTRA_MS 60000u
#define TOMBS_MAX     65536u
#define SWEEP_MS      5000u
/* A failed start is answered when nothing is left of it, or after this. */
#define GRACE_MS 5000u

const char *const timing_names[TIMING_MAX_] = {
	[TIMING_REF] = "ref",	     [TIMING_PREPARE] = "prepare",
	[TIMING_CLAIM] = "claim",    [TIMING_STORE] = "store",
	[TIMING_LOAD] = "load",	     [TIMING_RENEW] = "renew",
	[TIMING_OPEN] = "open",	     [TIMING_TOTAL] = "total",
	[TIMING_QMP] = "load_qmp",   [TIMING_MAP] = "load_map",
	[TIMING_DISK] = "load_disk", [TIMING_STATE] = "load_state",
	[TIMING_CONT] = "cont",	     [TIMING_CONNECT] = "connect",
};

static void finish(struct waiter *w, const struct fault *f)
{
	if (w->link.next)
		list_del(&w->link);
	w->on_done(w, f);
}

static void finish_all(struct list *waiters, const struct fault *f)
{
	struct list now;

	list_init(&now);
	while (!list_empty(waiters)) {
		struct list *l = waiters->next;

		list_del(l);
		list_add_tail(&now, l);
	}
	while (!list_empty(&now))
		finish(list_entry(list_first(&now), struct waiter, link), f);
}

static void refuse(struct waiter *w, enum fault_code code, const char *msg)
{
	struct fault f;

	fault_set(&f, code, "%s", msg);
	finish(w, &f);
}

/* ---- tombstones ---- */

static void tomb_free(struct node *n, struct tomb *t)
{
	map_del(n->tombs, t->id);
	list_del(&t->link);
	free(t);
}

static struct tomb *tomb_get(struct node *n, const char *id)
{
	struct tomb *t = map_get(n->tombs, id);

	if (t && loop_now_ms(n->loop) >= t->until_ms) {
		tomb_free(n, t);
		return NULL;
	}
	return t;
}

static void tomb_sweep(struct loop_timer *timer)
{
	struct node *n = container_of(timer, struct node, tomb_timer);
	uint64_t now = loop_now_ms(n->loop);
	struct tomb *t, *tmp;

	list_for_each_safe (t, tmp, &n->tomb_list, link) {
		if (now >= t->until_ms)
			tomb_free(n, t);
	}
	if (!list_empty(&n->tomb_list))
		loop_timer_set(n->loop, timer, SWEEP_MS, tomb_sweep);
}

static struct tomb *tomb_set(struct node *n, const char *id,
			     uint64_t generation, uint64_t fence,
			     uint64_t until_ms, const char *reason)
{
	struct tomb *t = tomb_get(n, id);

	if (!t) {
		if (map_len(n->tombs) >= TOMBS_MAX)
			tomb_free(n, list_entry(list_first(&n->tomb_list),
						struct tomb, link));
		t = xnew(struct tomb);
		snprintf(t->id, sizeof(t->id), "%s", id);
		map_set(n->tombs, id, t);
		list_add_tail(&n->tomb_list, &t->link);
	}
	if (generation > t->generation)
		t->generation = generation;
	if (fence > t->fence)
		t->fence = fence;
	if (until_ms > t->until_ms)
		t->until_ms = until_ms;
	t->is_failed = false;
	snprintf(t->reason, sizeof(t->reason), "%s", reason);
	if (!n->tomb_timer.loop)
		loop_timer_set(n->loop, &n->tomb_timer, SWEEP_MS, tomb_sweep);
	return t;
}

/* ---- order of commands ---- */

static bool is_stale(struct waiter *w, uint64_t generation, uint64_t fence,
		     const struct command *cmd)
{
	struct fault f;

	if (cmd->generation >= generation && cmd->fence >= fence)
		return false;
	fault_set(&f, FAULT_STALE,
		  "generation %llu fence %llu is older than %llu %llu",
		  (unsigned long long)cmd->generation,
		  (unsigned long long)cmd->fence,
		  (unsigned long long)generation, (unsigned long long)fence);
	finish(w, &f);
	return true;
}

static void take_command(struct sandbox *s, const struct command *cmd)
{
	uint64_t now = loop_now_ms(s->node->loop);

	s->generation = cmd->generation;
	s->fence = cmd->fence;
	snprintf(s->operation, sizeof(s->operation), "%s", cmd->operation);
	if (now + cmd->time_left_ms + TOMB_EXTRA_MS > s->tomb_ms)
		s->tomb_ms = now + cmd->time_left_ms + TOMB_EXTRA_MS;
}

static void note(const struct sandbox *s, const char *event, const char *what)
{
	log_set_trace(s->trace[0] ? s->trace : NULL);
	log_info(event, "sandbox=%s generation=%llu operation=%s detail=%s",
		 s->id, (unsigned long long)s->generation, s->operation, what);
	log_set_trace(NULL);
}

/* ---- what it uses ---- */

static void take_sample(struct sandbox *s)
{
	if (!s->vm)
		return;
	s->vm->source.pid = s->vm->vmm_alive ? s->vm->vmm.pid : 0;
	usage_read(&s->vm->source, &s->usage);
}

/* Each sandbox has its own beat, so that a full node does not read thousands
 * of files at once. */
static void on_sample(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, sample);

	take_sample(s);
	samples_push(&s->node->samples, s->id, &s->usage);
	loop_timer_set(s->node->loop, t, samples_every_ms, on_sample);
}

static void start_sampling(struct sandbox *s, uint64_t first_ms)
{
	if (s->node->engine->is_virtual)
		loop_timer_set(s->node->loop, &s->sample, first_ms, on_sample);
}

/* The last one is exact where the VMM, or its cgroup, is still there. */
static void stop_sampling(struct sandbox *s)
{
	if (!s->sample.loop)
		return;
	loop_timer_del(&s->sample);
	take_sample(s);
	samples_push(&s->node->samples, s->id, &s->usage);
}

const struct usage *sandbox_last_usage(struct node *n, const char *id)
{
	struct tomb *t = tomb_get(n, id);

	return t && t->usage.is_known ? &t->usage : NULL;
}

/* ---- ensure ---- */

static void ensure_existing(struct sandbox *s, const struct command *cmd,
			    const struct spec *spec, struct waiter *w)
{
	if (is_stale(w, s->generation, s->fence, cmd))
		return;
	if (s->state == SANDBOX_ENDING) {
		refuse(w, FAULT_STATE, "the sandbox is ending on this node");
		return;
	}
	if (strcmp(spec->digest, s->spec.digest) != 0) {
		refuse(w, FAULT_STATE,
		       "the sandbox is here with another release or other "
		       "resources");
		return;
	}
	take_command(s, cmd);
	if (s->state == SANDBOX_RUNNING)
		finish(w, NULL);
	else
		list_add_tail(&s->ensures, &w->link);
}

static struct sandbox *sandbox_alloc(struct node *n, const char *id)
{
	struct sandbox *s = xnew(struct sandbox);

	s->node = n;
	snprintf(s->id, sizeof(s->id), "%s", id);
	list_init(&s->ensures);
	list_init(&s->ends);
	map_set(n->sandboxes, s->id, s);
	return s;
}

void sandbox_ensure(struct node *n, const char *id, const struct command *cmd,
		    const struct spec *spec, const char *trace,
		    struct waiter *w)
{
	struct sandbox *s = sandbox_get(n, id);
	struct tomb *t = tomb_get(n, id);
	struct fault f;

	list_init(&w->link);
	if (s) {
		ensure_existing(s, cmd, spec, w);
		return;
	}
	if (t) {
		if (is_stale(w, t->generation, t->fence, cmd))
			return;
		if (cmd->generation == t->generation && !t->is_failed) {
			fault_set(&f, FAULT_STATE,
				  "the sandbox has ended on this node (%s)",
				  t->reason);
			finish(w, &f);
			return;
		}
	}
	if (node_admit(n, spec->res.memory_mib, &f) < 0) {
		stats_create(STATS_CREATE_REFUSED);
		finish(w, &f);
		return;
	}
	if (t)
		tomb_free(n, t);
	s = sandbox_alloc(n, id);
	s->spec = *spec;
	s->memory_mib = spec->res.memory_mib;
	snprintf(s->trace, sizeof(s->trace), "%s", trace ? trace : "");
	take_command(s, cmd);
	s->deadline_ms = loop_now_ms(n->loop) + cmd->time_left_ms;
	list_add_tail(&s->ensures, &w->link);
	note(s, "sandbox_starting", "-");
	n->engine->start(s);
}

void sandbox_started(struct sandbox *s)
{
	char what[64];

	CHECK(s->state == SANDBOX_STARTING);
	s->state = SANDBOX_RUNNING;
	start_sampling(s, samples_every_ms);
	stats_create(STATS_CREATE_OK);
	stats_timings(s->timings_us);
	snprintf(what, sizeof(what), "total_us=%llu",
		 (unsigned long long)s->timings_us[TIMING_TOTAL]);
	note(s, "sandbox_running", what);
	finish_all(&s->ensures, NULL);
}

/* ---- the end ---- */

static void on_grace(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, grace);

	finish_all(&s->ensures, &s->fault);
}

static void tear_down(struct sandbox *s)
{
	CHECK(s->state != SANDBOX_ENDING);
	stop_sampling(s);
	s->state = SANDBOX_ENDING;
	s->node->engine->end(s);
}

void sandbox_failed(struct sandbox *s, const struct fault *f)
{
	CHECK(s->state == SANDBOX_STARTING);
	s->is_failed = true;
	s->fault = *f;
	s->reason = "error";
	stats_create(f->code == FAULT_TIMEOUT ? STATS_CREATE_TIMEOUT
					      : STATS_CREATE_FAILED);
	note(s, "sandbox_failed", f->msg);
	loop_timer_set(s->node->loop, &s->grace, GRACE_MS, on_grace);
	tear_down(s);
}

void sandbox_gone(struct sandbox *s, const char *reason, const char *detail)
{
	if (s->state == SANDBOX_ENDING)
		return;
	CHECK(s->state == SANDBOX_RUNNING);
	s->reason = reason;
	stats_gone();
	note(s, "sandbox_gone", reason);
	stop_sampling(s);
	events_push(&s->node->events, s->id, s->generation, reason, detail,
		    &s->usage);
	tear_down(s);
}

void sandbox_torn(struct sandbox *s)
{
	struct node *n = s->node;
	struct list ensures, ends;
	bool is_failed = s->is_failed;
	struct fault f = s->fault;
	struct tomb *t;

	CHECK(s->state == SANDBOX_ENDING);
	note(s, "sandbox_ended", s->reason);
	t = tomb_set(n, s->id, s->generation, s->fence, s->tomb_ms, s->reason);
	t->is_failed = is_failed;
	if (s->usage.is_known)
		t->usage = s->usage;

	list_init(&ensures);
	list_init(&ends);
	if (!list_empty(&s->ensures)) {
		list_add(&s->ensures, &ensures);
		list_del(&s->ensures);
	}
	if (!list_empty(&s->ends)) {
		list_add(&s->ends, &ends);
		list_del(&s->ends);
	}
	node_unadmit(n, s->memory_mib);
	loop_timer_del(&s->grace);
	map_del(n->sandboxes, s->id);
	free(s);
	/* The object is gone before anyone hears of it and asks again. */
	finish_all(&ensures, &f);
	finish_all(&ends, NULL);
}

void sandbox_end(struct node *n, const char *id, const struct command *cmd,
		 const char *trace, struct waiter *w)
{
	struct sandbox *s = sandbox_get(n, id);
	struct tomb *t = tomb_get(n, id);
	uint64_t now = loop_now_ms(n->loop);

	list_init(&w->link);
	if (!s) {
		if (t && is_stale(w, t->generation, t->fence, cmd))
			return;
		/* What arrives late must not start it. */
		tomb_set(n, id, cmd->generation, cmd->fence,
			 now + cmd->time_left_ms + TOMB_EXTRA_MS,
			 t ? t->reason : "request");
		finish(w, NULL);
		return;
	}
	if (is_stale(w, s->generation, s->fence, cmd))
		return;
	take_command(s, cmd);
	list_add_tail(&s->ends, &w->link);
	if (s->state == SANDBOX_ENDING) {
		/* Now it was wished for as well: no second try. */
		s->is_failed = false;
		return;
	}
	snprintf(s->trace, sizeof(s->trace), "%s", trace ? trace : "");
	s->reason = "request";
	if (s->state == SANDBOX_STARTING) {
		stats_create(STATS_CREATE_CANCELLED);
		fault_set(&s->fault, FAULT_CANCELLED,
			  "the sandbox was ended while it started");
		finish_all(&s->ensures, &s->fault);
	}
	note(s, "sandbox_ending", "-");
	tear_down(s);
}

struct sandbox *sandbox_get(struct node *n, const char *id)
{
	return map_get(n->sandboxes, id);
}

const char *sandbox_observed(const struct sandbox *s)
{
	static const char *const names[] = {
		[SANDBOX_STARTING] = "starting",
		[SANDBOX_RUNNING] = "running",
		[SANDBOX_ENDING] = "ending",
	};

	return names[s->state];
}

/* ---- re-adoption ---- */

struct sandbox *sandbox_adopt(struct node *n, const struct journal *j)
{
	struct sandbox *s = sandbox_alloc(n, j->sandbox);

	s->state = SANDBOX_RUNNING;
	s->generation = j->generation;
	s->fence = j->fence;
	s->tomb_ms = loop_now_ms(n->loop) + TOMB_EXTRA_MS;
	snprintf(s->operation, sizeof(s->operation), "%s", j->operation);
	s->spec.res.vcpus = j->vcpus;
	s->spec.res.memory_mib = j->memory_mib;
	s->spec.res.disk_mib = j->disk_mib;
	snprintf(s->spec.release.digest, sizeof(s->spec.release.digest), "%s",
		 j->release);
	snprintf(s->spec.hostname, sizeof(s->spec.hostname), "%s", j->hostname);
	snprintf(s->spec.digest, sizeof(s->spec.digest), "%s", j->spec);
	s->memory_mib = j->memory_mib;
	n->memory_used_mib += j->memory_mib + NODE_VM_EXTRA_MIB;
	start_sampling(s, samples_every_ms);
	return s;
}

void sandbox_lost(struct node *n, const struct journal *j, const char *reason,
		  const char *detail)
{
	log_warn("sandbox_lost", "sandbox=%s reason=%s detail=%s", j->sandbox,
		 reason, detail);
	stats_gone();
	tomb_set(n, j->sandbox, j->generation, j->fence,
		 loop_now_ms(n->loop) + TOMB_EXTRA_MS, reason);
	events_push(&n->events, j->sandbox, j->generation, reason, detail,
		    NULL);
}

void sandboxes_init(struct node *n)
{
	n->sandboxes = map_new();
	n->tombs = map_new();
	list_init(&n->tomb_list);
}

void sandboxes_fini(struct node *n)
{
	const char *key;
	void *value;

	for (size_t pos = 0; map_next(n->sandboxes, &pos, &key, &value);) {
		struct sandbox *s = value;

		loop_timer_del(&s->grace);
		loop_timer_del(&s->sample);
		n->engine->forget(s);
		map_del(n->sandboxes, s->id);
		free(s);
	}
	while (!list_empty(&n->tomb_list))
		tomb_free(n, list_entry(list_first(&n->tomb_list), struct tomb,
					link));
	loop_timer_del(&n->tomb_timer);
	n->sandboxes = map_free(n->sandboxes);
	n->tombs = map_free(n->tombs);
}
