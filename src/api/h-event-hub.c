/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/h-event.h"
#include "base/log.h"
#include "base/own.h"

#define POLL_MS	 250u
#define NEWS_MAX "500"
#define NEWS_N	 500
#define QUERY_MS 5000u

struct event_hub {
	struct api *api;
	struct list followers;
	unsigned n;
	struct loop_timer timer;
	bool asking, placed;
	struct event_pos at; /* the log was handed out up to here */
	uint64_t rounds;     /* changes of `at`, and of `placed` */
};

struct follower {
	struct event_hub *hub;
	struct list link;
	struct req *req; /* a reference */
	struct event_filter filter;
	struct event_pos at; /* the last event that was put into `out` */
	bool from_start;     /* `at` says nothing yet */
	struct buf out;
	bool begun;  /* the answer's head is out */
	bool live;   /* takes what the hub reads */
	bool asking; /* a page of its own is under way */
	uint64_t asked_in_round;
	uint64_t wrote_ms;
	struct auth_watch watch;
	bool watched;
};

static struct pg_stmt st_news = {
	"events_news",
	"SELECT xid, seq, tenant, project, type, sandbox, cursor, item FROM "
	"caisson.events_news($1::xid8, $2, $3)",
	3, 0
};
static struct pg_stmt st_place = {
	"events_place",
	"SELECT xid, seq FROM caisson.events_newest(NULL, true)", 0, 0
};

enum {
	NEWS_XID,
	NEWS_SEQ,
	NEWS_TENANT,
	NEWS_PROJECT,
	NEWS_TYPE,
	NEWS_SANDBOX,
	NEWS_CURSOR,
	NEWS_ITEM,
};

static void on_tick(struct loop_timer *t);

static void tick_in(struct event_hub *h, uint64_t ms)
{
	if (!h->api->stopping && h->n > 0)
		loop_timer_set(h->api->loop, &h->timer, ms, on_tick);
}

/* ---- a follower's stream ---- */

static void follower_drop(struct req *r)
{
	struct follower *f = r->state;

	buf_fini(&f->out);
	free(f);
}

/* Off the hub; what is left of it lives as long as its request. */
static void leave(struct follower *f)
{
	if (f->watched)
		auth_watch_del(&f->watch);
	f->watched = false;
	if (!f->hub)
		return;
	list_del(&f->link);
	f->hub->n--;
	f->hub = NULL;
}

static void on_close(struct req *r)
{
	leave(r->state);
}

static void on_revoked(struct auth_watch *w)
{
	struct follower *f = container_of(w, struct follower, watch);
	struct req *r = f->req;

	f->watched = false;
	leave(f);
	if (r->stream)
		http_stream_reset(r->stream);
}

static void flush(struct follower *f)
{
	struct http_stream *s = f->req->stream;
	size_t n = buf_len(&f->out);

	if (!s || !n)
		return;
	buf_consume(&f->out, http_stream_write(s, buf_data(&f->out), n));
	f->wrote_ms = loop_now_ms(f->req->api->loop);
	if (buf_len(&f->out))
		f->live = false; /* it goes on from its cursor, later */
}

static void put(struct follower *f, const struct event_pos *at,
		const char *cursor, const char *item)
{
	buf_printf(&f->out, "id: %s\ndata: %s\n\n", cursor, item);
	f->at = *at;
	f->from_start = false;
}

static void begin(struct follower *f)
{
	struct http_head head;

	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "text/event-stream");
	req_begin(f->req, &head, true);
	http_head_fini(&head);
	f->begun = true;
	buf_puts(&f->out, ": events\n\n");
}

static struct event_pos pos_of(const struct pg_result *res, int row)
{
	return (struct event_pos){
		.xid = (uint64_t)pg_int(res, row, EVENT_XID, 0),
		.seq = (uint64_t)pg_int(res, row, EVENT_SEQ, 0),
	};
}

/* ---- pages of its own ---- */

static void ask_page(struct follower *f);

