/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/handlers.h"
#include "api/preview-head.h"
#include "api/req.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "tls/digest.h"

/* The port as a URL of its own: PORT-ID below the preview domain. */
static char *url_of(const struct req *r, const char *sandbox, int64_t port)
{
	const struct api *a = r->api;

	if (a->conf.preview_domain)
		return xasprintf("http://%" PRId64 "-%s.%s", port, sandbox,
				 a->conf.preview_domain);
	return xasprintf("http://%" PRId64 "-%s.localhost:%u", port, sandbox,
			 a->data_port);
}

/* The record of the database with its URL. New reference. */
static json_t *with_url(const struct req *r, const char *text)
{
	json_t *o = NULL;
	const char *sandbox;

	if (json_parse(text, strlen(text), &o, NULL) < 0)
		o = json_object();
	sandbox = json_string_value(json_object_get(o, "sandbox"));
	if (sandbox) {
		owned_str url = url_of(
		    r, sandbox, json_integer_value(json_object_get(o, "port")));

		json_set_take(o, "url", json_string(url));
	}
	return o;
}

/* ---- list ---- */

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	owned_json o = json_object();
	owned_str text = NULL;
	json_t *items = json_array();

	(void)sqlstate;
	json_set_take(o, "items", items);
	json_set_take(o, "next", json_null());
	if (pg_rows(res) == 0) {
		req_refused(r, "CA404", "sandbox");
		return;
	}
	for (int i = 0; i < pg_rows(res); i++)
		if (pg_text(res, i, 1))
			json_array_append_new(items,
					      with_url(r, pg_text(res, i, 1)));
	text = json_text(o);
	req_json(r, 200, text);
}

void h_port_list(struct req *r)
{
	static struct pg_stmt st = {
		"port_list",
		"SELECT sandbox, port FROM caisson.port_list($1, $2, $3)", 3, 0
	};

	req_db(r, &st,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id") },
	       on_listed);
}

/* ---- open ---- */

static void drop_token(struct req *r)
{
	if (r->state)
		explicit_bzero(r->state, strlen(r->state));
	free(r->state);
}

/* The token travels in r->state and is shown in this answer only. */
static void on_set(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	owned_json o = NULL;
	owned_str text = NULL;
	struct fault f;

	if (strcmp(sqlstate, "CA010") == 0) {
		fault_set(&f, "quota_reached", "quota",
			  "close one: DELETE /v1/sandboxes/{id}/ports",
			  "64 ports of this sandbox are open, no more can be");
		req_fault(r, &f);
		return;
	}
	if (*sqlstate) {
		req_refused(r, sqlstate, "sandbox");
		return;
	}
	o = with_url(r, pg_text(res, 0, 2));
	json_set_take(o, "token",
		      r->state ? json_string(r->state) : json_null());
	text = json_text(o);
	req_json(r, pg_bool(res, 0, 0) ? 201 : 200, text);
	explicit_bzero(text, strlen(text));
}

static void set(struct req *r, const struct body_port *b)
{
	static struct pg_stmt st = {
		"port_set",
		"SELECT created, sandbox, port FROM caisson.port_set($1, $2, "
		"$3, $4, $5, $6, $7)",
		7, 0
	};
	char port[8], hash[DIGEST_HEX], hex[41];
	uint8_t random[20];
	bool token = strcmp(b->access, "token") == 0;

	snprintf(port, sizeof(port), "%" PRId64, b->port);
	if (token) {
		random_bytes(random, sizeof(random));
		text_hex(random, sizeof(random), hex);
		r->state = xasprintf("cpt_%s", hex);
		r->drop = drop_token;
		digest_sha256_hex(r->state, PORT_TOKEN_LENGTH, hash);
		explicit_bzero(random, sizeof(random));
		explicit_bzero(hex, sizeof(hex));
	}
	req_db(r, &st,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id"), port, b->access,
				 token ? hash : NULL, r->who.key },
	       on_set);
}

void h_port_set(struct req *r)
{
	struct body_port b;
	struct fault f;

	if (body_port(r->json, &b, &f) < 0)
		req_fault(r, &f);
	else
		set(r, &b);
}

/* ---- close ---- */

static void on_deleted(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	owned_json o = json_object();
	owned_str text = NULL;
	int64_t port = 0;

	if (*sqlstate) {
		req_refused(r, sqlstate, "sandbox");
		return;
	}
	if (!req_query_int(r, "port", 1, 65535, 0, &port))
		return;
	json_set_take(o, "sandbox", json_string(pg_text(res, 0, 1)));
	json_set_take(o, "port", json_integer(port));
	json_set_take(o, "access", json_string("private"));
	json_set_take(o, "removed", json_boolean(pg_bool(res, 0, 0)));
	text = json_text(o);
	req_json(r, 200, text);
}

void h_port_delete(struct req *r)
{
	static struct pg_stmt st = {
		"port_delete",
		"SELECT removed, sandbox FROM caisson.port_delete($1, $2, $3, "
		"$4)",
		4, 0
	};
	struct fault f;
	char text[8];
	int64_t port;

	if (!req_query_int(r, "port", 1, 65535, 0, &port))
		return;
	if (!port) {
		fault_set(&f, "missing_field", "request", "add ?port=PORT",
			  "port: which one is missing");
		snprintf(f.field, sizeof(f.field), "port");
		req_fault(r, &f);
		return;
	}
	snprintf(text, sizeof(text), "%" PRId64, port);
	req_db(r, &st,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id"), text },
	       on_deleted);
}
