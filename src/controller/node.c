/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One node as the controller sees it: heartbeat every 2 s (its answer becomes
 * the row and prolongs the lease), and, while this controller owns the node,
 * its events by long poll and its list when events cannot tell all.
 */

#include "controller/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/channel.h"
#include "base/log.h"
#include "base/own.h"
#include "controller/samples.h"
#include "net/json.h"

#define HEARTBEAT_MS  2000u
#define HEARTBEAT_TMO 5000u
#define NODE_LEASE_S  "10"
#define OWN_LEASE_S   "6" /* three heartbeats */
#define EVENTS_WAIT_S 25
#define EVENTS_TMO_MS 35000u
#define EVENTS_MAX    1024u
#define RETRY_MS      500u
#define COMPARE_MS    30000u
#define QUERY_MS      10000u
#define ANSWER_MAX    (4u << 20)
#define NAME_MAX_     64
#define INC_MAX	      64

struct node {
	struct controller *c;
	struct list link;
	char *rpc, *data;
	char name[NAME_MAX_], incarnation[INC_MAX];
	struct http_conn *conn;
	struct loop_timer heartbeat, events, compare;
	struct samples *samples;
	bool watched, ours, following, comparing, known_down;
	int64_t after;	  /* events worked off */
	int64_t next;	  /* of the page in hand */
	bool resync;	  /* the page in hand says so */
	unsigned pending; /* queries of the page in hand */
	bool failed;	  /* one of them did not take effect */
};

static struct pg_stmt heartbeat_stmt = {
	.name = "node_heartbeat",
	.sql = "SELECT caisson.node_heartbeat($1, $2, $3, $4)",
	.n_params = 4,
};
static struct pg_stmt own_stmt = {
	.name = "node_own",
	.sql = "SELECT * FROM caisson.node_own($1, $2, $3)",
	.n_params = 3,
};
static struct pg_stmt gone_stmt = {
	.name = "sandbox_gone",
	/* first what it used, which its end then keeps */
	.sql = "SELECT caisson.sandbox_gone($1, $2, 'ended', $3, $4) FROM "
	       "caisson.sample_last($1, $2, $5::jsonb)",
	.n_params = 5,
};
static struct pg_stmt done_stmt = {
	.name = "node_events_done",
	.sql = "SELECT caisson.node_events_done($1, $2, $3)",
	.n_params = 3,
};

static void on_heartbeat(struct loop_timer *t);
static void on_events(struct loop_timer *t);
static void on_compare(struct loop_timer *t);

/* ---- connection ---- */

static void on_conn_close(struct http_conn *conn, const struct err *e)
{
	struct node *n = http_conn_owner(conn);

	(void)e;
	n->conn = NULL;
}

static const struct http_conn_ops conn_ops = { .on_close = on_conn_close };

static int node_connect(struct node *n, struct err *e)
{
	const struct http_limits lim = { .idle_timeout_ms = UINT64_MAX,
					 .ping = true };
	int fd;

	if (n->conn)
		return 0;
	fd = unix_connect(n->rpc, SOCK_STREAM, e);
	if (fd < 0)
		return fd;
	n->conn =
	    http_conn_client_take(n->c->loop, fd, HTTP_2, &lim, &conn_ops, n);
	return 0;
}

int node_call(struct node *n, const char *method, const char *path,
	      const char *body, uint64_t timeout_ms,
	      void (*done)(void *arg, int status, const char *body, size_t n,
			   const struct err *e),
	      void *arg, struct err *e)
{
	int r;

	if (n->c->stopping)
		return err_set(e, -ECANCELED, ERR_UNAVAILABLE, "stopping");
	r = node_connect(n, e);
	if (r < 0)
		return r;
	return http_call(n->conn, method, path, body, ANSWER_MAX, timeout_ms,
			 done, arg, e);
}

const char *node_incarnation(const struct node *n)
{
	return n->incarnation;
}

const char *node_name(const struct node *n)
{
	return n->name;
}

bool node_is_ours(const struct node *n)
{
	return n->ours && *n->incarnation;
}

/* ---- events ---- */

static void follow(struct node *n, uint64_t delay_ms)
{
	n->following = true;
	loop_timer_set(n->c->loop, &n->events, delay_ms, on_events);
}

static void on_events_noted(void *arg, const struct pg_result *res,
			    const struct err *e)
{
	struct node *n = arg;

	(void)res;
	/* not noted: they are read again, which changes nothing */
	if (!e)
		n->after = n->next;
	follow(n, e ? RETRY_MS : 0);
}

