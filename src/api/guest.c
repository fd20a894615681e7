/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guest.h"

#include <stdio.h>
#include <string.h>

#include "api/node.h"
#include "base/own.h"
#include "base/text.h"

bool guest_of_exec(const char *exec, char ret_sandbox[23])
{
	if (!id_valid(exec, "ex_", 28))
		return false;
	snprintf(ret_sandbox, 23, "sb%.20s", exec + 3);
	return true;
}

static struct pg_stmt st_get = {
	"sandbox_get",
	"SELECT id, observed, desired, node, env, defaults, end_reason, "
	"end_detail FROM caisson.sandbox_get($1, $2, $3)",
	3, 0
};

static void answer_not_there(struct req *r)
{
	struct fault f;

	fault_set(&f, "not_found", "request",
		  "`caisson ls -a` shows what there is", "no such sandbox");
	req_fault(r, &f);
}

static void answer_ended(struct req *r, const struct pg_result *res)
{
	const char *reason = pg_text(res, 0, 6), *detail = pg_text(res, 0, 7);
	struct fault f;

	fault_set(&f, "sandbox_ended", "request", "create a new sandbox",
		  "the sandbox is %s, reason %s%s%s", pg_text(res, 0, 1),
		  reason ? reason : "unknown", detail ? ": " : "",
		  detail ? detail : "");
	req_fault(r, &f);
}

static void answer_not_running(struct req *r, const char *observed, bool ending)
{
	struct fault f;

	fault_set(&f, "wrong_state", "request",
		  ending ? "create a new sandbox"
			 : "wait for its operation: GET "
			   "/v1/operations/{op}?wait_s=60",
		  "the sandbox is %s, not running",
		  ending ? "ending" : observed);
	req_fault(r, &f);
}

static void on_got(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	void (*done)(struct req *, const struct guest *) =
	    (void (*)(struct req *, const struct guest *))r->state;
	const char *observed;
	struct node *node;
	struct guest g;
	struct fault f;

	(void)sqlstate;
	r->state = NULL;
	if (pg_rows(res) == 0) {
		answer_not_there(r);
		return;
	}
	observed = pg_text(res, 0, 1);
	if (strcmp(observed, "ended") == 0 || strcmp(observed, "failed") == 0 ||
	    strcmp(observed, "lost") == 0) {
		answer_ended(r, res);
		return;
	}
	if (strcmp(observed, "running") != 0 ||
	    strcmp(pg_text(res, 0, 2), "running") != 0) {
		answer_not_running(r, observed,
				   strcmp(pg_text(res, 0, 2), "deleted") == 0);
		return;
	}
	node = node_get(r->api->nodes, pg_text(res, 0, 3));
	if (!node) {
		fault_set(&f, "node_unavailable", "node",
			  "repeat the call; `caisson node ls` shows the nodes",
			  "the sandbox's node is not known yet");
		req_fault(r, &f);
		return;
	}
	g = (struct guest){ .id = pg_text(res, 0, 0),
			    .data_path = node_data_path(node),
			    .env = pg_text(res, 0, 4),
			    .defaults = pg_text(res, 0, 5) };
	if (r->stream)
		done(r, &g);
}

void guest_find(struct req *r, const char *ref,
		void (*done)(struct req *r, const struct guest *g))
{
	const char *params[] = { r->who.tenant, r->who.project, ref };

	r->state = (void *)done;
	req_db(r, &st_get, params, on_got);
}
