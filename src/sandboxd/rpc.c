/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/rpc.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/http.h"
#include "net/json.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/rpc-int.h"
#include "sandboxd/stats.h"

#define BODY_MAX	 65536u
#define WAIT_MAX_S	 30
#define METRICS_MAX	 1048576u
#define END_ANSWER_EARLY 20u /* ms before the asker gives up */

struct rpc {
	struct node *node;
	struct http_server *server;
};

/* What a route gets: the id in its path and the whole body. */
struct route {
	const char *method, *before, *after; /* path: before ID after */
	void (*run)(struct req *q, const void *body, size_t n);
};

/* ---- waiting ---- */

static void stop_waiting(struct req *q)
{
	if (q->w.link.next)
		list_del(&q->w.link);
	if (q->ew.link.next)
		list_del(&q->ew.link);
	loop_timer_del(&q->timer);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct req *q = http_stream_owner(s);

	(void)e;
	stop_waiting(q);
	free(q);
}

static void on_more_body(struct http_stream *s)
{
	(void)s;
}

static const struct http_handler handler = {
	.on_body = on_more_body,
	.on_close = on_close,
};

/* ?wait_s=0..30; anything else counts as 0. */
static uint64_t wait_ms(const struct req *q)
{
	owned_str v = http_query_get(http_stream_head(q->s)->path, "wait_s");
	int64_t s = 0;

	if (v && !text_int(v, 0, WAIT_MAX_S, &s))
		s = 0;
	return (uint64_t)s * 1000;
}

static const char *trace_of(const struct req *q, char ret[33])
{
	const char *h = http_head_get(http_stream_head(q->s), "traceparent");

	/* version - trace id - parent - flags */
	if (!h || strlen(h) < 36 || h[2] != '-' || h[35] != '-' ||
	    strspn(h + 3, "0123456789abcdef") != 32)
		return NULL;
	memcpy(ret, h + 3, 32);
	ret[32] = '\0';
	return ret;
}

static bool is_ours(struct req *q, const struct command *cmd)
{
	if (!q->node->ready) {
		reply_refuse(q, FAULT_NODE,
			     "the node takes stock after its start; repeat");
		return false;
	}
	if (strcmp(cmd->incarnation, q->node->incarnation) == 0)
		return true;
	reply_refuse(q, FAULT_INCARNATION,
		     "this is incarnation %s, the command is for %s",
		     q->node->incarnation, cmd->incarnation);
	return false;
}

/* ---- routes ---- */

static void run_node(struct req *q, const void *body, size_t n)
{
	(void)body;
	(void)n;
	reply_json(q, 200, json_node(q->node));
}

static void run_list(struct req *q, const void *body, size_t n)
{
	(void)body;
	(void)n;
	if (!q->node->ready)
		reply_refuse(q, FAULT_NODE,
			     "the node takes stock after its start; repeat");
	else
		reply_json(q, 200, json_sandboxes(q->node));
}

static void run_metrics(struct req *q, const void *body, size_t n)
{
	struct buf out;

	(void)body;
	(void)n;
	buf_init(&out, METRICS_MAX);
	if (stats_write(q->node, &out) < 0)
		reply_refuse(q, FAULT_INTERNAL, "too many metrics");
	else
		http_stream_reply(q->s, 200, "text/plain; version=0.0.4",
				  buf_data(&out), buf_len(&out));
	buf_fini(&out);
}

static void on_ensured(struct waiter *w, const struct fault *f)
{
	struct req *q = container_of(w, struct req, w);
	struct sandbox *s = f ? NULL : sandbox_get(q->node, q->id);

	if (s)
		reply_json(q, 200, json_running(s));
	else if (f)
		reply_fault(q, f);
	else
		reply_refuse(q, FAULT_STATE, "the sandbox is gone again");
}

static void run_ensure(struct req *q, const void *body, size_t n)
{
	struct command cmd;
	struct err e = { 0 };
	struct spec spec;
	char trace[33];

	if (!id_valid(q->id, "sb", 20))
		reply_refuse(q, FAULT_INVALID,
			     "sandbox id: expected sb and 20 of [a-z0-9]");
	else if (spec_parse_ensure(body, n, &cmd, &spec, &e) < 0)
		reply_refuse(q, FAULT_INVALID, "%s", e.msg);
	else if (is_ours(q, &cmd)) {
		q->w.on_done = on_ensured;
		sandbox_ensure(q->node, q->id, &cmd, &spec, trace_of(q, trace),
			       &q->w);
	}
}

