/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body-admin.h"
#include "api/body.h"
#include "api/guest.h"
#include "api/h-usage.h"
#include "api/handlers.h"
#include "api/idem.h"
#include "api/list.h"
#include "api/node.h"
#include "api/proxy.h"
#include "api/task.h"
#include "api/url.h"
#include "api/wait.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define STR_(x) #x
#define STR(x)	STR_(x)

/* ---- create ---- */

static struct pg_stmt st_create = {
	"sandbox_create",
	"SELECT outcome, sandbox, operation, generation, fence, release, "
	"manifest, vcpus, memory_mib, disk_mib, operation ->> 'id', "
	"operation ->> 'state', sandbox ->> 'id', sandbox ->> 'name', "
	"sandbox ->> 'node' FROM caisson.sandbox_create($1, $2, $3, $4, $5, "
	"$6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, "
	"$20, $21, $22, $23)",
	23, 0
};

static void create_start(struct req *r, const struct pg_result *res)
{
	owned_str release =
	    task_release(pg_text(res, 0, 5), pg_text(res, 0, 6));
	owned_str resources = xasprintf(
	    "{\"vcpus\":%s,\"memory_mib\":%s,\"disk_mib\":%s}",
	    pg_text(res, 0, 7), pg_text(res, 0, 8), pg_text(res, 0, 9));
	const char *name = pg_text(res, 0, 13);

	task_create(r->api, &(struct task_spec){
				.op = pg_text(res, 0, 10),
				.tenant = r->who.tenant,
				.node = pg_text(res, 0, 14),
				.traceparent = r->traceparent,
				.sandbox = pg_text(res, 0, 12),
				.generation = pg_int(res, 0, 3, 0),
				.fence = pg_int(res, 0, 4, 0),
				.hostname = name ? name : pg_text(res, 0, 12),
				.release = release,
				.resources = resources,
			    });
}

static void create_refused(struct req *r, const char *sqlstate)
{
	const struct fault *no_node = r->state;
	struct fault f;

	if (strcmp(sqlstate, "CA001") == 0) {
		fault_set(&f, "name_taken", "request",
			  "choose another name, or end the sandbox that has it",
			  "a living sandbox of this project has that name");
		snprintf(f.field, sizeof(f.field), "name");
	} else if (strcmp(sqlstate, "CA005") == 0 && no_node) {
		f = *no_node;
	} else if (strcmp(sqlstate, "CA004") != 0) {
		req_refused(r, sqlstate, "sandbox");
		return;
	} else {
		fault_set(
		    &f, "not_found", "request",
		    "GET /v1/templates lists them; `caisson template "
		    "build` makes one",
		    "no template, tag or release \"%s\"",
		    json_string_value(json_object_get(r->json, "template")));
		snprintf(f.field, sizeof(f.field), "template");
	}
	req_fault(r, &f);
}

