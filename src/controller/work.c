/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Operations that nobody works on: claimed by a sweep, told to the node again
 * (ensure and end are idempotent there), answered for in the database or
 * released for a later try. Everything that is decided is in decide.c.
 */

#include "controller/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "controller/decide.h"
#include "net/json.h"

#define QUERY_MS      10000u
#define NODE_SLACK_MS 2000u /* beyond the time that the node is given */
#define END_LEFT_MS   30000
#define POLL_WAIT_S   10
#define POLL_TMO_MS   20000u
#define POLL_PAUSE_MS 500u

struct work {
	struct controller *c;
	struct node *node;
	enum op_kind kind;
	char *op, *sandbox, *hostname, *trace, *prepare;
	char *incarnation;
	int64_t generation, fence;
	uint64_t until_ms; /* deadline, by our clock */
	int attempts;
	json_t *resources, *release, *error, *timings;
	char *level, *engine, *reason; /* what ensure answered */
	const char *observed;
	struct loop_timer pause;
};

/* operation_claim()'s columns */
enum {
	COL_OP,
	COL_KIND,
	COL_ATTEMPTS,
	COL_LEFT,
	COL_SANDBOX,
	COL_GENERATION,
	COL_FENCE,
	COL_NODE,
	COL_RPC,
	COL_INCARNATION,
	COL_HOSTNAME,
	COL_RESOURCES,
	COL_RELEASE,
	COL_TRACE,
	COL_ALIVE,
};

static struct pg_stmt observe_stmt = {
	.name = "sandbox_observe",
	.sql = "SELECT applied FROM caisson.sandbox_observe(NULL, $1, $2, $3, "
	       "$4, $5, $6, $7, $8)",
	.n_params = 8,
};
static struct pg_stmt build_stmt = {
	.name = "build_finish",
	.sql = "SELECT caisson.build_finish(NULL, $1, $2)",
	.n_params = 2,
};
static struct pg_stmt release_stmt = {
	.name = "operation_release",
	.sql = "SELECT caisson.operation_release($1, $2, $3)",
	.n_params = 3,
};
static struct pg_stmt progress_stmt = {
	.name = "operation_progress",
	.sql = "SELECT caisson.operation_progress($1, $2)",
	.n_params = 2,
};
static struct pg_stmt lost_stmt = {
	.name = "sandbox_gone_lost",
	.sql = "SELECT caisson.sandbox_gone((SELECT node FROM "
	       "caisson.sandboxes WHERE id = $1), $1, 'lost', 'node_lost', $2)",
	.n_params = 2,
};

static void work_free(struct work *w)
{
	char *strings[] = { w->op,    w->sandbox, w->hostname,
			    w->trace, w->prepare, w->incarnation,
			    w->level, w->engine,  w->reason };

	loop_timer_del(&w->pause);
	w->c->active--;
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free(strings[i]);
	json_decref(w->resources);
	json_decref(w->release);
	json_decref(w->error);
	json_decref(w->timings);
	free(w);
}

static int64_t left_ms(const struct work *w)
{
	return (int64_t)(w->until_ms - loop_now_ms(w->c->loop));
}

static void on_noted(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct work *w = arg;

	(void)res;
	/* not noted: its lease runs out and it is claimed again */
	if (e)
		log_warn("operation", "op=%s why=%s", w->op, e->msg);
	work_free(w);
}

static void query_last(struct work *w, struct pg_stmt *st,
		       const char *const *params)
{
	struct err e = { 0 };

	if (pg_query(w->c->pool, st, params, QUERY_MS, on_noted, w, &e) < 0) {
		log_warn("operation", "op=%s why=%s", w->op, e.msg);
		work_free(w);
	}
}

static void later(struct work *w, int delay_s)
{
	char delay[16];
	const char *params[] = { w->op, w->c->owner, delay };

	snprintf(delay, sizeof(delay), "%d", delay_s);
	query_last(w, &release_stmt, params);
}

