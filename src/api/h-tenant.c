/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/auth.h"
#include "api/body-admin.h"
#include "api/handlers.h"
#include "api/idem.h"
#include "api/list.h"
#include "api/node.h"
#include "base/own.h"

/* Projects, tenants, quotas, cordons: records that say who may do what. */

static const char *operator(const struct req *r)
{
	return r->who.role == ROLE_OPERATOR ? "true" : "false";
}

/* ---- projects ---- */

static struct pg_stmt st_projects = {
	"project_list",
	"SELECT seq, item FROM caisson.project_list($1, $2, $3, $4, $5)", 5, 0
};
static struct pg_stmt st_project = {
	"project_create", "SELECT caisson.project_create($1, $2, $3, $4)", 4, 0
};

static void on_projects(struct req *r, const struct pg_result *res,
			const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate, "tenant");
	else
		list_answer(r, 'p', res);
}

void h_project_list(struct req *r)
{
	owned_str tenant = req_query(r, "tenant");
	struct list_query q;

	if (list_query(r, 'p', &q))
		req_db(r, &st_projects,
		       (const char *[]){ r->who.tenant, list_after(&q), q.limit,
					 tenant, operator(r) },
		       on_projects);
}

static void on_project(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate,
			    strcmp(sqlstate, "CA001") == 0 ? "project"
							   : "tenant");
	else
		req_json(r, 201, pg_text(res, 0, 0));
}

void h_project_create(struct req *r)
{
	struct body_named b;
	struct fault f;

	if (body_project(r->json, &b, &f) < 0)
		req_fault(r, &f);
	else
		req_db(r, &st_project,
		       (const char *[]){ r->who.tenant, b.name,
					 b.tenant, operator(r) },
		       on_project);
}

/* ---- tenants ---- */

static struct pg_stmt st_tenants = {
	"tenant_list", "SELECT seq, item FROM caisson.tenant_list($1, $2)", 2, 0
};
static struct pg_stmt st_tenant = {
	"tenant_create",
	"SELECT tenant, project FROM caisson.tenant_create($1)", 1, 0
};
static struct pg_stmt st_tenant_delete = {
	"tenant_delete",
	"SELECT tenant, ending FROM caisson.tenant_delete($1, $2, $3, $4)", 4, 0
};

static void on_tenants(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 'n', res);
}

void h_tenant_list(struct req *r)
{
	struct list_query q;

	if (list_query(r, 'n', &q))
		req_db(r, &st_tenants,
		       (const char *[]){ list_after(&q), q.limit }, on_tenants);
}

static void on_tenant(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	owned_str text = NULL;

	if (*sqlstate) {
		req_refused(r, sqlstate, "tenant");
		return;
	}
	text = xasprintf("{\"tenant\":%s,\"project\":%s}", pg_text(res, 0, 0),
			 pg_text(res, 0, 1));
	req_json(r, 201, text);
}

void h_tenant_create(struct req *r)
{
	struct body_named b;
	struct fault f;

	if (body_tenant(r->json, &b, &f) < 0)
		req_fault(r, &f);
	else
		req_db(r, &st_tenant, (const char *[]){ b.name }, on_tenant);
}

static void on_tenant_deleted(struct req *r, const struct pg_result *res,
			      const char *sqlstate)
{
	owned_str text = NULL;
	struct fault f;

	if (strcmp(sqlstate, "CA007") == 0) {
		fault_set(&f, "in_use", "request",
			  "use an operator's key of another tenant",
			  "a key cannot delete its own tenant");
		req_fault(r, &f);
		return;
	}
	if (*sqlstate) {
		req_refused(r, sqlstate, "tenant");
		return;
	}
	auth_revoked_tenant(r->api->auth, req_param(r, "ten"));
	text = xasprintf("{\"tenant\":%s,\"ending\":%s}", pg_text(res, 0, 0),
			 pg_text(res, 0, 1));
	req_json(r, 200, text);
}

void h_tenant_delete(struct req *r)
{
	req_db(r, &st_tenant_delete,
	       (const char *[]){ r->who.tenant, req_param(r, "ten"), r->who.key,
				 r->trace },
	       on_tenant_deleted);
}

/* ---- quotas ---- */

static struct pg_stmt st_quota = {
	"quota_get",
	"SELECT generation, quota FROM caisson.quota_get($1, $2, $3, $4)", 4, 0
};
static struct pg_stmt st_quota_put = {
	"quota_put",
	"SELECT generation, quota FROM caisson.quota_put($1, $2, $3, $4, $5, "
	"$6, $7, $8)",
	8, 0
};

static void on_quota(struct req *r, const struct pg_result *res,
		     const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate,
			    strcmp(sqlstate, "CA412") == 0 ? "quota"
							   : "project");
	else
		req_object(r, 200, pg_text(res, 0, 0), pg_text(res, 0, 1));
}

void h_quota_get(struct req *r)
{
	owned_str project = req_query(r, "project");

	req_db(r, &st_quota,
	       (const char *[]){ r->who.tenant, r->who.project,
				 project, operator(r) },
	       on_quota);
}

static const char *limit_of(char ret[24], int64_t v)
{
	if (v < 0)
		return NULL;
	snprintf(ret, 24, "%" PRId64, v);
	return ret;
}

void h_quota_put(struct req *r)
{
	char match[IF_MATCH_MAX], text[4][24];
	struct body_quota b;
	struct fault f;

	if (!req_if_match(r, match))
		return;
	if (body_quota(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	req_db(r, &st_quota_put,
	       (const char *[]){
		   r->who.tenant, r->who.project, b.project,
		   *match ? match : NULL, limit_of(text[0], b.sandboxes),
		   limit_of(text[1], b.vcpus), limit_of(text[2], b.memory_mib),
		   limit_of(text[3], b.disk_mib) },
	       on_quota);
}

/* ---- nodes ---- */

static struct pg_stmt st_cordon = { "node_cordon",
				    "SELECT caisson.node_cordon($1, $2)", 2,
				    0 };

static void on_cordon(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	if (*sqlstate || !pg_rows(res) || !pg_text(res, 0, 0)) {
		req_refused(r, "CA404", "node");
		return;
	}
	nodes_refresh(r->api->nodes);
	req_json(r, 200, pg_text(res, 0, 0));
}

void h_node_cordon(struct req *r)
{
	req_db(r, &st_cordon, (const char *[]){ req_param(r, "n"), "true" },
	       on_cordon);
}

void h_node_uncordon(struct req *r)
{
	req_db(r, &st_cordon, (const char *[]){ req_param(r, "n"), "false" },
	       on_cordon);
}
