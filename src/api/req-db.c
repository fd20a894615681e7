/* SPDX-License-Identifier: Apache-2.0 */
#include "api/req.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/h-audit-acting.h"
#include "base/log.h"
#include "base/own.h"

/* Statements for a request, and the words of what the database refuses. */

#define DB_MS 5000u

/* "NAME USED LIMIT" */
static bool read_quota(const char *said, char ret_what[24], long long *ret_used,
		       long long *ret_limit)
{
	size_t n = strcspn(said, " ");
	const char *at = said + n;
	char *end;

	if (!n || n >= 24 || said[n] != ' ')
		return false;
	*ret_used = strtoll(at, &end, 10);
	if (end == at || *end != ' ')
		return false;
	at = end;
	*ret_limit = strtoll(at, &end, 10);
	if (end == at || *end)
		return false;
	snprintf(ret_what, 24, "%.*s", (int)n, said);
	return true;
}

static void refused_quota(struct req *r, struct fault *f)
{
	char what[24] = "unknown";
	long long used = 0, limit = 0;

	(void)read_quota(r->db_said, what, &used, &limit);
	fault_set(f, "quota_reached", "quota",
		  "end sandboxes, or have an operator raise it: PUT "
		  "/v1/quotas",
		  "quota %s: %lld of %lld are used, and this would be above it",
		  what, used, limit);
	snprintf(f->field, sizeof(f->field), "%s", what);
	f->retry_after_s = 5;
}

static void refused_state(const struct req *r, const char *what,
			  struct fault *f)
{
	fault_set(f, "wrong_state", "request",
		  "read it again: what it is now decides what can be done",
		  "the %s is %s", what, *r->db_said ? r->db_said : "over");
}

void req_refused(struct req *r, const char *sqlstate, const char *what)
{
	struct fault f;

	if (strcmp(sqlstate, "CA001") == 0) {
		fault_set(&f, "name_taken", "request", "choose another name",
			  strcmp(r->db_said, "public") == 0
			      ? "a public %s has that name"
			      : "there is a %s of that name already",
			  what);
		snprintf(f.field, sizeof(f.field), "name");
	} else if (strcmp(sqlstate, "CA002") == 0) {
		fault_set(&f, "idempotency_mismatch", "request",
			  "use a new Idempotency-Key for another request",
			  "this Idempotency-Key was used with another path or "
			  "body");
	} else if (strcmp(sqlstate, "CA003") == 0) {
		refused_state(r, what, &f);
	} else if (strcmp(sqlstate, "CA412") == 0) {
		fault_set(&f, "generation_changed", "request",
			  "read it again, and send the new ETag if the change "
			  "still makes sense",
			  "the %s has changed: its %s", what, r->db_said);
	} else if (strcmp(sqlstate, "CA429") == 0) {
		refused_quota(r, &f);
	} else {
		fault_set(&f, "not_found", "request",
			  "the list of them shows what there is", "no such %s",
			  what);
	}
	req_fault(r, &f);
}

static void keep_message(struct req *r, const char *msg)
{
	const char *colon = strstr(msg, ": ");

	snprintf(r->db_said, sizeof(r->db_said), "%.127s",
		 colon ? colon + 2 : msg);
}

struct db_call {
	struct req *req;
	req_db_done *done;
};

static void on_db(void *arg, const struct pg_result *res, const struct err *e)
{
	struct db_call *c = arg;
	struct req *r = c->req;
	const char *state = pg_sqlstate(res);
	struct fault f;

	if (e && strncmp(state, "22", 2) == 0) { /* data exception */
		fault_set(&f, "invalid_field", "request",
			  "GET /v1/openapi.json describes the call",
			  "a value has not the form of its kind");
		req_fault(r, &f);
	} else if (e && strncmp(state, "CA", 2) != 0) {
		log_set_trace(r->trace);
		log_error("db", "id=%s sqlstate=%s error=%s", r->id, state,
			  e->msg);
		log_set_trace(NULL);
		fault_of_db(&f, e);
		req_fault(r, &f);
	} else {
		if (e)
			keep_message(r, e->msg);
		c->done(r, res, e ? state : "");
	}
	free(c);
	req_unref(r);
}

void req_db(struct req *r, struct pg_stmt *st, const char *const *params,
	    req_db_done *done)
{
	struct db_call *c = xnew(struct db_call);
	struct err e = { 0 };
	struct fault f;

	c->req = req_ref(r);
	c->done = done;
	if (acting_query(r, st, params, DB_MS, on_db, c, &e) == 0)
		return;
	free(c);
	fault_of_db(&f, &e);
	req_fault(r, &f);
	req_unref(r);
}