static json_t *make_error(const char *code, const char *message)
{
	json_t *e = json_object();

	json_set_take(e, "code", json_string(code));
	json_set_take(e, "message", json_string(message));
	json_set_take(e, "cause", json_string("node"));
	return e;
}

/* The operation's end: running, ended or failed (with w->error). */
static void conclude(struct work *w, const char *observed)
{
	owned_str error = w->error ? json_text(w->error) : NULL;
	owned_str timings = w->timings ? json_text(w->timings) : NULL;
	char generation[24];

	log_info("operation_done", "op=%s as=%s attempts=%d", w->op, observed,
		 w->attempts);
	if (w->kind == OP_BUILD) {
		const char *params[] = { w->op, error };

		query_last(w, &build_stmt, params);
		return;
	}
	snprintf(generation, sizeof(generation), "%" PRId64, w->generation);
	{
		const char *params[] = { w->op,	   generation, observed,
					 w->level, w->engine,  w->reason,
					 error,	   timings };

		query_last(w, &observe_stmt, params);
	}
}

/* ---- the node's answers ---- */

static void copy_str(char **to, json_t *v)
{
	free(*to);
	*to = json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
}

static void keep_running(struct work *w, json_t *v)
{
	json_t *iso = json_object_get(v, "isolation");

	copy_str(&w->level, json_object_get(iso, "level"));
	copy_str(&w->engine, json_object_get(iso, "engine"));
	copy_str(&w->reason, json_object_get(iso, "reason"));
	json_decref(w->timings);
	w->timings = json_incref(json_object_get(v, "timings_ms"));
}

/* Common to all answers: true if it went well; else w is finished. */
static bool went_well(struct work *w, int status, json_t *v,
		      const struct err *e)
{
	json_t *error = json_object_get(v, "error");
	const char *code = json_string_value(json_object_get(error, "code"));

	switch (decide_answer(w->kind, e ? 0 : status, code ? code : "",
			      left_ms(w))) {
	case ANSWER_DONE:
		return true;
	case ANSWER_FAILED:
		json_decref(w->error);
		w->error = json_is_object(error)
			       ? json_incref(error)
			       : make_error("node_unavailable",
					    "the node did not answer in time");
		conclude(w, "failed");
		return false;
	case ANSWER_LATER:
	case ANSWER_MAX_:
		break;
	}
	log_info("operation_later", "op=%s status=%d code=%s", w->op, status,
		 code ? code : "-");
	later(w, decide_delay_s(w->attempts));
	return false;
}

static void on_ensured(void *arg, int status, const char *body, size_t n,
		       const struct err *e)
{
	struct work *w = arg;
	owned_json v = NULL;

	if (n > 0 && json_parse(body, n, &v, NULL) < 0)
		v = NULL;
	if (!went_well(w, status, v, e))
		return;
	keep_running(w, v);
	conclude(w, "running");
}

static void on_ended(void *arg, int status, const char *body, size_t n,
		     const struct err *e)
{
	struct work *w = arg;
	owned_json v = NULL;

	if (n > 0 && json_parse(body, n, &v, NULL) < 0)
		v = NULL;
	if (went_well(w, status, v, e))
		conclude(w, "ended");
}

/* Ended on the node or not: the operation has failed, and what is left there
 * is a stranger to the next comparison. */
static void on_given_up(void *arg, int status, const char *body, size_t n,
			const struct err *e)
{
	(void)status;
	(void)body;
	(void)n;
	(void)e;
	conclude(arg, "failed");
}

/* ---- what the node is asked ---- */

static json_t *command(const struct work *w, int64_t time_left_ms)
{
	json_t *b = json_object();
	const char *seen = node_incarnation(w->node);

	json_set_take(b, "incarnation",
		      json_string(*seen ? seen : w->incarnation));
	json_set_take(b, "time_left_ms", json_integer(time_left_ms));
	if (w->kind == OP_BUILD)
		return b;
	json_set_take(b, "generation", json_integer(w->generation));
	json_set_take(b, "fence", json_integer(w->fence));
	json_set_take(b, "operation", json_string(w->op));
	return b;
}