static void on_created(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	int64_t wait_s = 0;

	if (*sqlstate) {
		create_refused(r, sqlstate);
		return;
	}
	r->replayed = strcmp(pg_text(res, 0, 0), "replay") == 0;
	if (!r->replayed)
		create_start(r, res);
	else if (!pg_text(res, 0, 10)) { /* forgotten after 7 days */
		create_refused(r, "CA404");
		return;
	}
	if (!req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		return;
	wait_answer(r, ANSWER_CREATE, wait_s, pg_text(res, 0, 10),
		    pg_text(res, 0, 11), pg_text(res, 0, 2),
		    pg_text(res, 0, 1));
}

static const char *number(char ret[24], int64_t v)
{
	if (v == 0)
		return NULL;
	snprintf(ret, 24, "%" PRId64, v);
	return ret;
}

static void create_insert(struct req *r, const struct body_create *b,
			  const char *idem, const struct node *node)
{
	owned_str labels = b->labels ? json_text(b->labels) : xstrdup("{}");
	owned_str env = b->env ? json_text(b->env) : xstrdup("{}");
	char id[24] = "sb", op[24] = "op_", hmac[65];
	char vcpus[24], memory[24], disk[24], ttl[24];

	random_id(id + 2, 20);
	random_id(op + 3, 20);
	req_body_hmac(r, hmac);
	req_db(r, &st_create,
	       (const char *[]){ r->who.tenant,
				 r->who.project,
				 id,
				 op,
				 b->name,
				 b->template,
				 labels,
				 env,
				 number(vcpus, b->vcpus),
				 number(memory, b->memory_mib),
				 number(disk, b->disk_mib),
				 b->has_ttl ? number(ttl, b->ttl_s) : NULL,
				 b->on_expiry,
				 b->isolation,
				 node ? node_name(node) : NULL,
				 r->api->owner,
				 STR(TASK_LEASE_S),
				 STR(TASK_CREATE_S),
				 r->who.key,
				 r->trace,
				 r->route->path,
				 idem,
				 hmac },
	       on_created);
}

static void drop_fault(struct req *r)
{
	free(r->state);
}

void h_sandbox_create(struct req *r)
{
	struct body_create b;
	const char *idem;
	struct node *node;
	struct fault f;
	int64_t wait_s;

	if (!req_idem(r, &idem) ||
	    !req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		return;
	if (body_create(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	if (req_header(r, "caisson-egress-profiles") &&
	    strcmp(req_header(r, "caisson-egress-profiles"), "none") != 0) {
		fault_set(
		    &f, "not_supported", "policy",
		    "leave Caisson-Egress-Profiles out: no egress",
		    "egress profiles are planned and not in this version; "
		    "sandboxes have no way out");
		req_fault(r, &f);
		return;
	}
	/* without a node the database still knows replays and bad templates */
	node = node_pick(r->api->nodes, b.isolation,
			 b.memory_mib ? b.memory_mib : 1, &f);
	if (!node) {
		r->state = xnew(struct fault);
		memcpy(r->state, &f, sizeof(f));
		r->drop = drop_fault;
	}
	create_insert(r, &b, idem, node);
}

/* ---- read ---- */

static struct pg_stmt st_get = {
	"sandbox_show",
	"SELECT sandbox, generation FROM caisson.sandbox_get($1, $2, $3)", 3, 0
};

static void on_got(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	if (*sqlstate || pg_rows(res) == 0)
		req_refused(r, "CA404", "sandbox");
	else
		req_object(r, 200, pg_text(res, 0, 1), pg_text(res, 0, 0));
}

void h_sandbox_get(struct req *r)
{
	req_db(r, &st_get,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id") },
	       on_got);
}

static struct pg_stmt st_list = {
	"sandbox_list",
	"SELECT seq, item FROM caisson.sandbox_list($1, $2, $3, $4, $5, $6, "
	"$7, $8)",
	8, 0
};

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 's', res);
}

static void bad_query(struct req *r, const char *name, const char *what)
{
	struct fault f;

	fault_set(&f, "invalid_field", "request",
		  "GET /v1/openapi.json describes it", "%s: %s", name, what);
	snprintf(f.field, sizeof(f.field), "%s", name);
	req_fault(r, &f);
}

/* label=k=v, repeated: all of them as an object; NULL if there is none. */
static bool labels_of(struct req *r, char **ret)
{
	owned_json o = json_object();

	*ret = NULL;
	for (unsigned i = 0; i <= BODY_LABELS_MAX; i++) {
		owned_str pair = url_query_nth(req_path(r), "label", i);
		char *eq = pair ? strchr(pair, '=') : NULL;
		json_t *v;

		if (!pair)
			break;
		v = eq ? json_string(eq + 1) : NULL;
		if (!v || i == BODY_LABELS_MAX) {
			json_decref(v);
			bad_query(r, "label", "expected KEY=VALUE in UTF-8");
			return false;
		}
		*eq = '\0';
		if (json_object_set_new(o, pair, v) < 0) {
			bad_query(r, "label", "expected KEY=VALUE in UTF-8");
			return false;
		}
	}
	if (json_object_size(o))
		*ret = json_text(o);
	return true;
}

void h_sandbox_list(struct req *r)
{
	static const char *const words[] = {
		"pending", "starting", "running",    "pausing",	  "paused",
		"ending",  "resuming", "suspending", "suspended", "ended",
		"failed",  "lost",     NULL,
	};
	owned_str states = NULL;
	owned_str template = req_query(r, "template");
	owned_str created = req_query(r, "created_after");
	owned_str labels = NULL;
	struct list_query q;

	if (!list_query(r, 's', &q) || !labels_of(r, &labels) ||
	    !list_words(r, "state", words, &states))
		return;
	if (created && strspn(created, "0123456789-:.TZ") != strlen(created)) {
		bad_query(r, "created_after",
			  "expected a time such as 2026-12-01T10:00:00Z");
		return;
	}
	req_db(r, &st_list,
	       (const char *[]){ r->who.tenant, r->who.project, list_after(&q),
				 q.limit, states, labels, template, created },
	       on_listed);
}

/* ---- change ---- */

static struct pg_stmt st_update = {
	"sandbox_update",
	"SELECT generation, sandbox FROM caisson.sandbox_update($1, $2, $3, "
	"$4, $5, $6, $7, $8, $9)",
	9, 0
};

static void on_updated(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	struct fault f;

	if (strcmp(sqlstate, "CA010") == 0) {
		fault_set(&f, "invalid_field", "request",
			  "remove some: {\"labels\":{\"NAME\":null}}",
			  "labels: a sandbox has at most %u", BODY_LABELS_MAX);
		snprintf(f.field, sizeof(f.field), "labels");
		req_fault(r, &f);
	} else if (*sqlstate) {
		req_refused(r, sqlstate, "sandbox");
	} else {
		req_object(r, 200, pg_text(res, 0, 0), pg_text(res, 0, 1));
	}
}

void h_sandbox_update(struct req *r)
{
	struct body_update b;
	char match[IF_MATCH_MAX], ttl[24];
	owned_str labels = NULL;
	struct fault f;

	if (!req_if_match(r, match))
		return;
	if (body_update(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	labels = b.labels ? json_text(b.labels) : NULL;
	req_db(r, &st_update,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id"), *match ? match : NULL,
				 labels, "64", b.has_ttl ? "true" : "false",
				 number(ttl, b.ttl_s), b.on_expiry },
	       on_updated);
}

/* ---- end ---- */

static struct pg_stmt st_end = {
	"sandbox_end",
	"SELECT outcome, sandbox, operation, id, generation, fence, node, op, "
	"operation ->> 'state' FROM caisson.sandbox_end($1, $2, $3, $4, $5, "
	"$6, $7, $8, $9, $10, $11, $12, $13, $14)",
	14, 0
};

static void on_end_accepted(struct req *r, const struct pg_result *res)
{
	task_end(r->api, &(struct task_spec){
			     .op = pg_text(res, 0, 7),
			     .tenant = r->who.tenant,
			     .node = pg_text(res, 0, 6),
			     .traceparent = r->traceparent,
			     .sandbox = pg_text(res, 0, 3),
			     .generation = pg_int(res, 0, 4, 0),
			     .fence = pg_int(res, 0, 5, 0),
			 });
}

static void on_ended(struct req *r, const struct pg_result *res,
		     const char *sqlstate)
{
	owned_str pair = NULL;
	const char *outcome;
	int64_t wait_s = 0;

	if (*sqlstate) {
		req_refused(r, sqlstate, "sandbox");
		return;
	}
	outcome = pg_text(res, 0, 0);
	r->replayed = strcmp(outcome, "replay") == 0;
	if (strcmp(outcome, "accepted") == 0)
		on_end_accepted(r, res);
	if (strcmp(outcome, "already") == 0 || !pg_text(res, 0, 7)) {
		pair = req_pair(pg_text(res, 0, 2), pg_text(res, 0, 1));
		req_json(r, 200, pair);
		return;
	}
	if (!req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		return;
	wait_answer(r, ANSWER_END, wait_s, pg_text(res, 0, 7),
		    pg_text(res, 0, 8), pg_text(res, 0, 2), pg_text(res, 0, 1));
}

void h_sandbox_end(struct req *r)
{
	char op[24] = "op_", hmac[65], match[IF_MATCH_MAX];
	const char *idem;
	int64_t wait_s;

	if (!req_idem(r, &idem) || !req_if_match(r, match) ||
	    !req_query_int(r, "wait_s", 0, WAIT_S_MAX, 0, &wait_s))
		return;
	random_id(op + 3, 20);
	req_body_hmac(r, hmac);
	req_db(r, &st_end,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id"), op, "request", r->who.key,
				 r->trace, r->api->owner, STR(TASK_LEASE_S),
				 STR(TASK_END_S), r->route->path, idem, hmac,
				 *match ? match : NULL },
	       on_ended);
}

/* ---- metrics ---- */

static void on_metrics_guest(struct req *r, const struct guest *g)
{
	proxy_start(r, &(struct proxy_spec){ .sandbox = g->id,
					     .data_path = g->data_path,
					     .method = "GET",
					     .path = "/v1/metrics",
					     .mode = PROXY_JSON });
}

void h_sandbox_metrics(struct req *r)
{
	if (metrics_series_asked(r)) {
		metrics_series(r);
		return;
	}
	guest_find(r, req_param(r, "id"), on_metrics_guest);
}
