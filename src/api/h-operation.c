/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/handlers.h"
#include "api/list.h"
#include "api/wait.h"
#include "base/own.h"

static struct pg_stmt st_get = { "operation_show",
				 "SELECT state, operation, sandbox "
				 "FROM caisson.operation_get($1, $2, $3)",
				 3, 0 };

static void on_got(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	int64_t wait_s = 0;
	struct fault f;

	(void)sqlstate;
	if (pg_rows(res) == 0) {
		fault_set(&f, "not_found", "request",
			  "operations are kept for 7 days; GET /v1/operations "
			  "lists them",
			  "no such operation");
		req_fault(r, &f);
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
	"SELECT seq, item FROM caisson.operation_list($1, $2, $3, $4, $5, $6)",
	6, 0
};

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 'o', res);
}

void h_operation_list(struct req *r)
{
	owned_str state = req_query(r, "state");
	owned_str sandbox = req_query(r, "sandbox");
	struct list_query q;

	if (list_query(r, 'o', &q))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit, state,
					 sandbox },
		       on_listed);
}