static void page_refused(struct follower *f, const char *sqlstate,
			 const struct err *e)
{
	struct fault no;

	if (f->begun) { /* the client resumes and is told then */
		if (*sqlstate == 'C' && f->req->stream)
			http_stream_reset(f->req->stream);
		return; /* else the next tick asks again */
	}
	if (strcmp(sqlstate, "CA006") == 0)
		fault_set(&no, "bad_cursor", "request",
			  "follow without `after`: that begins with the oldest "
			  "event that is kept",
			  "events after this cursor were forgotten");
	else
		fault_of_db(&no, e);
	req_fault(f->req, &no);
	leave(f);
}

static void on_page(void *arg, const struct pg_result *res, const struct err *e)
{
	struct follower *f = arg;
	struct req *r = f->req;
	int n = e ? 0 : pg_rows(res);

	f->asking = false;
	if (!f->hub || !r->stream) {
		req_unref(r);
		return;
	}
	if (e) {
		page_refused(f, pg_sqlstate(res), e);
		req_unref(r);
		return;
	}
	if (!f->begun)
		begin(f);
	for (int i = 0; i < n; i++) {
		struct event_pos at = pos_of(res, i);

		put(f, &at, pg_text(res, i, EVENT_CURSOR),
		    pg_text(res, i, EVENT_ITEM));
	}
	/* up to date, unless the hub moved while we asked */
	f->live = n < EVENT_PAGE_FOLLOW && f->hub->placed &&
		  f->hub->rounds == f->asked_in_round;
	flush(f);
	if (!f->live && !buf_len(&f->out))
		ask_page(f);
	req_unref(r);
}

static void ask_page(struct follower *f)
{
	struct event_params p;

	if (f->asking || !f->hub || !f->hub->placed)
		return;
	event_params(&p, &f->req->who, &f->filter,
		     f->from_start ? NULL : &f->at, EVENT_PAGE_FOLLOW);
	f->asking = true;
	f->asked_in_round = f->hub->rounds;
	req_ref(f->req);
	if (pg_query(f->req->api->db, &event_page_stmt, p.v, QUERY_MS, on_page,
		     f, NULL) < 0) {
		f->asking = false; /* the next tick asks again */
		req_unref(f->req);
	}
}

static void on_writable(struct req *r)
{
	struct follower *f = r->state;

	flush(f);
	if (!f->live && !buf_len(&f->out))
		ask_page(f);
}

/* ---- the hub ---- */

static bool wants(const struct follower *f, const struct pg_result *res, int i)
{
	const struct principal *who = &f->req->who;
	const char *tenant = pg_text(res, i, NEWS_TENANT);
	const char *project = pg_text(res, i, NEWS_PROJECT);
	const char *sandbox = pg_text(res, i, NEWS_SANDBOX);
	const char *type = pg_text(res, i, NEWS_TYPE);

	if (*tenant ? strcmp(tenant, who->tenant) != 0 : !f->filter.cluster)
		return false;
	if (!f->filter.all && (!project || strcmp(project, who->project) != 0))
		return false;
	if (*f->filter.sandbox &&
	    (!sandbox || strcmp(sandbox, f->filter.sandbox) != 0))
		return false;
	for (size_t i_ = 0; i_ < f->filter.n_types; i_++)
		if (event_type_matches(f->filter.types[i_], type))
			return true;
	return f->filter.n_types == 0;
}

static void hand_out(struct event_hub *h, const struct pg_result *res)
{
	struct follower *f, *tmp;
	int n = pg_rows(res);

	for (int i = 0; i < n; i++) {
		struct event_pos at = pos_of(res, i);

		list_for_each (f, &h->followers, link) {
			if (f->live &&
			    (f->from_start || event_pos_after(&at, &f->at)) &&
			    wants(f, res, i))
				put(f, &at, pg_text(res, i, NEWS_CURSOR),
				    pg_text(res, i, NEWS_ITEM));
		}
		h->at = at;
	}
	if (n > 0)
		h->rounds++;
	list_for_each_safe (f, tmp, &h->followers, link)
		flush(f);
}