static void on_ended(struct waiter *w, const struct fault *f)
{
	struct req *q = container_of(w, struct req, w);
	const struct usage *u;
	json_t *o;

	loop_timer_del(&q->timer);
	if (f) {
		reply_fault(q, f);
		return;
	}
	u = sandbox_last_usage(q->node, q->id);
	o = json_object();
	json_set_take(o, "observed", json_string("ended"));
	if (u)
		json_set_take(o, "last_usage", json_usage(u));
	reply_json(q, 200, o);
}

/* It goes on; only this answer does not wait for it. */
static void on_end_late(struct loop_timer *t)
{
	struct req *q = container_of(t, struct req, timer);

	stop_waiting(q);
	reply_refuse(q, FAULT_TIMEOUT,
		     "the sandbox is still being taken down; repeat to join");
}

static void run_end(struct req *q, const void *body, size_t n)
{
	struct command cmd;
	struct err e = { 0 };
	char trace[33];
	uint64_t left;

	if (!id_valid(q->id, "sb", 20)) {
		reply_refuse(q, FAULT_INVALID,
			     "sandbox id: expected sb and 20 of [a-z0-9]");
		return;
	}
	if (spec_parse_end(body, n, &cmd, &e) < 0) {
		reply_refuse(q, FAULT_INVALID, "%s", e.msg);
		return;
	}
	if (!is_ours(q, &cmd))
		return;
	left = cmd.time_left_ms;
	if (left > UINT64_C(2) * END_ANSWER_EARLY)
		left -= END_ANSWER_EARLY;
	q->w.on_done = on_ended;
	loop_timer_set(q->node->loop, &q->timer, left, on_end_late);
	sandbox_end(q->node, q->id, &cmd, trace_of(q, trace), &q->w);
}

static void reply_events(struct req *q)
{
	reply_json(q, 200,
		   json_events(q->node, q->after,
			       events_known(&q->node->events, q->after)));
}

static void on_event(struct events_waiter *w)
{
	struct req *q = container_of(w, struct req, ew);

	loop_timer_del(&q->timer);
	reply_events(q);
}

static void on_events_late(struct loop_timer *t)
{
	struct req *q = container_of(t, struct req, timer);

	stop_waiting(q);
	reply_events(q);
}

/* ?after=SEQ&incarnation=I; is the place one of this incarnation? */
static bool take_after(struct req *q, bool *ret_is_ours)
{
	const char *path = http_stream_head(q->s)->path;
	owned_str after = http_query_get(path, "after");
	owned_str incarnation = http_query_get(path, "incarnation");
	int64_t v = 0;

	if (after && !text_int(after, 0, INT64_MAX, &v)) {
		reply_refuse(q, FAULT_INVALID, "after: expected a number");
		return false;
	}
	q->after = (uint64_t)v;
	*ret_is_ours =
	    !incarnation || strcmp(incarnation, q->node->incarnation) == 0;
	return true;
}

static void run_events(struct req *q, const void *body, size_t n)
{
	uint64_t wait = wait_ms(q);
	bool is_ours;

	(void)body;
	(void)n;
	if (!take_after(q, &is_ours))
		return;
	if (!is_ours) {
		reply_json(q, 200, json_events(q->node, q->after, false));
		return;
	}
	if (wait == 0 || !events_known(&q->node->events, q->after) ||
	    events_next(&q->node->events, q->after)) {
		reply_events(q);
		return;
	}
	loop_timer_set(q->node->loop, &q->timer, wait, on_events_late);
	events_wait(&q->node->events, &q->ew, on_event);
}

static void run_samples(struct req *q, const void *body, size_t n)
{
	bool is_ours;

	(void)body;
	(void)n;
	if (take_after(q, &is_ours))
		reply_json(
		    q, 200,
		    json_samples(
			q->node, q->after,
			is_ours && samples_known(&q->node->samples, q->after)));
}

static void run_prepare(struct req *q, const void *body, size_t n)
{
	struct command cmd;
	struct err e = { 0 };
	struct prepare *p;
	struct fault f;
	struct spec spec;
	char digest[72];
	json_t *o;

	if (spec_digest(q->id, digest) < 0) {
		reply_refuse(q, FAULT_INVALID,
			     "release: expected sha256: and 64 hex digits");
		return;
	}
	if (spec_parse_prepare(body, n, &cmd, &spec, &e) < 0) {
		reply_refuse(q, FAULT_INVALID, "%s", e.msg);
		return;
	}
	if (strcmp(digest, spec.release.digest) != 0) {
		reply_refuse(q, FAULT_INVALID,
			     "field \"release.digest\": differs from the path");
		return;
	}
	if (!is_ours(q, &cmd))
		return;
	if (!q->node->prepares) {
		reply_refuse(q, FAULT_UNSUPPORTED,
			     "the null engine has no checkpoints");
		return;
	}
	p = prepare_need(q->node->prepares, &spec, NULL, &f);
	if (!p) {
		reply_fault(q, &f);
		return;
	}
	o = json_prepare(p);
	reply_json(q, 202, o);
}