static void
ask(struct work *w, const char *path, const json_t *body, int64_t time_left_ms,
    void (*done)(void *, int, const char *, size_t, const struct err *))
{
	owned_str text = body ? json_text(body) : NULL;
	struct err e = { 0 };

	if (node_call(w->node, body ? "POST" : "GET", path, text,
		      (uint64_t)time_left_ms + NODE_SLACK_MS, done, w, &e) == 0)
		return;
	log_info("operation_later", "op=%s why=%s", w->op, e.msg);
	later(w, decide_delay_s(w->attempts));
}

static void ask_ensure(struct work *w)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/ensure", w->sandbox);
	owned_json body = command(w, left_ms(w));

	json_set_take(body, "hostname", json_string(w->hostname));
	json_object_set(body, "resources", w->resources);
	json_object_set(body, "release", w->release);
	ask(w, path, body, left_ms(w), on_ensured);
}

static void ask_end(struct work *w, bool giving_up)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/end", w->sandbox);
	int64_t left = giving_up ? END_LEFT_MS : left_ms(w);
	owned_json body = command(w, left);

	/* beyond a create that may still be under way there */
	if (giving_up)
		json_set_take(body, "generation",
			      json_integer(w->generation + 1));
	ask(w, path, body, left, giving_up ? on_given_up : on_ended);
}

static void poll_prepare(struct work *w);

static void on_pause(struct loop_timer *t)
{
	poll_prepare(container_of(t, struct work, pause));
}

static void on_progress_noted(void *arg, const struct pg_result *res,
			      const struct err *e)
{
	(void)arg;
	(void)res;
	(void)e; /* shown late: no harm */
}

static void on_prepare(void *arg, int status, const char *body, size_t n,
		       const struct err *e)
{
	struct work *w = arg;
	owned_json v = NULL;
	const char *phase, *id;
	owned_str text = NULL;

	if (n > 0 && json_parse(body, n, &v, NULL) < 0)
		v = NULL;
	if (!went_well(w, status, v, e))
		return;
	phase = json_string_value(json_object_get(v, "phase"));
	id = json_string_value(json_object_get(v, "id"));
	if (phase && !strcmp(phase, "ready")) {
		conclude(w, "running");
		return;
	}
	if (phase && !strcmp(phase, "failed")) {
		json_decref(w->error);
		w->error = json_incref(json_object_get(v, "error"));
		if (!json_is_object(w->error)) {
			json_decref(w->error);
			w->error = make_error("node_unavailable",
					      "the node could not prepare "
					      "the release");
		}
		conclude(w, "failed");
		return;
	}
	if (id && !w->prepare)
		w->prepare = xstrdup(id);
	text = json_text(v);
	if (v) {
		const char *params[] = { w->op, text };

		pg_query(w->c->pool, &progress_stmt, params, QUERY_MS,
			 on_progress_noted, NULL, NULL);
	}
	if (!w->prepare) {
		later(w, decide_delay_s(w->attempts));
		return;
	}
	loop_timer_set(w->c->loop, &w->pause, POLL_PAUSE_MS, on_pause);
}

static void ask_prepare(struct work *w)
{
	const char *digest =
	    json_string_value(json_object_get(w->release, "digest"));
	owned_str path =
	    xasprintf("/v1/releases/%s/prepare", digest ? digest : "");
	owned_json body = command(w, left_ms(w));

	json_object_set(body, "release", w->release);
	json_object_set(body, "resources", w->resources);
	ask(w, path, body, POLL_TMO_MS, on_prepare);
}

