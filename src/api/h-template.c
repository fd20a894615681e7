/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/body-admin.h"
#include "api/handlers.h"
#include "api/idem.h"
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
static struct pg_stmt st_get = {
	"template_get",
	"SELECT generation, template FROM caisson.template_get($1, $2, $3)", 3,
	0
};
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

/* Columns: generation, template. */
static void on_template(struct req *r, const struct pg_result *res,
			const char *sqlstate)
{
	if (*sqlstate || pg_rows(res) == 0)
		req_refused(r, *sqlstate ? sqlstate : "CA404", "template");
	else
		req_object(r, 200, pg_text(res, 0, 0), pg_text(res, 0, 1));
}

static void on_release(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	if (*sqlstate || !pg_rows(res) || !pg_text(res, 0, 0))
		req_refused(r, "CA404", "release");
	else
		req_json(r, 200, pg_text(res, 0, 0));
}

void h_template_get(struct req *r)
{
	req_db(r, &st_get,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "t") },
	       on_template);
}

void h_release_get(struct req *r)
{
	const char *s = req_param(r, "sha256");
	owned_str digest = xasprintf(
	    "%s%s", strncmp(s, "sha256:", 7) == 0 ? "" : "sha256:", s);

	req_db(r, &st_release,
	       (const char *[]){ r->who.tenant, r->who.project, digest },
	       on_release);
}

/* ---- make, delete, tags ---- */

static struct pg_stmt st_create = {
	"template_create",
	"SELECT generation, template FROM caisson.template_create($1, $2, $3, "
	"$4)",
	4, 0
};
static struct pg_stmt st_delete = {
	"template_delete", "SELECT caisson.template_delete($1, $2, $3, $4)", 4,
	0
};
static struct pg_stmt st_tag_put = {
	"tag_put",
	"SELECT generation, template FROM caisson.tag_put($1, $2, $3, $4, $5, "
	"$6)",
	6, 0
};
static struct pg_stmt st_tag_delete = {
	"tag_delete",
	"SELECT generation, template FROM caisson.tag_delete($1, $2, $3, $4, "
	"$5)",
	5, 0
};

static void on_created(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate, "template");
	else
		req_object(r, 201, pg_text(res, 0, 0), pg_text(res, 0, 1));
}

void h_template_create(struct req *r)
{
	struct body_named b;
	struct fault f;

	if (body_template(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	if (b.public && r->who.role < ROLE_OPERATOR) {
		fault_set(&f, "role_required", "policy",
			  "leave `public` out, or ask an operator",
			  "only an operator makes public templates");
		snprintf(f.field, sizeof(f.field), "public");
		req_fault(r, &f);
		return;
	}
	req_db(r, &st_create,
	       (const char *[]){ r->who.tenant, r->who.project, b.name,
				 b.public ? "true" : "false" },
	       on_created);
}

static void in_use(struct req *r)
{
	struct fault f;

	if (strcmp(r->db_said, "build") == 0)
		fault_set(&f, "in_use", "request",
			  "wait for the build, or cancel it: POST "
			  "/v1/operations/{op}/cancel",
			  "a build of this template is under way");
	else
		fault_set(&f, "in_use", "request",
			  "end them first; a tag can be moved or deleted "
			  "without that",
			  "living sandboxes use it, their number and those of "
			  "this project: %s",
			  r->db_said);
	req_fault(r, &f);
}

static void on_deleted(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	if (strcmp(sqlstate, "CA007") == 0)
		in_use(r);
	else if (*sqlstate)
		req_refused(r, sqlstate, "template");
	else
		req_json(r, 200, pg_text(res, 0, 0));
}

void h_template_delete(struct req *r)
{
	char match[IF_MATCH_MAX];

	if (req_if_match(r, match))
		req_db(r, &st_delete,
		       (const char *[]){ r->who.tenant, r->who.project,
					 req_param(r, "t"),
					 *match ? match : NULL },
		       on_deleted);
}

static void on_tagged(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	bool release = strcmp(sqlstate, "CA006") == 0;

	if (release ||
	    (strcmp(sqlstate, "CA404") == 0 && strcmp(r->db_said, "tag") == 0))
		req_refused(r, "CA404",
			    release ? "release of this template" : "tag");
	else
		on_template(r, res, sqlstate);
}

void h_tag_put(struct req *r)
{
	char match[IF_MATCH_MAX];
	const char *release;
	struct fault f;

	if (!req_if_match(r, match))
		return;
	if (!name_valid(req_param(r, "tag"))) {
		fault_set(&f, "bad_path", "request",
			  "1 to 63 of a-z, 0-9 and inner dashes",
			  "this is not a tag's name");
		req_fault(r, &f);
		return;
	}
	if (body_tag(r->json, &release, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	req_db(r, &st_tag_put,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "t"), req_param(r, "tag"),
				 release, *match ? match : NULL },
	       on_tagged);
}

void h_tag_delete(struct req *r)
{
	char match[IF_MATCH_MAX];

	if (req_if_match(r, match))
		req_db(r, &st_tag_delete,
		       (const char *[]){ r->who.tenant, r->who.project,
					 req_param(r, "t"), req_param(r, "tag"),
					 *match ? match : NULL },
		       on_tagged);
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

	if (*sqlstate) {
		req_refused(r, sqlstate, "template");
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
