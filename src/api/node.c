/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/api.h"
#include "base/channel.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "net/json.h"

#define REFRESH_MS 1000u
/* While no node answers: whoever waits for the first one waits for this. */
#define SEEK_MS	     100u
#define ANSWER_MAX   262144u
#define NODE_CALL_MS 5000u

struct node {
	struct nodes *nodes;
	struct list calls;
	char name[NODE_NAME_MAX];
	char rpc[128], data[128];
	char incarnation[40];
	char engine[32], isolation[16], reason[128];
	bool up, asking;
	int64_t slots, sandboxes, memory_mib, used_memory_mib;
	uint64_t seen_ms; /* 0 = never answered */
	struct http_conn *conn;
};

struct nodes {
	struct api *api;
	struct map *by_name;
	struct loop_timer timer;
	bool reading;
	uint64_t read_ms; /* last success */
};

struct call {
	struct list link; /* in node->calls */
	struct node *node;
	struct http_stream *stream; /* NULL once closed or never made */
	struct buf body;
	struct loop_timer timer;
	struct loop_defer defer;
	struct err e; /* with code: how it failed */
	bool sent;
	node_done *done;
	void *arg;
};

/* ---- calls ---- */

static void call_finish(struct call *c, int status, const struct err *e)
{
	size_t n = buf_len(&c->body);
	const char *text = buf_cstr(&c->body);

	list_del(&c->link);
	loop_timer_del(&c->timer);
	loop_defer_del(&c->defer);
	c->done(c->arg, e ? 0 : status, text ? text : "", text ? n : 0, e,
		c->sent);
	buf_fini(&c->body);
	free(c);
}

static void on_call_body(struct http_stream *s)
{
	struct call *c = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (n && buf_put(&c->body, p, n) < 0) {
		err_set(&c->e, -EMSGSIZE, ERR_UNAVAILABLE,
			"node %s answers with more than %u bytes",
			c->node->name, ANSWER_MAX);
		http_stream_reset(s);
		return;
	}
	http_stream_consume(s, n);
}

static void on_call_close(struct http_stream *s, const struct err *e)
{
	struct call *c = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);
	int status = h ? h->status : 0;

	c->stream = NULL;
	if (c->e.code)
		e = &c->e;
	else if (!e && !status)
		e = (err_set(&c->e, -EPROTO, ERR_UNAVAILABLE,
			     "node %s closed without an answer", c->node->name),
		     &c->e);
	call_finish(c, status, e);
}

static void on_call_late(struct loop_timer *t)
{
	struct call *c = container_of(t, struct call, timer);

	err_set(&c->e, -ETIMEDOUT, ERR_TIMEOUT,
		"node %s did not answer in time", c->node->name);
	if (c->stream)
		http_stream_reset(c->stream);
}

static void on_never_sent(struct loop_defer *d)
{
	struct call *c = container_of(d, struct call, defer);

	call_finish(c, 0, &c->e);
}

static void on_conn_close(struct http_conn *conn, const struct err *e)
{
	struct node *n = http_conn_owner(conn);

	(void)e;
	if (n->conn == conn)
		n->conn = NULL;
}

static const struct http_conn_ops conn_ops = { .on_close = on_conn_close };

static int node_connect(struct node *n, struct err *e)
{
	static const struct http_limits lim = { .idle_timeout_ms = UINT64_MAX,
						.ping = true };
	int fd;

	if (n->conn)
		return 0;
	fd = unix_connect(n->rpc, SOCK_STREAM, e);
	if (fd < 0)
		return fd;
	n->conn = http_conn_client_take(n->nodes->api->loop, fd, HTTP_2, &lim,
					&conn_ops, n);
	return 0;
}

static void call_send(struct call *c, const char *method, const char *path,
		      const char *body, const char *traceparent)
{
	static const struct http_handler handler = { .on_body = on_call_body,
						     .on_close =
							 on_call_close };
	struct http_head head;
	char length[24];

	if (node_connect(c->node, &c->e) < 0)
		return;
	http_head_init(&head);
	head.method = xstrdup(method);
	head.path = xstrdup(path);
	head.authority = xstrdup("node");
	if (traceparent && *traceparent)
		http_head_add(&head, "traceparent", traceparent);
	if (body) {
		snprintf(length, sizeof(length), "%zu", strlen(body));
		http_head_add(&head, "content-type", "application/json");
		http_head_add(&head, "content-length", length);
	}
	c->stream = http_conn_request(c->node->conn, &head, body != NULL,
				      &handler, c, &c->e);
	http_head_fini(&head);
	if (!c->stream)
		return;
	c->sent = true;
	if (!body)
		return;
	/* bodies of ours are far below HTTP_OUT_MAX, except for huge
	 * environments, which do not go here */
	CHECK(http_stream_write(c->stream, body, strlen(body)) == strlen(body));
	http_stream_end(c->stream);
}