static void on_news(void *arg, const struct pg_result *res, const struct err *e)
{
	struct event_hub *h = arg;

	h->asking = false;
	if (h->api->stopping)
		return;
	if (e)
		log_warn("events", "why=%s", e->msg);
	else
		hand_out(h, res);
	tick_in(h, !e && pg_rows(res) == NEWS_N ? 0 : POLL_MS);
}

static void on_placed(void *arg, const struct pg_result *res,
		      const struct err *e)
{
	struct event_hub *h = arg;
	struct follower *f, *tmp;

	h->asking = false;
	if (h->api->stopping)
		return;
	if (!e && pg_rows(res)) {
		h->at = pos_of(res, 0);
		h->placed = true;
		h->rounds++;
		list_for_each_safe (f, tmp, &h->followers, link)
			ask_page(f);
	}
	tick_in(h, POLL_MS);
}

static void care(struct event_hub *h)
{
	uint64_t now = loop_now_ms(h->api->loop);
	struct follower *f, *tmp;

	list_for_each_safe (f, tmp, &h->followers, link) {
		if (!f->live && !buf_len(&f->out))
			ask_page(f);
		if (f->live && now - f->wrote_ms >= EVENT_ALIVE_MS) {
			buf_puts(&f->out, ": alive\n\n");
			flush(f);
		}
	}
}

static void on_tick(struct loop_timer *t)
{
	struct event_hub *h = container_of(t, struct event_hub, timer);
	char xid[24], seq[24];
	const char *params[] = { xid, seq, NEWS_MAX };
	int r;

	if (h->asking || h->api->stopping)
		return;
	if (h->n == 0) {
		h->placed = false;
		h->rounds++;
		return;
	}
	care(h);
	snprintf(xid, sizeof(xid), "%" PRIu64, h->at.xid);
	snprintf(seq, sizeof(seq), "%" PRIu64, h->at.seq);
	h->asking = true;
	r = h->placed ? pg_query(h->api->db, &st_news, params, QUERY_MS,
				 on_news, h, NULL)
		      : pg_query(h->api->db, &st_place, NULL, QUERY_MS,
				 on_placed, h, NULL);
	if (r < 0) {
		h->asking = false;
		tick_in(h, POLL_MS);
	}
}

struct event_hub *event_hub_new(struct api *a)
{
	struct event_hub *h = xnew(struct event_hub);

	h->api = a;
	list_init(&h->followers);
	return h;
}

struct event_hub *event_hub_free(struct event_hub *h)
{
	if (!h)
		return NULL;
	loop_timer_del(&h->timer);
	free(h);
	return NULL;
}

static unsigned of_key(const struct event_hub *h, const char *key)
{
	const struct follower *f;
	unsigned n = 0;

	list_for_each (f, &h->followers, link)
		n += strcmp(f->req->who.key, key) == 0;
	return n;
}

void event_follow(struct req *r, const struct event_filter *filter,
		  const struct event_pos *from)
{
	struct event_hub *h = r->api->events;
	struct follower *f;
	struct fault no;

	if (h->n >= EVENT_FOLLOW_MAX ||
	    of_key(h, r->who.key) >= EVENT_KEY_MAX) {
		fault_set(&no, "rate_limited", "policy",
			  "close streams that nobody reads",
			  "too many streams of events are open");
		no.retry_after_s = 5;
		req_fault(r, &no);
		return;
	}
	f = xnew(struct follower);
	f->hub = h;
	f->req = r;
	f->filter = *filter;
	f->from_start = !from;
	if (from)
		f->at = *from;
	f->wrote_ms = loop_now_ms(r->api->loop);
	buf_init(&f->out, 0);
	r->state = f;
	r->drop = follower_drop;
	r->on_close = on_close;
	r->on_writable = on_writable;
	list_add_tail(&h->followers, &f->link);
	auth_watch_add(r->api->auth, &f->watch, &r->who, on_revoked);
	f->watched = true;
	if (h->n++ == 0 && !h->asking) {
		h->placed = false;
		loop_timer_set(r->api->loop, &h->timer, 0, on_tick);
	} else {
		ask_page(f);
	}
}
