/* SPDX-License-Identifier: Apache-2.0 */
#include "api/wait.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "net/json.h"

#define SWEEP_MS 250u

struct waiter {
	struct list link; /* in the operation's list */
	struct req *req;
	enum answer how;
	char op[32];
	struct loop_timer timer;
};

struct waiters {
	struct list list;
};

static void sweep_later(struct api *a);

bool wait_is_final(const char *state)
{
	return strcmp(state, "succeeded") == 0 ||
	       strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
}

/* ---- the answer ---- */

static void answer_failed(struct req *r, const char *op, const char *state,
			  const char *operation)
{
	owned_json o = NULL;
	owned_json wrapped = json_object();
	owned_str text = NULL;
	const char *by = NULL;
	json_t *error;
	struct fault f;

	if (json_parse(operation, strlen(operation), &o, NULL) == 0)
		by = json_string_value(json_object_get(o, "superseded_by"));
	error = json_object_get(o, "error");
	if (strcmp(state, "cancelled") == 0) {
		fault_set(&f, "wrong_state", "request",
			  "follow the newer operation",
			  "superseded by a newer wish, operation %s",
			  by ? by : "unknown");
	} else {
		json_set_take(wrapped, "error",
			      error ? json_deep_copy(error) : json_null());
		text = json_text(wrapped);
		fault_of_peer(&f, "node", 0, text, strlen(text));
	}
	snprintf(f.operation, sizeof(f.operation), "%s", op);
	req_fault(r, &f);
}

static void answer(struct req *r, enum answer how, const char *op,
		   const char *state, const char *operation,
		   const char *sandbox)
{
	owned_str pair = req_pair(operation, sandbox);
	char location[64];

	if (how == ANSWER_GET) {
		req_json(r, 200, pair);
		return;
	}
	snprintf(location, sizeof(location), "/v1/operations/%s", op);
	if (!wait_is_final(state))
		req_json_with(r, 202, "location", location, pair);
	else if (strcmp(state, "succeeded") == 0)
		req_json(r, how == ANSWER_END ? 200 : 201, pair);
	else
		answer_failed(r, op, state, operation);
}

/* ---- waiters ---- */

/* Takes the waiter out; the caller inherits its reference to the request. */
static struct req *waiter_take(struct waiter *w)
{
	struct api *a = w->req->api;
	struct waiters *ws = map_get(a->waits, w->op);
	struct req *r = w->req;

	list_del(&w->link);
	loop_timer_del(&w->timer);
	if (ws && list_empty(&ws->list))
		free(map_del(a->waits, w->op));
	a->n_waits--;
	free(w);
	return r;
}

static struct pg_stmt st_get = { "operation_get",
				 "SELECT state, operation, sandbox "
				 "FROM caisson.operation_get($1, $2, $3)",
				 3, 0 };

struct reread {
	struct req *req;
	enum answer how;
	char op[32];
};

static void on_reread(void *arg, const struct pg_result *res,
		      const struct err *e)
{
	struct reread *x = arg;
	struct fault f;

	if (e) {
		fault_of_db(&f, e);
		req_fault(x->req, &f);
	} else if (pg_rows(res) == 0) {
		fault_set(&f, "not_found", "request",
			  "operations are kept for 7 days", "no operation %s",
			  x->op);
		req_fault(x->req, &f);
	} else {
		answer(x->req, x->how, x->op, pg_text(res, 0, 0),
		       pg_text(res, 0, 1), pg_text(res, 0, 2));
	}
	req_unref(x->req);
	free(x);
}

/* Takes the reference over. */
static void answer_as_read(struct req *r, enum answer how, const char *op)
{
	struct reread *x = xnew(struct reread);
	const char *params[] = { r->who.tenant, r->who.project, x->op };
	struct err e = { 0 };
	struct fault f;

	x->req = r;
	x->how = how;
	snprintf(x->op, sizeof(x->op), "%s", op);
	if (pg_query(r->api->db, &st_get, params, 5000, on_reread, x, &e) == 0)
		return;
	fault_of_db(&f, &e);
	req_fault(r, &f);
	req_unref(r);
	free(x);
}