/* All effects of a page are committed: never see it again. */
static void page_done(struct node *n)
{
	char next[24];
	const char *params[] = { n->name, n->incarnation, next };

	if (n->resync)
		loop_timer_set(n->c->loop, &n->compare, 0, on_compare);
	if (n->failed) {
		follow(n, RETRY_MS);
		return;
	}
	if (n->next == n->after) {
		follow(n, 0);
		return;
	}
	snprintf(next, sizeof(next), "%" PRId64, n->next);
	if (pg_query(n->c->pool, &done_stmt, params, QUERY_MS, on_events_noted,
		     n, NULL) < 0)
		follow(n, RETRY_MS);
}

static void on_gone(void *arg, const struct pg_result *res, const struct err *e)
{
	struct node *n = arg;

	if (e) {
		n->failed = true;
		log_warn("event", "node=%s why=%s", n->name, e->msg);
	} else if (pg_bool(res, 0, 0)) {
		log_info("sandbox_gone", "node=%s", n->name);
	}
	if (--n->pending == 0)
		page_done(n);
}

static void one_event(struct node *n, json_t *item)
{
	const char *type = json_string_value(json_object_get(item, "type"));
	const char *id = json_string_value(json_object_get(item, "sandbox"));
	const char *reason = json_string_value(json_object_get(item, "reason"));
	const char *detail = json_string_value(json_object_get(item, "detail"));
	json_t *usage = json_object_get(item, "last_usage");
	owned_str used = json_is_object(usage) ? json_text(usage) : NULL;
	const char *params[] = { n->name, id, reason ? reason : "vmm_error",
				 detail ? detail : "", used };

	if (!type || !id || strcmp(type, "sandbox.gone") != 0)
		return; /* of a newer node; not ours to know */
	n->pending++;
	if (pg_query(n->c->pool, &gone_stmt, params, QUERY_MS, on_gone, n,
		     NULL) < 0) {
		n->pending--;
		n->failed = true;
	}
}

static void read_page(struct node *n, json_t *page)
{
	const char *inc =
	    json_string_value(json_object_get(page, "incarnation"));
	json_t *next = json_object_get(page, "next");
	json_t *items = json_object_get(page, "items"), *item;
	size_t i;

	n->failed = false;
	n->resync = json_is_true(json_object_get(page, "resync"));
	if (!inc || strcmp(inc, n->incarnation) != 0) {
		/* the heartbeat will say who it is now */
		follow(n, RETRY_MS);
		return;
	}
	n->next = json_is_integer(next) ? json_integer_value(next) : n->after;
	/* held, so that no answer finishes the page before its last item */
	n->pending = 1;
	json_array_foreach(items, i, item) one_event(n, item);
	if (--n->pending == 0)
		page_done(n);
}

static void on_page(void *arg, int status, const char *body, size_t size,
		    const struct err *e)
{
	struct node *n = arg;
	owned_json page = NULL;

	n->following = false;
	if (!n->ours)
		return;
	if (e || status != 200 || json_parse(body, size, &page, NULL) < 0) {
		follow(n, RETRY_MS);
		return;
	}
	n->following = true;
	read_page(n, page);
}

static void on_events(struct loop_timer *t)
{
	struct node *n = container_of(t, struct node, events);
	char path[80];

	n->following = n->ours;
	if (!n->ours)
		return;
	snprintf(path, sizeof(path), "/v1/events?after=%" PRId64 "&wait_s=%d",
		 n->after, EVENTS_WAIT_S);
	if (node_call(n, "GET", path, NULL, EVENTS_TMO_MS, on_page, n, NULL) <
	    0)
		follow(n, RETRY_MS);
}

/* ---- list ---- */

static void on_compared(void *arg, bool ok)
{
	struct node *n = arg;

	n->comparing = false;
	loop_timer_set(n->c->loop, &n->compare, ok ? COMPARE_MS : RETRY_MS,
		       on_compare);
}

static void on_compare(struct loop_timer *t)
{
	struct node *n = container_of(t, struct node, compare);

	if (!n->ours || n->comparing)
		return;
	n->comparing = true;
	compare_start(n->c, n, n->name, on_compared, n);
}

/* ---- heartbeat ---- */

static void beat_again(struct node *n)
{
	loop_timer_set(n->c->loop, &n->heartbeat, HEARTBEAT_MS, on_heartbeat);
}

