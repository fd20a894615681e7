/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/body.h"
#include "api/handlers.h"
#include "api/list.h"
#include "api/node.h"
#include "api/openapi.h"
#include "api/req.h"
#include "api/stats.h"
#include "api/wait.h"
#include "base/own.h"
#include "net/json.h"

void h_healthz(struct req *r)
{
	req_json(r, 200, "{\"alive\":true}");
}

static struct pg_stmt st_ready = { "api_hello",
				   "SELECT schema_version "
				   "FROM caisson.api_hello()",
				   0, 0 };

static void on_ready(struct req *r, const struct pg_result *res,
		     const char *sqlstate)
{
	struct fault f;

	(void)sqlstate;
	if (pg_rows(res) && r->api->has_secret) {
		req_json(r, 200, "{\"ready\":true}");
		return;
	}
	fault_set(&f, "store_unavailable", "store", "`caisson migrate`",
		  "the database has no schema yet");
	req_fault(r, &f);
}

void h_readyz(struct req *r)
{
	req_db(r, &st_ready, NULL, on_ready);
}

void h_metrics(struct req *r)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	stats_write(r->api, &b);
	req_text(r, 200, "text/plain; version=0.0.4", buf_cstr(&b));
	buf_fini(&b);
}

void h_openapi(struct req *r)
{
	owned_str text = openapi_text();

	req_json(r, 200, text);
}

static struct pg_stmt st_whoami = {
	"whoami", "SELECT tenant, project, quotas FROM caisson.whoami($1, $2)",
	2, 0
};

static char *who_text(const struct req *r)
{
	owned_json key = json_object();

	json_set_take(key, "id", json_string(r->who.key));
	json_set_take(key, "name", json_string(r->who.name));
	json_set_take(key, "role", json_string(role_name(r->who.role)));
	json_set_take(key, "prefix", json_string(r->who.prefix));
	return json_text(key);
}

/* What narrows the token; "null" for a whole key. */
static char *scope_text(const struct scope *s)
{
	owned_json o = json_object();
	json_t *allow = json_array();

	for (unsigned bit = 1; bit < ALLOW_ANY; bit <<= 1)
		if (s->allow & bit)
			json_array_append_new(allow,
					      json_string(allow_name(bit)));
	json_set_take(o, "sandbox", json_string(s->sandbox));
	json_set_take(o, "allow", allow);
	return *s->sandbox ? json_text(o) : xstrdup("null");
}

static void on_whoami(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	owned_str key = who_text(r);
	owned_str scope = scope_text(&r->who.scope);
	owned_str engines = nodes_engines(r->api->nodes);
	owned_str text = NULL;

	if (*sqlstate || pg_rows(res) == 0) {
		req_refused(r, "CA404", "project");
		return;
	}
	text = xasprintf(
	    "{\"key\":%s,\"role\":\"%s\",\"scope\":%s,\"tenant\":%s,"
	    "\"project\":%s,\"version\":\"" CAISSON_VERSION "\","
	    "\"api\":\"v1\",\"limits\":{\"body_bytes\":%u,\"ttl_s\":%d,"
	    "\"ttl_default_s\":%d,\"labels\":%u,\"env\":%u,"
	    "\"wait_s\":%d,\"page\":%d,\"calls_per_s\":%u},"
	    "\"quotas\":%s,%s",
	    key, role_name(r->who.role), scope, pg_text(res, 0, 0),
	    pg_text(res, 0, 1), REQ_BODY_MAX, BODY_TTL_MAX, BODY_TTL_DEFAULT,
	    BODY_LABELS_MAX, BODY_ENV_MAX, WAIT_S_MAX, LIST_LIMIT_MAX,
	    r->api->conf.rate_per_s, pg_text(res, 0, 2), engines + 1);
	req_json(r, 200, text);
}

void h_whoami(struct req *r)
{
	req_db(r, &st_whoami, (const char *[]){ r->who.tenant, r->who.project },
	       on_whoami);
}

static struct pg_stmt st_nodes = { "node_items",
				   "SELECT item FROM caisson.node_list()", 0,
				   0 };

static void on_nodes(struct req *r, const struct pg_result *res,
		     const char *sqlstate)
{
	struct buf b;

	(void)sqlstate;
	buf_init(&b, 0);
	buf_puts(&b, "{\"items\":[");
	for (int i = 0; i < pg_rows(res); i++)
		buf_printf(&b, "%s%s", i ? "," : "", pg_text(res, i, 0));
	buf_puts(&b, "],\"next\":null}");
	req_json(r, 200, buf_cstr(&b));
	buf_fini(&b);
}

void h_nodes_list(struct req *r)
{
	req_db(r, &st_nodes, NULL, on_nodes);
}