static void on_prepare_over(struct waiter *w, const struct fault *f)
{
	struct req *q = container_of(w, struct req, w);
	struct prepare *p = prepare_get(q->node->prepares, q->id);

	(void)f;
	loop_timer_del(&q->timer);
	if (p)
		reply_json(q, 200, json_prepare(p));
	else
		reply_refuse(q, FAULT_NOT_FOUND, "no prepare %s", q->id);
}

static void on_prepare_late(struct loop_timer *t)
{
	struct req *q = container_of(t, struct req, timer);

	stop_waiting(q);
	on_prepare_over(&q->w, NULL);
}

static void run_prepare_get(struct req *q, const void *body, size_t n)
{
	struct prepares *ps = q->node->prepares;
	struct prepare *p = ps ? prepare_get(ps, q->id) : NULL;
	uint64_t wait = wait_ms(q);

	(void)body;
	(void)n;
	if (!p) {
		reply_refuse(q, FAULT_NOT_FOUND, "no prepare %s", q->id);
		return;
	}
	if (wait == 0) {
		reply_json(q, 200, json_prepare(p));
		return;
	}
	q->w.on_done = on_prepare_over;
	loop_timer_set(q->node->loop, &q->timer, wait, on_prepare_late);
	prepare_wait(p, &q->w);
}

static const struct route routes[] = {
	{ "GET", "/v1/node", NULL, run_node },
	{ "GET", "/v1/sandboxes", NULL, run_list },
	{ "GET", "/v1/events", NULL, run_events },
	{ "GET", "/v1/samples", NULL, run_samples },
	{ "GET", "/v1/metrics", NULL, run_metrics },
	{ "POST", "/v1/sandboxes/", "/ensure", run_ensure },
	{ "POST", "/v1/sandboxes/", "/end", run_end },
	{ "POST", "/v1/releases/", "/prepare", run_prepare },
	{ "GET", "/v1/prepares/", "", run_prepare_get },
};

/* Does the path (without query) match, and with which id? */
static bool match(const struct route *r, const char *path, size_t n, char *id,
		  size_t id_max)
{
	size_t before = strlen(r->before);
	size_t after = r->after ? strlen(r->after) : 0;
	size_t id_n;

	if (n < before + after || memcmp(path, r->before, before) != 0)
		return false;
	if (!r->after)
		return n == before;
	if (memcmp(path + n - after, r->after, after) != 0)
		return false;
	id_n = n - before - after;
	if (id_n == 0 || id_n >= id_max ||
	    memchr(path + before, '/', id_n) != NULL)
		return false;
	memcpy(id, path + before, id_n);
	id[id_n] = '\0';
	return true;
}

static void dispatch(struct req *q, const void *body, size_t n)
{
	const struct http_head *h = http_stream_head(q->s);
	size_t path_n = strcspn(h->path, "?");

	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (strcmp(routes[i].method, h->method) == 0 &&
		    match(&routes[i], h->path, path_n, q->id, sizeof(q->id))) {
			routes[i].run(q, body, n);
			return;
		}
	reply_refuse(q, FAULT_NOT_FOUND, "no such call");
}

static void on_body(struct http_stream *s, void *owner, const void *body,
		    size_t n, const struct err *e)
{
	struct req *q = owner;

	if (e && e->kind != ERR_EXHAUSTED) {
		free(q); /* cut: there is nobody to answer */
		return;
	}
	http_stream_handle(s, &handler, q);
	if (e)
		reply_refuse(q, FAULT_INVALID, "the body is over %u bytes",
			     BODY_MAX);
	else
		dispatch(q, body, n);
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	struct rpc *r = http_conn_owner(c);
	struct req *q;

	if (!node_lets_peer_in(r->node, http_conn_fd(c))) {
		http_stream_reset(s);
		return;
	}
	q = xnew(struct req);
	q->node = r->node;
	q->s = s;
	http_stream_collect(s, BODY_MAX, on_body, q);
}

static const struct http_conn_ops conn_ops = { .on_request = on_request };

struct rpc *rpc_new_take(struct node *n, int listen_fd)
{
	static const struct http_limits limits = { .streams = 1024,
						   .conns = 256 };
	struct rpc *r = xnew(struct rpc);

	r->node = n;
	r->server = http_server_new_take(n->loop, listen_fd, HTTP_2, &limits,
					 &conn_ops, r);
	return r;
}

struct rpc *rpc_free(struct rpc *r)
{
	if (!r)
		return NULL;
	http_server_free(r->server);
	free(r);
	return NULL;
}