void node_call(struct node *n, const char *method, const char *path,
	       const char *body, uint64_t timeout_ms, const char *traceparent,
	       node_done *done, void *arg)
{
	struct call *c = xnew(struct call);
	struct loop *l = n->nodes->api->loop;

	c->node = n;
	c->done = done;
	c->arg = arg;
	buf_init(&c->body, ANSWER_MAX);
	list_add_tail(&n->calls, &c->link);
	call_send(c, method, path, body, traceparent);
	if (c->stream) {
		loop_timer_set(l, &c->timer, timeout_ms, on_call_late);
		return;
	}
	if (!c->e.code)
		err_set(&c->e, -ENOTCONN, ERR_UNAVAILABLE,
			"node %s: no connection", n->name);
	loop_defer_add(l, &c->defer, on_never_sent);
}

/* ---- counters ---- */

static int64_t number(const json_t *o, const char *a, const char *b)
{
	return json_integer_value(json_object_get(json_object_get(o, a), b));
}

static void words(char *ret, size_t max, const json_t *v)
{
	snprintf(ret, max, "%s",
		 json_string_value(v) ? json_string_value(v) : "");
}

static void on_counters(void *arg, int status, const char *body, size_t n_body,
			const struct err *e, bool sent)
{
	struct node *n = arg;
	owned_json v = NULL;
	const json_t *engine;

	(void)sent;
	n->asking = false;
	if (e || status != 200 || json_parse(body, n_body, &v, NULL) < 0) {
		log_debug("node_silent", "node=%s status=%d error=%s", n->name,
			  status, e ? e->msg : "-");
		return;
	}
	engine = json_object_get(v, "engine");
	words(n->incarnation, sizeof(n->incarnation),
	      json_object_get(v, "incarnation"));
	words(n->engine, sizeof(n->engine), json_object_get(engine, "name"));
	words(n->isolation, sizeof(n->isolation),
	      json_object_get(engine, "isolation"));
	words(n->reason, sizeof(n->reason), json_object_get(engine, "reason"));
	n->slots = number(v, "capacity", "slots");
	n->memory_mib = number(v, "capacity", "memory_mib");
	n->sandboxes = number(v, "used", "sandboxes");
	n->used_memory_mib = number(v, "used", "memory_mib");
	/* a node that still adopts or removes what an earlier life left says
	 * ready:false and takes no sandbox */
	n->seen_ms = json_is_false(json_object_get(v, "ready"))
			 ? 0
			 : loop_now_ms(n->nodes->api->loop);
}

static void ask_counters(struct node *n)
{
	if (n->asking)
		return;
	n->asking = true;
	node_call(n, "GET", "/v1/node", NULL, NODE_CALL_MS, NULL, on_counters,
		  n);
}

/* ---- the list ---- */

static struct pg_stmt st_nodes = {
	"node_list", "SELECT name, rpc, data, state FROM caisson.node_list()",
	0, 0
};

static void node_update(struct nodes *s, const struct pg_result *res, int row)
{
	const char *name = pg_text(res, row, 0), *rpc = pg_text(res, row, 1);
	struct node *n = map_get(s->by_name, name);

	if (strlen(name) >= NODE_NAME_MAX || strlen(rpc) >= sizeof(n->rpc) ||
	    strlen(pg_text(res, row, 2)) >= sizeof(n->data))
		return;
	if (!n) {
		n = xnew(struct node);
		n->nodes = s;
		list_init(&n->calls);
		snprintf(n->name, sizeof(n->name), "%s", name);
		map_set(s->by_name, name, n);
	}
	if (strcmp(n->rpc, rpc) != 0 && n->conn)
		http_conn_free(TAKE(n->conn));
	snprintf(n->rpc, sizeof(n->rpc), "%s", rpc);
	snprintf(n->data, sizeof(n->data), "%s", pg_text(res, row, 2));
	n->up = strcmp(pg_text(res, row, 3), "up") == 0;
	ask_counters(n);
}

static void on_timer(struct loop_timer *t)
{
	nodes_refresh(container_of(t, struct nodes, timer));
}

static bool answers(const struct node *n)
{
	return n->up && n->seen_ms &&
	       loop_now_ms(n->nodes->api->loop) - n->seen_ms < NODE_FRESH_MS;
}

static uint64_t pause_ms(const struct nodes *s)
{
	const char *name;
	void *v;
	size_t pos = 0;

	while (map_next(s->by_name, &pos, &name, &v)) {
		if (answers(v))
			return REFRESH_MS;
	}
	return SEEK_MS;
}