static void poll_prepare(struct work *w)
{
	owned_str path =
	    xasprintf("/v1/prepares/%s?wait_s=%d", w->prepare, POLL_WAIT_S);

	if (left_ms(w) <= 0) {
		json_decref(w->error);
		w->error = make_error("node_unavailable",
				      "the node was not ready in time");
		conclude(w, "failed");
		return;
	}
	ask(w, path, NULL, POLL_TMO_MS, on_prepare);
}

/* ---- claims ---- */

static void fail_with(struct work *w, const struct op_decision *d)
{
	json_decref(w->error);
	w->error = make_error(d->code, d->message);
}

static void lost(struct work *w, const struct op_decision *d)
{
	const char *params[] = { w->sandbox, d->message };

	log_warn("sandbox_lost", "op=%s sandbox=%s", w->op, w->sandbox);
	query_last(w, &lost_stmt, params);
}

static void begin(struct work *w, const struct op_decision *d)
{
	switch (d->action) {
	case OP_DO_ENSURE:
		ask_ensure(w);
		break;
	case OP_DO_END:
		ask_end(w, false);
		break;
	case OP_DO_PREPARE:
		ask_prepare(w);
		break;
	case OP_DO_FAIL:
		fail_with(w, d);
		conclude(w, "failed");
		break;
	case OP_DO_GIVE_UP:
		fail_with(w, d);
		ask_end(w, true);
		break;
	case OP_DO_LOST:
		lost(w, d);
		break;
	case OP_DO_ENDED:
		conclude(w, "ended");
		break;
	case OP_DO_LATER:
	case OP_ACTION_MAX_:
		later(w, d->delay_s);
		break;
	}
}

static char *copy(const struct pg_result *res, int row, int col)
{
	const char *s = pg_text(res, row, col);

	return s ? xstrdup(s) : NULL;
}

static json_t *parse(const struct pg_result *res, int row, int col)
{
	const char *s = pg_text(res, row, col);
	json_t *v = NULL;

	if (s)
		json_parse(s, strlen(s), &v, NULL);
	return v;
}

static void claim_one(struct controller *c, const struct pg_result *res, int i)
{
	struct work *w = xnew(struct work);
	const char *rpc = pg_text(res, i, COL_RPC);
	int64_t left = pg_int(res, i, COL_LEFT, 0);
	struct op_facts f;
	struct op_decision d;

	c->active++;
	w->c = c;
	w->op = copy(res, i, COL_OP);
	w->kind = op_kind_of(pg_text(res, i, COL_KIND));
	w->attempts = (int)pg_int(res, i, COL_ATTEMPTS, 1);
	w->sandbox = copy(res, i, COL_SANDBOX);
	w->generation = pg_int(res, i, COL_GENERATION, 0);
	w->fence = pg_int(res, i, COL_FENCE, 0);
	w->incarnation = copy(res, i, COL_INCARNATION);
	w->hostname = copy(res, i, COL_HOSTNAME);
	w->resources = parse(res, i, COL_RESOURCES);
	w->release = parse(res, i, COL_RELEASE);
	w->until_ms = loop_now_ms(c->loop) + (uint64_t)(left > 0 ? left : 0);
	w->node = rpc ? node_get(c, rpc, false) : NULL;
	f = (struct op_facts){
		.kind = w->kind,
		.has_node = w->node && w->incarnation,
		.node_alive = pg_bool(res, i, COL_ALIVE),
		.complete =
		    json_is_object(w->release) && json_is_object(w->resources),
		.time_left_ms = left,
		.attempts = w->attempts,
	};
	d = decide_op(&f);
	log_info("operation_claimed", "op=%s kind=%s attempt=%d action=%d",
		 w->op, pg_text(res, i, COL_KIND), w->attempts, (int)d.action);
	begin(w, &d);
}

void work_claimed(struct controller *c, const struct pg_result *res)
{
	for (int i = 0; i < pg_rows(res); i++)
		claim_one(c, res, i);
}
