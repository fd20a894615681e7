/* SPDX-License-Identifier: Apache-2.0 */
#include "api/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/node.h"
#include "api/stats.h"
#include "api/wait.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define RENEW_MS    3000u
#define RETRY_MIN   100u
#define RETRY_MAX   1000u
#define PATIENCE_MS 10000u /* of repeating; then the controller goes on */
#define POLL_S	    10
#define SAY_MAX	    20u /* attempts to write an observation */

enum task_kind { TASK_CREATE, TASK_END, TASK_BUILD };
static const char *const kind_names[] = { "create", "end", "template_build" };

struct task {
	struct list link;
	struct api *api;
	enum task_kind kind;
	struct task_spec s; /* its strings are owned */
	char prepare[64];   /* build: id at the node */
	uint64_t start_us, deadline_ms, give_up_ms;
	unsigned retry_ms, n_said;
	bool ever_sent, busy, dead;
	struct loop_timer timer;
	/* the observation, until it is written */
	char *observed, *level, *engine, *reason, *error, *timings;
};

static void task_send(struct task *t);
static void task_say(struct task *t);

/* ---- pure ---- */

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	if (!text || json_parse(text, strlen(text), &v, NULL) < 0)
		return NULL;
	return v;
}

char *task_body(const char *incarnation, const struct task_spec *s, bool full,
		uint64_t time_left_ms)
{
	owned_json o = json_object();
	json_t *v;

	json_set_take(o, "incarnation", json_string(incarnation));
	json_set_take(o, "time_left_ms", json_integer((int64_t)time_left_ms));
	if (full) {
		json_set_take(o, "operation", json_string(s->op));
		json_set_take(o, "generation", json_integer(s->generation));
		json_set_take(o, "fence", json_integer(s->fence));
	}
	if (s->hostname)
		json_set_take(o, "hostname", json_string(s->hostname));
	v = parse(s->release);
	if (v)
		json_set_take(o, "release", v);
	v = parse(s->resources);
	if (v)
		json_set_take(o, "resources", v);
	return json_text(o);
}

char *task_release(const char *digest, const char *manifest)
{
	static const char *const keys[] = { "kernel", "initramfs", "root",
					    "root_format" };
	owned_json m = parse(manifest);
	owned_json o = json_object();

	json_set_take(o, "digest", json_string(digest));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(m, keys[i]);

		if (!json_is_string(v))
			return NULL;
		json_set_take(o, keys[i], json_deep_copy(v));
	}
	return json_text(o);
}

/* ---- life ---- */

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static void drop(const char *s)
{
	free((void *)(uintptr_t)s);
}

static void task_drop(struct task *t)
{
	list_del(&t->link);
	loop_timer_del(&t->timer);
	if (t->busy) { /* a callback still knows it */
		t->dead = true;
		return;
	}
	drop(t->s.op);
	drop(t->s.tenant);
	drop(t->s.node);
	drop(t->s.traceparent);
	drop(t->s.sandbox);
	drop(t->s.hostname);
	drop(t->s.release);
	drop(t->s.resources);
	drop(t->s.digest);
	free(t->observed);
	free(t->level);
	free(t->engine);
	free(t->reason);
	free(t->error);
	free(t->timings);
	free(t);
}

/* A callback came back: true if the task was dropped meanwhile. */
static bool back(struct task *t)
{
	bool dead = t->dead;

	t->busy = false;
	if (dead)
		task_drop(t);
	return dead;
}

static struct pg_stmt st_renew = { "operations_renew",
				   "SELECT caisson.operations_renew($1, $2)", 2,
				   0 };

static void ignore(void *arg, const struct pg_result *res, const struct err *e)
{
	(void)arg;
	(void)res;
	(void)e;
}

static void on_renew(struct loop_timer *timer)
{
	struct api *a = container_of(timer, struct api, renew_timer);
	char lease[16];
	const char *params[] = { a->owner, lease };

	if (list_empty(&a->tasks))
		return;
	snprintf(lease, sizeof(lease), "%d", TASK_LEASE_S);
	pg_query(a->db, &st_renew, params, RENEW_MS, ignore, NULL, NULL);
	loop_timer_set(a->loop, &a->renew_timer, RENEW_MS, on_renew);
}