static void on_list(void *arg, const struct pg_result *res, const struct err *e)
{
	struct nodes *s = arg;

	s->reading = false;
	if (s->api->stopping)
		return;
	if (!e)
		s->read_ms = loop_now_ms(s->api->loop);
	/* a node that left the list stays here, asked for nothing */
	for (int i = 0; !e && i < pg_rows(res); i++)
		node_update(s, res, i);
	loop_timer_set(s->api->loop, &s->timer, pause_ms(s), on_timer);
}

void nodes_refresh(struct nodes *s)
{
	if (s->reading || s->api->stopping)
		return;
	s->reading = true;
	if (pg_query(s->api->db, &st_nodes, NULL, 2000, on_list, s, NULL) < 0) {
		s->reading = false;
		loop_timer_set(s->api->loop, &s->timer, REFRESH_MS, on_timer);
	}
}

/* ---- public ---- */

struct nodes *nodes_new(struct api *a)
{
	struct nodes *s = xnew(struct nodes);

	s->api = a;
	s->by_name = map_new();
	return s;
}

static void node_free(struct node *n)
{
	struct call *c, *next;
	struct err e = { 0 };
	struct http_conn *conn = TAKE(n->conn);

	if (conn)
		http_conn_free(conn); /* its calls end here */
	err_set(&e, -ECANCELED, ERR_UNAVAILABLE, "the server stops");
	list_for_each_safe (c, next, &n->calls, link)
		call_finish(c, 0, &e);
	free(n);
}

struct nodes *nodes_free(struct nodes *s)
{
	const char *name;
	void *v;
	size_t pos = 0;

	if (!s)
		return NULL;
	loop_timer_del(&s->timer);
	while (map_next(s->by_name, &pos, &name, &v))
		node_free(v);
	map_free(s->by_name);
	free(s);
	return NULL;
}

struct node *node_get(struct nodes *s, const char *name)
{
	return name ? map_get(s->by_name, name) : NULL;
}

const char *node_name(const struct node *n)
{
	return n->name;
}

const char *node_incarnation(const struct node *n)
{
	return n->incarnation;
}

const char *node_data_path(const struct node *n)
{
	return n->data;
}

void node_count(struct node *n, int sandboxes)
{
	n->sandboxes += sandboxes;
	if (n->sandboxes < 0)
		n->sandboxes = 0;
}

static void nobody(struct nodes *s, const char *isolation, bool any, bool fits,
		   struct fault *f)
{
	if (!any)
		fault_set(f, "node_unavailable", "node",
			  "`caisson status` shows caisson-sandboxd and "
			  "caisson-controller, `caisson node ls` the nodes",
			  map_len(s->by_name) ? "no node answers now"
					      : "no node has registered yet");
	else if (!fits)
		fault_set(f, "isolation_unavailable", "node",
			  "leave isolation out, or add a node with /dev/kvm",
			  "no node offers isolation:\"%s\"", isolation);
	else
		fault_set(f, "capacity", "capacity",
			  "end a sandbox (`caisson ls`, `caisson end`), or "
			  "repeat later",
			  "every node is full");
}

struct node *node_pick(struct nodes *s, const char *isolation,
		       int64_t memory_mib, struct fault *f)
{
	struct node *best = NULL;
	bool any = false, fits = false;
	const char *name;
	void *v;
	size_t pos = 0;

	while (map_next(s->by_name, &pos, &name, &v)) {
		struct node *n = v;

		if (!answers(n))
			continue;
		any = true;
		if (isolation && strcmp(isolation, n->isolation) != 0 &&
		    strcmp(n->isolation, "hardware") != 0)
			continue;
		fits = true;
		if (n->sandboxes >= n->slots ||
		    (n->memory_mib && memory_mib > n->memory_mib))
			continue;
		if (!best ||
		    n->slots - n->sandboxes > best->slots - best->sandboxes)
			best = n;
	}
	if (!best)
		nobody(s, isolation, any, fits, f);
	return best;
}

char *nodes_engines(struct nodes *s)
{
	owned_json o = json_object();
	json_t *list = json_array();
	const char *name, *weakest = NULL;
	void *v;
	size_t pos = 0;

	json_set_take(o, "engines", list);
	while (map_next(s->by_name, &pos, &name, &v)) {
		struct node *n = v;
		json_t *e;

		if (!answers(n))
			continue;
		e = json_object();
		json_set_take(e, "node", json_string(n->name));
		json_set_take(e, "name", json_string(n->engine));
		json_set_take(e, "isolation", json_string(n->isolation));
		json_set_take(e, "reason", json_string(n->reason));
		json_array_append_new(list, e);
		if (!weakest || strcmp(n->isolation, "hardware") != 0)
			weakest = n->isolation;
	}
	json_set_take(o, "weakest_isolation",
		      weakest ? json_string(weakest) : json_null());
	return json_text(o);
}
