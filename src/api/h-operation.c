/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/list.h"
#include "api/task.h"
#include "api/wait.h"
#include "base/own.h"
#include "base/text.h"

#define STR_(x) #x
#define STR(x)	STR_(x)

static struct pg_stmt st_get = { "operation_show",
				 "SELECT state, operation, sandbox "
				 "FROM caisson.operation_get($1, $2, $3)",
				 3, 0 };

static void on_got(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	int64_t wait_s = 0;
	if (*sqlstate || pg_rows(res) == 0) {
		req_refused(r, "CA404", "operation");
		return;
	}
	if (req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		wait_answer(r, ANSWER_GET, wait_s, req_param(r, "op"),
			    pg_text(res, 0, 0), pg_text(res, 0, 1),
			    pg_text(res, 0, 2));
}

void h_operation_get(struct req *r)
{
	int64_t wait_s;

	if (req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		req_db(r, &st_get,
		       (const char *[]){ r->who.tenant, r->who.project,
					 req_param(r, "op") },
		       on_got);
}

static struct pg_stmt st_list = {
	"operation_list",
	"SELECT seq, item FROM caisson.operation_list($1, $2, $3, $4, $5, $6, "
	"$7, $8)",
	8, 0
};

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 'o', res);
}

void h_operation_list(struct req *r)
{
	static const char *const states[] = { "pending",   "running",
					      "succeeded", "failed",
					      "cancelled", NULL };
	static const char *const kinds[] = { "create", "end", "template_build",
					     NULL };
	owned_str sandbox = req_query(r, "sandbox");
	owned_str state = NULL;
	owned_str kind = NULL;
	struct list_query q;

	if (list_query(r, 'o', &q) && list_words(r, "state", states, &state) &&
	    list_words(r, "kind", kinds, &kind))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit, state,
					 sandbox, kind, NULL },
		       on_listed);
}

/* The builds of one template: the same list, filtered. */
void h_build_list(struct req *r)
{
	struct list_query q;

	if (list_query(r, 'o', &q))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit, NULL, NULL,
					 "{template_build}",
					 req_param(r, "t") },
		       on_listed);
}

/* ---- cancel ---- */

static struct pg_stmt st_cancel = {
	"operation_cancel",
	"SELECT outcome, operation, sandbox, sandbox_id, generation, fence, "
	"node FROM caisson.operation_cancel($1, $2, $3, $4, $5, $6, $7, $8, "
	"$9)",
	9, 0
};

static void too_late(struct req *r)
{
	struct fault f;

	if (strcmp(r->db_said, "end") == 0)
		fault_set(&f, "wrong_state", "request",
			  "follow it with wait_s; what ends is not brought "
			  "back",
			  "an end cannot be taken back");
	else
		fault_set(&f, "wrong_state", "request",
			  "end the sandbox if it is not wanted: DELETE "
			  "/v1/sandboxes/{id}",
			  "too late: the operation is %s", r->db_said);
	snprintf(f.operation, sizeof(f.operation), "%.31s", req_param(r, "op"));
	req_fault(r, &f);
}

static void on_cancelled(struct req *r, const struct pg_result *res,
			 const char *sqlstate)
{
	owned_str pair = NULL;

	if (strcmp(sqlstate, "CA003") == 0) {
		too_late(r);
		return;
	}
	if (*sqlstate) {
		req_refused(r, sqlstate, "operation");
		return;
	}
	if (strcmp(pg_text(res, 0, 0), "ending") == 0)
		task_end(r->api, &(struct task_spec){
				     .op = r->state,
				     .tenant = r->who.tenant,
				     .node = pg_text(res, 0, 6),
				     .traceparent = r->traceparent,
				     .sandbox = pg_text(res, 0, 3),
				     .generation = pg_int(res, 0, 4, 0),
				     .fence = pg_int(res, 0, 5, 0),
				 });
	pair = req_pair(pg_text(res, 0, 1), pg_text(res, 0, 2));
	wait_wake(r->api, req_param(r, "op"), "cancelled", pg_text(res, 0, 1),
		  pg_text(res, 0, 2));
	req_json(r, 200, pair);
}

static void drop_text(struct req *r)
{
	free(r->state);
}

void h_operation_cancel(struct req *r)
{
	char op[24] = "op_";

	random_id(op + 3, 20);
	r->state = xstrdup(op); /* of the end that takes a create back */
	r->drop = drop_text;
	req_db(r, &st_cancel,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "op"), op, r->who.key, r->trace,
				 r->api->owner, STR(TASK_LEASE_S),
				 STR(TASK_END_S) },
	       on_cancelled);
}