static struct task *task_new(struct api *a, enum task_kind kind,
			     const struct task_spec *s, unsigned seconds)
{
	struct task *t = xnew(struct task);
	uint64_t now_ms = loop_now_ms(a->loop);

	t->api = a;
	t->kind = kind;
	t->s.op = copy(s->op);
	t->s.tenant = copy(s->tenant);
	t->s.node = copy(s->node);
	t->s.traceparent = copy(s->traceparent);
	t->s.sandbox = copy(s->sandbox);
	t->s.generation = s->generation;
	t->s.fence = s->fence;
	t->s.hostname = copy(s->hostname);
	t->s.release = copy(s->release);
	t->s.resources = copy(s->resources);
	t->s.digest = copy(s->digest);
	t->start_us = now_mono_us();
	t->deadline_ms = now_ms + UINT64_C(1000) * seconds;
	t->give_up_ms = now_ms + PATIENCE_MS;
	t->retry_ms = RETRY_MIN;
	list_add_tail(&a->tasks, &t->link);
	if (!a->renew_timer.loop)
		loop_timer_set(a->loop, &a->renew_timer, RENEW_MS, on_renew);
	return t;
}

/* ---- the end of a task ---- */

static void finished(struct task *t, bool ok, const char *state,
		     const char *operation, const char *sandbox)
{
	stats_operation(kind_names[t->kind],
			(double)(now_mono_us() - t->start_us) / 1e6, ok);
	wait_wake(t->api, t->s.op, state, operation, sandbox);
	task_drop(t);
}

static struct pg_stmt st_release = {
	"operation_release", "SELECT caisson.operation_release($1, $2, $3)", 3,
	0
};

/* How it ended is not known: the controller goes on. */
static void hand_over(struct task *t, const char *why)
{
	const char *params[] = { t->s.op, t->api->owner, "1" };

	log_warn("operation_handed_over", "op=%s kind=%s reason=%s", t->s.op,
		 kind_names[t->kind], why);
	pg_query(t->api->db, &st_release, params, 5000, ignore, NULL, NULL);
	task_drop(t);
}

static struct pg_stmt st_observe = {
	"sandbox_observe",
	"SELECT applied, sandbox, operation FROM caisson.sandbox_observe("
	"$1, $2, $3, $4, $5, $6, $7, $8, $9)",
	9, 0
};
static struct pg_stmt st_build = { "build_finish",
				   "SELECT caisson.build_finish($1, $2, $3)", 3,
				   0 };

static void on_say_again(struct loop_timer *timer)
{
	task_say(container_of(timer, struct task, timer));
}

static void on_said(void *arg, const struct pg_result *res, const struct err *e)
{
	struct task *t = arg;
	bool ok = t->error == NULL;

	if (back(t))
		return;
	if (e && t->n_said++ < SAY_MAX) {
		loop_timer_set(t->api->loop, &t->timer, 500, on_say_again);
		return;
	}
	if (e || pg_rows(res) == 0) {
		hand_over(t, e ? e->msg : "the row is gone");
		return;
	}
	if (t->kind == TASK_BUILD)
		finished(t, ok, ok ? "succeeded" : "failed", pg_text(res, 0, 0),
			 NULL);
	else if (pg_bool(res, 0, 0))
		finished(t, ok, ok ? "succeeded" : "failed", pg_text(res, 0, 2),
			 pg_text(res, 0, 1));
	else /* overtaken by a newer wish */
		finished(t, false, "", NULL, NULL);
}

static void task_say(struct task *t)
{
	char generation[24];
	const char *params[] = { t->s.tenant, t->s.op,	generation,
				 t->observed, t->level, t->engine,
				 t->reason,   t->error, t->timings };
	const char *build[] = { t->s.tenant, t->s.op, t->error };
	bool b = t->kind == TASK_BUILD;

	snprintf(generation, sizeof(generation), "%" PRId64, t->s.generation);
	t->busy = true;
	if (pg_query(t->api->db, b ? &st_build : &st_observe,
		     b ? build : params, 5000, on_said, t, NULL) == 0)
		return;
	t->busy = false;
	loop_timer_set(t->api->loop, &t->timer, 500, on_say_again);
}