static void on_time_over(struct loop_timer *t)
{
	struct waiter *w = container_of(t, struct waiter, timer);
	enum answer how = w->how;
	char op[32];

	memcpy(op, w->op, sizeof(op));
	answer_as_read(waiter_take(w), how, op);
}

void wait_answer(struct req *r, enum answer how, int64_t wait_s, const char *op,
		 const char *state, const char *operation, const char *sandbox)
{
	struct api *a = r->api;
	struct waiters *ws;
	struct waiter *w;

	if (wait_s == 0 || wait_is_final(state)) {
		answer(r, how, op, state, operation, sandbox);
		return;
	}
	ws = map_get(a->waits, op);
	if (!ws) {
		ws = xnew(struct waiters);
		list_init(&ws->list);
		map_set(a->waits, op, ws);
	}
	w = xnew(struct waiter);
	w->req = req_ref(r);
	w->how = how;
	snprintf(w->op, sizeof(w->op), "%s", op);
	list_add_tail(&ws->list, &w->link);
	a->n_waits++;
	loop_timer_set(a->loop, &w->timer, (uint64_t)wait_s * 1000,
		       on_time_over);
	sweep_later(a);
}

void wait_wake(struct api *a, const char *op, const char *state,
	       const char *operation, const char *sandbox)
{
	struct waiters *ws = map_get(a->waits, op);
	struct waiter *w, *next;
	char id[32]; /* op may lie in the map */

	if (!ws)
		return;
	snprintf(id, sizeof(id), "%s", op);
	map_del(a->waits, id);
	list_for_each_safe (w, next, &ws->list, link) {
		enum answer how = w->how;
		struct req *r = w->req;

		list_del(&w->link);
		loop_timer_del(&w->timer);
		free(w);
		a->n_waits--;
		if (operation) {
			answer(r, how, id, state, operation, sandbox);
			req_unref(r);
		} else {
			answer_as_read(r, how, id);
		}
	}
	free(ws);
}

/* ---- the sweep ---- */

static struct pg_stmt st_finished = {
	"operations_finished", "SELECT id FROM caisson.operations_finished($1)",
	1, 0
};

static void on_swept(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct api *a = arg;

	a->sweeping = false;
	if (a->stopping)
		return;
	for (int i = 0; !e && i < pg_rows(res); i++)
		wait_wake(a, pg_text(res, i, 0), "", NULL, NULL);
	sweep_later(a);
}

static void on_sweep(struct loop_timer *t)
{
	struct api *a = container_of(t, struct api, sweep_timer);
	struct buf ids;
	const char *op, *params[1];
	void *v;
	size_t pos = 0;

	buf_init(&ids, 0);
	buf_puts(&ids, "{");
	while (map_next(a->waits, &pos, &op, &v))
		buf_printf(&ids, "%s%s", buf_len(&ids) > 1 ? "," : "", op);
	buf_puts(&ids, "}");
	params[0] = buf_cstr(&ids);
	a->sweeping = true;
	if (pg_query(a->db, &st_finished, params, 2000, on_swept, a, NULL) <
	    0) {
		a->sweeping = false;
		sweep_later(a);
	}
	buf_fini(&ids);
}

static void sweep_later(struct api *a)
{
	if (a->n_waits && !a->sweeping && !a->sweep_timer.loop)
		loop_timer_set(a->loop, &a->sweep_timer, SWEEP_MS, on_sweep);
}

void wait_fini(struct api *a)
{
	struct waiter *w, *next;
	const char *op;
	void *v;
	size_t pos = 0;
	struct fault f;

	fault_set(&f, "node_unavailable", "node", "repeat the call",
		  "the server stops");
	while (map_next(a->waits, &pos, &op, &v)) {
		struct waiters *ws = v;

		list_for_each_safe (w, next, &ws->list, link) {
			list_del(&w->link);
			loop_timer_del(&w->timer);
			req_fault(w->req, &f);
			req_unref(w->req);
			free(w);
		}
		free(ws);
	}
	loop_timer_del(&a->sweep_timer);
	a->n_waits = 0;
}
