/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/auth.h"
#include "api/body.h"
#include "api/handlers.h"
#include "api/list.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "tls/digest.h"

static const char *operator(const struct req *r)
{
	return r->who.role == ROLE_OPERATOR ? "true" : "false";
}

static struct pg_stmt st_list = {
	"key_list",
	"SELECT seq, item FROM caisson.key_list($1, $2, $3, $4, $5, $6)", 6, 0
};

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate, "project");
	else
		list_answer(r, 'k', res);
}

void h_key_list(struct req *r)
{
	owned_str project = req_query(r, "project");
	struct list_query q;

	if (list_query(r, 'k', &q))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit,
					 project, operator(r) },
		       on_listed);
}

/* ---- create ---- */

static struct pg_stmt st_create = {
	"key_create",
	"SELECT outcome, key FROM caisson.key_create($1, $2, $3, $4, $5, $6, "
	"$7, $8, $9, $10, $11, $12)",
	12, 0
};

static void drop_secret(struct req *r)
{
	explicit_bzero(r->state, strlen(r->state));
	free(r->state);
}

/* The secret travels in r->state and is shown in this answer only. */
static void on_created(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	const char *secret = r->state;
	owned_str text = NULL;
	owned_json o = NULL;
	const char *record;

	if (*sqlstate || !pg_text(res, 0, 1)) {
		req_refused(r, *sqlstate ? sqlstate : "CA404", "project");
		return;
	}
	record = pg_text(res, 0, 1);
	r->replayed = strcmp(pg_text(res, 0, 0), "replay") == 0;
	if (json_parse(record, strlen(record), &o, NULL) < 0)
		o = json_object();
	json_set_take(o, "secret",
		      r->replayed ? json_null() : json_string(secret));
	text = json_text(o);
	req_json(r, 201, text);
	explicit_bzero(text, strlen(text));
}

void h_key_create(struct req *r)
{
	char id[28] = "key_", prefix[AUTH_PREFIX + 1], hash[DIGEST_HEX],
	     hmac[65], hex[41];
	uint8_t random[20];
	const char *idem;
	struct body_key b;
	struct fault f;
	char *secret;

	if (!req_idem(r, &idem))
		return;
	if (body_key(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	if (b.role > r->who.role) {
		fault_set(&f, "role_required", "policy",
			  "ask an operator for such a key",
			  "a key cannot make one with a higher role than its "
			  "own");
		req_fault(r, &f);
		return;
	}
	random_bytes(random, sizeof(random));
	text_hex(random, sizeof(random), hex);
	secret = xasprintf("e2b_%s", hex);
	snprintf(prefix, sizeof(prefix), "%.12s", secret);
	digest_sha256_hex(secret, strlen(secret), hash);
	explicit_bzero(random, sizeof(random));
	explicit_bzero(hex, sizeof(hex));
	random_id(id + 4, 20);
	req_body_hmac(r, hmac);
	r->state = secret;
	r->drop = drop_secret;
	req_db(r, &st_create,
	       (const char *[]){ r->who.tenant, r->who.project, id, b.name,
				 role_name(b.role), prefix, hash,
				 r->route->path, idem, hmac,
				 b.project, operator(r) },
	       on_created);
}

/* ---- revoke ---- */

static struct pg_stmt st_revoke = {
	"key_revoke",
	"SELECT k, k ->> 'id' FROM caisson.key_revoke($1, $2, $3, $4) AS k", 4,
	0
};

static void on_revoked(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	if (*sqlstate || !pg_rows(res) || !pg_text(res, 0, 0)) {
		req_refused(r, "CA404", "key");
		return;
	}
	auth_revoked(r->api->auth, pg_text(res, 0, 1));
	req_json(r, 200, pg_text(res, 0, 0));
}

void h_key_revoke(struct req *r)
{
	req_db(r, &st_revoke,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "key"), operator(r) },
	       on_revoked);
}
