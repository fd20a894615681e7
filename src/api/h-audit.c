/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/list.h"
#include "base/own.h"

static struct pg_stmt st_list = {
	"audit_list",
	"SELECT seq, item FROM caisson.audit_list($1, $2, $3, $4, $5, $6, $7, "
	"$8, $9)",
	9, 0
};
static struct pg_stmt st_head = { "audit_head",
				  "SELECT caisson.audit_head($1, $2)", 2, 0 };

static bool bad(struct req *r, const char *field, const char *expected)
{
	struct fault f;

	fault_set(&f, "invalid_field", "request",
		  "GET /v1/openapi.json describes it", "%s: expected %s", field,
		  expected);
	snprintf(f.field, sizeof(f.field), "%s", field);
	req_fault(r, &f);
	return false;
}

/* cluster=1: the chain of what belongs to no tenant. false: answered. */
static bool read_cluster(struct req *r, bool *ret)
{
	int64_t v;
	struct fault f;

	if (!req_query_int(r, "cluster", 0, 1, 0, &v))
		return false;
	*ret = v == 1;
	if (!*ret || r->who.role >= ROLE_OPERATOR)
		return true;
	fault_set(&f, "role_required", "policy", "use an operator's key",
		  "the cluster's own audit log needs role operator");
	req_fault(r, &f);
	return false;
}

/* A cursor of one order is not one of the other. */
static bool read_order(struct req *r, char *ret_kind)
{
	owned_str order = req_query(r, "order");

	*ret_kind = 'a';
	if (!order || strcmp(order, "newest") == 0)
		return true;
	*ret_kind = 'A';
	return strcmp(order, "oldest") == 0 ||
	       bad(r, "order", "newest or oldest");
}

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	char kind;

	(void)sqlstate;
	if (read_order(r, &kind))
		list_answer(r, kind, res);
}

void h_audit_list(struct req *r)
{
	owned_str actor = req_query(r, "actor");
	owned_str action = req_query(r, "action");
	owned_str target = req_query(r, "target");
	owned_str outcome = req_query(r, "outcome");
	struct list_query q;
	bool cluster;
	char kind;

	if (!read_order(r, &kind) || !list_query(r, kind, &q) ||
	    !read_cluster(r, &cluster))
		return;
	if (outcome && strcmp(outcome, "done") != 0 &&
	    strcmp(outcome, "refused") != 0) {
		bad(r, "outcome", "done or refused");
		return;
	}
	req_db(r, &st_list,
	       (const char *[]){
		   r->who.tenant, cluster ? "t" : "f", list_after(&q), q.limit,
		   kind == 'A' ? "t" : "f", actor, action, target, outcome },
	       on_listed);
}

static void on_head(struct req *r, const struct pg_result *res,
		    const char *sqlstate)
{
	(void)sqlstate;
	req_json(r, 200, pg_text(res, 0, 0));
}

void h_audit_head(struct req *r)
{
	bool cluster;

	if (read_cluster(r, &cluster))
		req_db(r, &st_head,
		       (const char *[]){ r->who.tenant, cluster ? "t" : "f" },
		       on_head);
}
