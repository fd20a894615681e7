/* SPDX-License-Identifier: Apache-2.0 */
#include "api/h-audit-queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define FLUSH_MS 1000u
#define QUERY_MS 10000u

struct attempt {
	json_t *row;
	char from[REQ_PEER];
	uint64_t times;
};

struct audit_queue {
	struct api *api;
	struct map *attempts; /* what is the same -> struct attempt */
	struct map *writing;  /* those of the query under way, or NULL */
	uint64_t dropped;
	struct loop_timer timer;
};

static struct pg_stmt st_refused = { "audit_refused",
				     "SELECT caisson.audit_refused($1::jsonb)",
				     1, 0 };

static void on_flush(struct loop_timer *t);

static struct map *drop_all(struct map *m)
{
	const char *key;
	size_t pos = 0;
	void *v;

	while (m && map_next(m, &pos, &key, &v)) {
		struct attempt *x = v;

		json_decref(x->row);
		free(x);
	}
	return m ? map_free(m) : NULL;
}

static void flush_in(struct audit_queue *q, uint64_t ms)
{
	if (!q->timer.loop && !q->api->stopping)
		loop_timer_set(q->api->loop, &q->timer, ms, on_flush);
}

/* What could not be written comes back, as far as there is room. */
static void take_back(struct audit_queue *q)
{
	const char *key;
	size_t pos = 0;
	void *v;

	while (map_next(q->writing, &pos, &key, &v)) {
		struct attempt *x = v, *same = map_get(q->attempts, key);

		if (same) {
			same->times += x->times;
		} else if (map_len(q->attempts) < AUDIT_QUEUE_MAX) {
			map_set(q->attempts, key, x);
			continue;
		} else {
			q->dropped += x->times;
		}
		json_decref(x->row);
		free(x);
	}
	q->writing = map_free(q->writing);
}

static void on_written(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	struct audit_queue *q = arg;

	(void)res;
	if (e) {
		log_error("audit", "waiting=%zu why=%s", map_len(q->writing),
			  e->msg);
		take_back(q);
	} else {
		q->writing = drop_all(q->writing);
	}
	if (map_len(q->attempts) || q->dropped)
		flush_in(q, FLUSH_MS);
}

static json_t *rows_of(struct map *m)
{
	json_t *rows = json_array();
	const char *key;
	size_t pos = 0;
	void *v;

	while (map_next(m, &pos, &key, &v)) {
		struct attempt *x = v;
		owned_str detail =
		    xasprintf("from=%s times=%" PRIu64, x->from, x->times);

		json_set_take(x->row, "detail",
			      json_str_lossy(detail, strlen(detail)));
		json_array_append(rows, x->row);
	}
	return rows;
}

static json_t *row_of_dropped(uint64_t n)
{
	owned_str detail = xasprintf("times=%" PRIu64, n);
	json_t *row = json_object();

	json_set_take(row, "actor", json_string("caisson-api"));
	json_set_take(row, "action", json_string("audit.dropped"));
	json_set_take(row, "code", json_string("capacity"));
	json_set_take(row, "detail", json_string(detail));
	return row;
}

static void on_flush(struct loop_timer *t)
{
	struct audit_queue *q = container_of(t, struct audit_queue, timer);
	owned_json rows = NULL;
	owned_str text = NULL;

	if (q->writing || q->api->stopping)
		return; /* on_written() goes on */
	rows = rows_of(q->attempts);
	if (q->dropped)
		json_array_append_new(rows, row_of_dropped(q->dropped));
	text = json_text(rows);
	q->writing = q->attempts;
	q->attempts = map_new();
	q->dropped = 0;
	if (pg_query(q->api->db, &st_refused, (const char *[]){ text },
		     QUERY_MS, on_written, q, NULL) < 0) {
		take_back(q);
		flush_in(q, FLUSH_MS);
	}
}

struct audit_queue *audit_queue_new(struct api *a)
{
	struct audit_queue *q = xnew(struct audit_queue);

	q->api = a;
	q->attempts = map_new();
	return q;
}

struct audit_queue *audit_queue_free(struct audit_queue *q)
{
	if (!q)
		return NULL;
	loop_timer_del(&q->timer);
	drop_all(q->attempts);
	drop_all(q->writing);
	free(q);
	return NULL;
}

/* ---- what is recorded ---- */

static bool says_something(const struct req *r, const struct fault *f)
{
	switch (fault_status(f->code)) {
	case 401:
	case 403:
		return true;
	case 404:
		return r->route && r->params.n > 0;
	default:
		return strcmp(f->code, "quota_reached") == 0;
	}
}

static char *target_of(const struct req *r)
{
	struct buf b;
	char *text;

	buf_init(&b, 0);
	for (size_t i = 0; i < r->params.n; i++)
		buf_printf(&b, "%s%s", i ? "/" : "", r->params.value[i]);
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}

static void set_text(json_t *row, const char *name, const char *s)
{
	if (*s)
		json_set_take(row, name, json_str_lossy(s, strlen(s)));
}

static json_t *row_of(const struct req *r, const struct fault *f,
		      const char *action, const char *target)
{
	json_t *row = json_object();
	char time[25];

	text_rfc3339(now_unix_ms(), time);
	set_text(row, "time", time);
	set_text(row, "tenant", r->who.tenant);
	set_text(row, "project", r->who.project);
	set_text(row, "actor", *r->who.key ? r->who.key : "nobody");
	set_text(row, "actor_name", r->who.name);
	set_text(row, "action", action);
	set_text(row, "target", target);
	set_text(row, "request", r->id);
	set_text(row, "trace", r->trace);
	set_text(row, "code", f->code);
	return row;
}

void audit_refused(struct req *r, const struct fault *f)
{
	struct audit_queue *q = r->api->audit;
	owned_str action = NULL;
	owned_str target = NULL;
	owned_str same = NULL;
	struct attempt *x;
	char from[REQ_PEER];

	if (!q || !r->stream || !says_something(r, f))
		return;
	req_peer(r, from);
	action = xasprintf("%s %s", http_stream_head(r->stream)->method,
			   r->route ? r->route->path : "-");
	target = target_of(r);
	same = xasprintf("%s\n%s\n%s\n%s\n%s", r->who.key, from, f->code,
			 action, target);
	x = map_get(q->attempts, same);
	if (x) {
		x->times++;
		return;
	}
	if (map_len(q->attempts) >= AUDIT_QUEUE_MAX) {
		q->dropped++;
		return;
	}
	x = xnew(struct attempt);
	x->row = row_of(r, f, action, target);
	x->times = 1;
	snprintf(x->from, sizeof(x->from), "%s", from);
	map_set(q->attempts, same, x);
	flush_in(q, FLUSH_MS);
}
