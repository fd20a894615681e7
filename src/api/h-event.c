/* SPDX-License-Identifier: Apache-2.0 */
#include "api/h-event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/list.h"
#include "base/own.h"
#include "base/text.h"

struct pg_stmt event_page_stmt = {
	"events_page",
	"SELECT xid, seq, cursor, item FROM caisson.events_page($1, $2, $3, "
	"$4::xid8, $5, $6::text[], $7, $8)",
	8, 0
};
static struct pg_stmt st_newest = {
	"events_newest", "SELECT xid, seq FROM caisson.events_newest($1, $2)",
	2, 0
};

void event_params(struct event_params *p, const struct principal *who,
		  const struct event_filter *f, const struct event_pos *after,
		  int64_t limit)
{
	size_t n = 0;

	/* words of the filter were checked: nothing in them needs quotes */
	n += (size_t)snprintf(p->types, sizeof(p->types), "{");
	for (size_t i = 0; i < f->n_types; i++)
		n += (size_t)snprintf(p->types + n, sizeof(p->types) - n,
				      "%s%s", i ? "," : "", f->types[i]);
	snprintf(p->types + n, sizeof(p->types) - n, "}");
	snprintf(p->limit, sizeof(p->limit), "%" PRId64, limit);
	if (after) {
		snprintf(p->xid, sizeof(p->xid), "%" PRIu64, after->xid);
		snprintf(p->seq, sizeof(p->seq), "%" PRIu64, after->seq);
	}
	p->v[0] = who->tenant;
	p->v[1] = f->all ? NULL : who->project;
	p->v[2] = f->cluster ? "t" : "f";
	p->v[3] = after ? p->xid : NULL;
	p->v[4] = after ? p->seq : NULL;
	p->v[5] = f->n_types ? p->types : NULL;
	p->v[6] = *f->sandbox ? f->sandbox : NULL;
	p->v[7] = p->limit;
}

/* ---- the request ---- */

struct ask {
	struct event_filter filter;
	struct event_pos after;
	bool has_after, now, follow;
	int64_t limit;
};

static void refuse(struct req *r, const char *code, const char *field,
		   const char *remedy, const char *message)
{
	struct fault f;

	fault_set(&f, code, "request", remedy, "%s: %s", field, message);
	snprintf(f.field, sizeof(f.field), "%s", field);
	req_fault(r, &f);
}

static bool read_types(struct req *r, struct event_filter *f)
{
	owned_str text = req_query(r, "type");
	char *save = NULL, *word;

	if (!text || !*text)
		return true;
	for (word = strtok_r(text, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		if (f->n_types == EVENT_TYPES_MAX ||
		    !event_type_valid(word, true)) {
			refuse(r, "invalid_field", "type",
			       "type=sandbox.*,operation.finished",
			       "expected at most 32 types, separated by "
			       "commas");
			return false;
		}
		snprintf(f->types[f->n_types++], EVENT_TYPE_MAX, "%s", word);
	}
	return true;
}

static bool read_after(struct req *r, struct ask *a)
{
	owned_str query = req_query(r, "after");
	const char *last = a->follow ? req_header(r, "last-event-id") : NULL;
	const char *text = last && *last ? last : query;

	if (!text || !*text)
		return true;
	a->now = strcmp(text, "now") == 0;
	a->has_after = !a->now;
	if (a->now || event_cursor_decode(text, &a->after))
		return true;
	refuse(r, "bad_cursor", "after",
	       "use the `cursor` of an event, `next` of a page, or `now`",
	       "this is not a cursor of events");
	return false;
}

static bool read_ask(struct req *r, struct ask *a)
{
	owned_str sandbox = req_query(r, "sandbox");
	int64_t follow;

	*a = (struct ask){ 0 };
	a->filter.all = r->who.role >= ROLE_ADMIN;
	a->filter.cluster = r->who.role >= ROLE_OPERATOR;
	if (!req_query_int(r, "follow", 0, 1, 0, &follow))
		return false;
	a->follow = follow == 1;
	if (!req_query_int(r, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT,
			   &a->limit) ||
	    !read_types(r, &a->filter) || !read_after(r, a))
		return false;
	if (!sandbox)
		return true;
	if (!id_valid(sandbox, "sb", 20)) {
		refuse(r, "invalid_field", "sandbox",
		       "`caisson ls` shows the ids", "expected a sandbox's id");
		return false;
	}
	snprintf(a->filter.sandbox, sizeof(a->filter.sandbox), "%s", sandbox);
	return true;
}

static void too_old(struct req *r)
{
	refuse(r, "bad_cursor", "after",
	       "read on without `after`: that begins with the oldest event "
	       "that is kept",
	       "events after this cursor were forgotten (they are kept for 7 "
	       "days)");
}

/* ---- a page ---- */

static void on_page(struct req *r, const struct pg_result *res,
		    const char *sqlstate)
{
	int64_t limit = LIST_LIMIT;
	struct buf b;
	int n, shown;

	if (*sqlstate) {
		too_old(r);
		return;
	}
	if (!req_query_int(r, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT, &limit))
		return;
	n = pg_rows(res);
	shown = n > limit ? (int)limit : n;
	buf_init(&b, 0);
	buf_puts(&b, "{\"items\":[");
	for (int i = 0; i < shown; i++)
		buf_printf(&b, "%s%s", i ? "," : "",
			   pg_text(res, i, EVENT_ITEM));
	if (n > shown)
		buf_printf(&b, "],\"next\":\"%s\"}",
			   pg_text(res, shown - 1, EVENT_CURSOR));
	else
		buf_puts(&b, "],\"next\":null}");
	req_json(r, 200, buf_cstr(&b));
	buf_fini(&b);
}

static void on_newest(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	struct event_pos pos = { 0 };
	struct ask a;

	(void)sqlstate;
	if (!read_ask(r, &a))
		return;
	if (pg_rows(res)) {
		pos.xid = (uint64_t)pg_int(res, 0, 0, 0);
		pos.seq = (uint64_t)pg_int(res, 0, 1, 0);
	}
	if (a.follow)
		event_follow(r, &a.filter, &pos);
	else
		req_json(r, 200, "{\"items\":[],\"next\":null}");
}

void h_event_list(struct req *r)
{
	struct event_params p;
	struct ask a;

	if (!read_ask(r, &a))
		return;
	if (a.now) {
		req_db(r, &st_newest,
		       (const char *[]){ r->who.tenant,
					 a.filter.cluster ? "t" : "f" },
		       on_newest);
		return;
	}
	if (a.follow) {
		event_follow(r, &a.filter, a.has_after ? &a.after : NULL);
		return;
	}
	event_params(&p, &r->who, &a.filter, a.has_after ? &a.after : NULL,
		     a.limit + 1);
	req_db(r, &event_page_stmt, p.v, on_page);
}