static void on_owned(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct node *n = arg;
	bool was = n->ours;

	/* without the database nothing is ours to write anyway */
	n->ours = !e && pg_rows(res) > 0 && pg_bool(res, 0, 0);
	if (n->ours && !was) {
		log_info("node_owned", "node=%s incarnation=%s", n->name,
			 n->incarnation);
		n->after = pg_int(res, 0, 1, 0);
		loop_timer_set(n->c->loop, &n->compare, 0, on_compare);
	}
	if (n->ours && !n->following)
		follow(n, 0);
	beat_again(n);
}

static void on_beat_noted(void *arg, const struct pg_result *res,
			  const struct err *e)
{
	struct node *n = arg;
	const char *params[] = { n->name, n->c->owner, OWN_LEASE_S };

	if (e) {
		log_warn("heartbeat", "node=%s why=%s", n->name, e->msg);
		beat_again(n);
		return;
	}
	if (pg_bool(res, 0, 0)) {
		log_info("node_new_incarnation", "node=%s incarnation=%s",
			 n->name, n->incarnation);
		n->ours = false; /* own it anew: events begin at 0 */
	}
	if (pg_query(n->c->pool, &own_stmt, params, QUERY_MS, on_owned, n,
		     NULL) < 0)
		beat_again(n);
}

static bool copy_word(char *to, size_t n, json_t *v)
{
	const char *s = json_string_value(v);

	if (!s || !*s || strlen(s) >= n)
		return false;
	snprintf(to, n, "%s", s);
	return true;
}

static void down(struct node *n, const char *why)
{
	if (!n->known_down)
		log_warn("node_silent", "rpc=%s why=%s", n->rpc, why);
	n->known_down = true;
	beat_again(n);
}

static void on_beat(void *arg, int status, const char *body, size_t size,
		    const struct err *e)
{
	struct node *n = arg;
	owned_json v = NULL;
	owned_str text = NULL;
	char inc[INC_MAX] = "";

	if (e || status != 200) {
		down(n, e ? e->msg : "it answers with an error");
		return;
	}
	if (json_parse(body, size, &v, NULL) < 0 ||
	    !copy_word(n->name, sizeof(n->name), json_object_get(v, "name")) ||
	    !copy_word(inc, sizeof(inc), json_object_get(v, "incarnation"))) {
		down(n, "its answer is not understood");
		return;
	}
	if (strcmp(inc, n->incarnation) != 0) {
		snprintf(n->incarnation, sizeof(n->incarnation), "%s", inc);
		n->ours = false;
	}
	n->known_down = false;
	text = xstrndup(body, size);
	{
		const char *params[] = { n->rpc, n->data, text, NODE_LEASE_S };

		if (pg_query(n->c->pool, &heartbeat_stmt, params, QUERY_MS,
			     on_beat_noted, n, NULL) < 0)
			beat_again(n);
	}
}

static void on_heartbeat(struct loop_timer *t)
{
	struct node *n = container_of(t, struct node, heartbeat);
	struct err e = { 0 };

	if (node_call(n, "GET", "/v1/node", NULL, HEARTBEAT_TMO, on_beat, n,
		      &e) < 0)
		down(n, e.msg);
}

/* ---- life ---- */

/* RUN/sandboxd.sock -> RUN/sandboxd-data.sock */
static char *data_path(const char *rpc)
{
	size_t n = strlen(rpc);

	if (n > 5 && !strcmp(rpc + n - 5, ".sock"))
		return xasprintf("%.*s-data.sock", (int)(n - 5), rpc);
	return xasprintf("%s-data", rpc);
}

struct node *node_get(struct controller *c, const char *rpc, bool watched)
{
	struct node *n;

	list_for_each (n, &c->nodes, link) {
		if (!strcmp(n->rpc, rpc))
			return n;
	}
	n = xnew(struct node);
	n->c = c;
	n->rpc = xstrdup(rpc);
	n->data = data_path(rpc);
	n->watched = watched;
	list_add_tail(&c->nodes, &n->link);
	if (watched) {
		loop_timer_set(c->loop, &n->heartbeat, 0, on_heartbeat);
		n->samples = samples_new(c, n);
	}
	return n;
}

void nodes_cut(struct controller *c)
{
	struct node *n;

	list_for_each (n, &c->nodes, link)
		n->conn = n->conn ? http_conn_free(n->conn) : NULL;
}

void nodes_free(struct controller *c)
{
	struct node *n, *tmp;

	list_for_each_safe (n, tmp, &c->nodes, link) {
		loop_timer_del(&n->heartbeat);
		loop_timer_del(&n->events);
		loop_timer_del(&n->compare);
		samples_free(n->samples);
		list_del(&n->link);
		free(n->rpc);
		free(n->data);
		free(n);
	}
}