static void say_failed(struct task *t, const struct fault *f)
{
	owned_json o = fault_json(f);

	log_warn("operation_failed", "op=%s kind=%s code=%s message=%s",
		 t->s.op, kind_names[t->kind], f->code, f->message);
	t->observed = xstrdup("failed");
	t->error = json_text(o);
	task_say(t);
}

/* ---- talking to the node ---- */

static void on_retry(struct loop_timer *timer)
{
	task_send(container_of(timer, struct task, timer));
}

/* Try again, until patience ends; then decide by what may have happened. */
static void retry(struct task *t, const char *why)
{
	struct fault f;

	if (loop_now_ms(t->api->loop) < t->give_up_ms) {
		loop_timer_set(t->api->loop, &t->timer, t->retry_ms, on_retry);
		t->retry_ms =
		    t->retry_ms * 2 > RETRY_MAX ? RETRY_MAX : t->retry_ms * 2;
		return;
	}
	if (t->kind == TASK_END || t->ever_sent) {
		hand_over(t, why);
		return;
	}
	fault_set(&f, "node_unavailable", "node",
		  "repeat the call; `caisson status` shows the node's daemons",
		  "node %s cannot be reached: %s", t->s.node, why);
	say_failed(t, &f);
}

static char *text_of(const json_t *v)
{
	return json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
}

static void node_said_yes(struct task *t, const char *body, size_t n)
{
	owned_json v = NULL;
	json_t *isolation, *timings;

	if (json_parse(body, n, &v, NULL) < 0)
		v = json_object();
	isolation = json_object_get(v, "isolation");
	timings = json_object_get(v, "timings_ms");
	t->level = text_of(json_object_get(isolation, "level"));
	t->engine = text_of(json_object_get(isolation, "engine"));
	t->reason = text_of(json_object_get(isolation, "reason"));
	t->timings = json_is_object(timings) ? json_text(timings) : NULL;
	t->observed = xstrdup(t->kind == TASK_END ? "ended" : "running");
	if (t->kind == TASK_END) {
		struct node *node = node_get(t->api->nodes, t->s.node);

		if (node)
			node_count(node, -1);
	}
	task_say(t);
}

/* The raw code: these two are between the parts, not of the public API. */
static bool has_code(const char *body, size_t n, const char *code)
{
	owned_json v = NULL;
	const char *s;

	if (json_parse(body, n, &v, NULL) < 0)
		return false;
	s = json_string_value(
	    json_object_get(json_object_get(v, "error"), "code"));
	return s && strcmp(s, code) == 0;
}

static void build_progress(struct task *t, const char *body, size_t n);

static void on_node(void *arg, int status, const char *body, size_t n,
		    const struct err *e, bool sent)
{
	struct task *t = arg;
	struct fault f;

	if (back(t))
		return;
	t->ever_sent |= sent;
	if (e && loop_now_ms(t->api->loop) >= t->deadline_ms) {
		hand_over(t, e->msg);
	} else if (e) {
		retry(t, e->msg);
	} else if (status == 409 && has_code(body, n, "wrong_incarnation")) {
		t->prepare[0] = '\0';
		nodes_refresh(t->api->nodes);
		retry(t, "it restarts again and again");
	} else if (status == 409 && has_code(body, n, "stale")) {
		finished(t, false, "", NULL, NULL);
	} else if (status >= 200 && status < 300) {
		t->retry_ms = RETRY_MIN;
		if (t->kind == TASK_BUILD)
			build_progress(t, body, n);
		else
			node_said_yes(t, body, n);
	} else if (t->kind == TASK_END) {
		fault_of_peer(&f, "node", status, body, n);
		hand_over(t, f.message);
	} else if (t->kind == TASK_BUILD && status == 404 && *t->prepare) {
		t->prepare[0] = '\0'; /* forgotten by a restart: ask anew */
		retry(t, "the node forgot it");
	} else {
		fault_of_peer(&f, "node", status, body, n);
		say_failed(t, &f);
	}
}

