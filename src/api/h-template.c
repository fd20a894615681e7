/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/handlers.h"
#include "api/list.h"
#include "api/node.h"
#include "api/task.h"
#include "api/wait.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define STR_(x) #x
#define STR(x)	STR_(x)

static struct pg_stmt st_list = {
	"template_list",
	"SELECT seq, item FROM caisson.template_list($1, $2, $3, $4)", 4, 0
};
static struct pg_stmt st_get = { "template_get",
				 "SELECT caisson.template_get($1, $2, $3)", 3,
				 0 };
static struct pg_stmt st_release = { "release_get",
				     "SELECT caisson.release_get($1, $2, $3)",
				     3, 0 };

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 't', res);
}

void h_template_list(struct req *r)
{
	struct list_query q;

	if (list_query(r, 't', &q))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit },
		       on_listed);
}

static void on_one(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	struct fault f;

	(void)sqlstate;
	if (pg_rows(res) && pg_text(res, 0, 0)) {
		req_json(r, 200, pg_text(res, 0, 0));
		return;
	}
	fault_set(&f, "not_found", "request", "GET /v1/templates lists them",
		  "no such template or release");
	req_fault(r, &f);
}

void h_template_get(struct req *r)
{
	req_db(r, &st_get,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "t") },
	       on_one);
}

void h_release_get(struct req *r)
{
	const char *s = req_param(r, "sha256");
	owned_str digest = xasprintf(
	    "%s%s", strncmp(s, "sha256:", 7) == 0 ? "" : "sha256:", s);

	req_db(r, &st_release,
	       (const char *[]){ r->who.tenant, r->who.project, digest },
	       on_one);
}

/* ---- builds ---- */

static struct pg_stmt st_start = {
	"build_start",
	"SELECT outcome, operation, release, operation ->> 'id', "
	"operation ->> 'state' FROM caisson.build_start($1, $2, $3, $4, $5, "
	"$6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
	16, 0
};

struct build {
	char digest[72];
	char node[NODE_NAME_MAX];
	char *release, *resources;
};

static void drop_build(struct req *r)
{
	struct build *b = r->state;

	free(b->release);
	free(b->resources);
	free(b);
}

static void on_started(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	struct build *b = r->state;
	int64_t wait_s = 0;
	struct fault f;

	if (*sqlstate) {
		fault_set(&f, "idempotency_mismatch", "request",
			  "use a new Idempotency-Key for another request",
			  "this Idempotency-Key was used with another body");
		req_fault(r, &f);
		return;
	}
	r->replayed = strcmp(pg_text(res, 0, 0), "replay") == 0;
	if (!r->replayed)
		task_build(r->api, &(struct task_spec){
				       .op = pg_text(res, 0, 3),
				       .tenant = r->who.tenant,
				       .node = b->node,
				       .traceparent = r->traceparent,
				       .release = b->release,
				       .resources = b->resources,
				       .digest = b->digest,
				   });
	if (req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s) &&
	    pg_text(res, 0, 3))
		wait_answer(r, ANSWER_BUILD, wait_s, pg_text(res, 0, 3),
			    pg_text(res, 0, 4), pg_text(res, 0, 1), NULL);
}

static struct build *build_new(const json_t *manifest, const char *text,
			       const struct node *node)
{
	const json_t *d = json_object_get(manifest, "defaults");
	struct build *b = xnew(struct build);

	manifest_digest(manifest, b->digest);
	snprintf(b->node, sizeof(b->node), "%s", node_name(node));
	b->release = task_release(b->digest, text);
	b->resources = xasprintf(
	    "{\"vcpus\":%lld,\"memory_mib\":%lld,\"disk_mib\":%lld}",
	    (long long)json_integer_value(json_object_get(d, "vcpus")),
	    (long long)json_integer_value(json_object_get(d, "memory_mib")),
	    (long long)json_integer_value(json_object_get(d, "disk_mib")));
	return b;
}

static void build_insert(struct req *r, const json_t *manifest,
			 const char *idem, const struct node *node)
{
	owned_str text = json_text(manifest);
	struct build *b = build_new(manifest, text, node);
	char op[24] = "op_", hmac[65];

	random_id(op + 3, 20);
	req_body_hmac(r, hmac);
	r->state = b;
	r->drop = drop_build;
	/* only operators build in this version, and what they build is for
	 * every tenant */
	req_db(r, &st_start,
	       (const char *[]){ r->who.tenant, r->who.project, op,
				 req_param(r, "t"), b->digest, text, b->node,
				 "true", r->api->owner, STR(TASK_LEASE_S),
				 STR(TASK_BUILD_S), r->who.key, r->trace,
				 r->route->path, idem, hmac },
	       on_started);
}

void h_build_start(struct req *r)
{
	struct body_build b;
	const char *idem;
	struct node *node;
	struct fault f;
	int64_t wait_s;

	if (!req_idem(r, &idem) ||
	    !req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		return;
	if (!name_valid(req_param(r, "t"))) {
		fault_set(&f, "bad_path", "request",
			  "1 to 63 of a-z, 0-9 and inner dashes",
			  "this is not a template's name");
		req_fault(r, &f);
		return;
	}
	if (body_build(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	node = node_pick(r->api->nodes, NULL, 1, &f);
	if (node)
		build_insert(r, b.manifest, idem, node);
	else
		req_fault(r, &f);
	body_build_fini(&b);
}