static char *path_of(const struct task *t)
{
	switch (t->kind) {
	case TASK_CREATE:
		return xasprintf("/v1/sandboxes/%s/ensure", t->s.sandbox);
	case TASK_END:
		return xasprintf("/v1/sandboxes/%s/end", t->s.sandbox);
	case TASK_BUILD:
		break;
	}
	if (*t->prepare)
		return xasprintf("/v1/prepares/%s?wait_s=%d", t->prepare,
				 POLL_S);
	return xasprintf("/v1/releases/%s/prepare", t->s.digest + 7);
}

static void task_send(struct task *t)
{
	struct node *node = node_get(t->api->nodes, t->s.node);
	uint64_t now_ms = loop_now_ms(t->api->loop), left_ms;
	owned_str body = NULL;
	owned_str path = NULL;
	bool poll = *t->prepare != '\0';

	if (!node || !*node_incarnation(node)) {
		nodes_refresh(t->api->nodes);
		retry(t, "its incarnation is not known");
		return;
	}
	left_ms = now_ms < t->deadline_ms ? t->deadline_ms - now_ms : 1;
	if (!poll)
		body = task_body(node_incarnation(node), &t->s,
				 t->kind != TASK_BUILD, left_ms);
	path = path_of(t);
	t->busy = true;
	node_call(node, poll ? "GET" : "POST", path, body,
		  poll && left_ms > 30000 ? 30000 : left_ms, t->s.traceparent,
		  on_node, t);
}

/* ---- builds ---- */

static struct pg_stmt st_progress = {
	"operation_progress", "SELECT caisson.operation_progress($1, $2)", 2, 0
};

static void build_failed(struct task *t, const json_t *answer)
{
	owned_json wrapped = json_object();
	owned_str text = NULL;
	json_t *error = json_object_get(answer, "error");
	struct fault f;

	json_set_take(wrapped, "error",
		      error ? json_deep_copy(error) : json_null());
	text = json_text(wrapped);
	fault_of_peer(&f, "node", 0, text, strlen(text));
	say_failed(t, &f);
}

static void build_progress(struct task *t, const char *body, size_t n)
{
	owned_json v = NULL;
	owned_str text = NULL;
	const char *id, *phase, *params[2];
	struct fault f;

	if (json_parse(body, n, &v, NULL) < 0)
		v = json_object();
	id = json_string_value(json_object_get(v, "id"));
	phase = json_string_value(json_object_get(v, "phase"));
	if (id && strlen(id) < sizeof(t->prepare) &&
	    strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(id))
		snprintf(t->prepare, sizeof(t->prepare), "%s", id);
	if (phase && strcmp(phase, "ready") == 0) {
		task_say(t);
	} else if (phase && strcmp(phase, "failed") == 0) {
		build_failed(t, v);
	} else if (!*t->prepare ||
		   loop_now_ms(t->api->loop) >= t->deadline_ms) {
		fault_set(&f, "node_unavailable", "node", "repeat the build",
			  "node %s did not get the release ready in time",
			  t->s.node);
		say_failed(t, &f);
	} else {
		json_object_del(v, "id");
		text = json_text(v);
		params[0] = t->s.op;
		params[1] = text;
		pg_query(t->api->db, &st_progress, params, 5000, ignore, NULL,
			 NULL);
		t->give_up_ms = loop_now_ms(t->api->loop) + PATIENCE_MS;
		loop_timer_set(t->api->loop, &t->timer, RETRY_MIN, on_retry);
	}
}

/* ---- public ---- */

void task_create(struct api *a, const struct task_spec *s)
{
	struct node *node = node_get(a->nodes, s->node);

	if (node)
		node_count(node, 1);
	task_send(task_new(a, TASK_CREATE, s, TASK_CREATE_S));
}

void task_end(struct api *a, const struct task_spec *s)
{
	task_send(task_new(a, TASK_END, s, TASK_END_S));
}

void task_build(struct api *a, const struct task_spec *s)
{
	task_send(task_new(a, TASK_BUILD, s, TASK_BUILD_S));
}

void task_fini(struct api *a)
{
	loop_timer_del(&a->renew_timer);
	while (!list_empty(&a->tasks))
		task_drop(list_entry(list_first(&a->tasks), struct task, link));
}
