/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/handlers.h"
#include "api/mint.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

/* ---- minting ---- */

static bool mint(struct req *r, struct token *t, int64_t ttl_s,
		 struct minted *ret)
{
	struct fault f;

	if (!r->api->has_secret) {
		fault_set(&f, "store_unavailable", "store", "repeat the call",
			  "tokens cannot be made before the database was read");
		req_fault(r, &f);
		return false;
	}
	t->exp_s = now_unix_ms() / 1000 + ttl_s;
	if (r->who.exp_s && r->who.exp_s < t->exp_s)
		t->exp_s = r->who.exp_s;
	snprintf(t->key, sizeof(t->key), "%s", r->who.key);
	snprintf(t->prefix, sizeof(t->prefix), "%s", r->who.prefix);
	token_mint(r->api->secret, t, ret->text);
	text_rfc3339(t->exp_s * 1000, ret->expires_at);
	return true;
}

bool mint_attach(struct req *r, const char *exec, bool watch, int64_t ttl_s,
		 struct minted *ret)
{
	struct token t = { .kind = TOKEN_ATTACH,
			   .watch = watch || r->who.role < ROLE_DEVELOPER };

	snprintf(t.subject, sizeof(t.subject), "%s", exec);
	return mint(r, &t, ttl_s, ret);
}

bool mint_scoped(struct req *r, const char *sandbox, unsigned allow,
		 int64_t ttl_s, struct minted *ret)
{
	struct token t = { .kind = TOKEN_SCOPED, .allow = allow };

	snprintf(t.subject, sizeof(t.subject), "%s", sandbox);
	return mint(r, &t, ttl_s, ret);
}

char *mint_data_url(const struct req *r, const char *scheme)
{
	const struct api *a = r->api;
	const char *host =
	    r->stream ? http_stream_head(r->stream)->authority : NULL;
	size_t n;

	if (!host)
		host = "localhost";
	if (a->conf.data_url)
		host = a->conf.data_url;
	n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	if (a->conf.data_url || r->side == SIDE_DATA)
		return xasprintf("%s://%s", scheme, host);
	return xasprintf("%s://%.*s:%u", scheme, (int)n, host, a->data_port);
}

/* ---- POST /v1/tokens ---- */

static json_t *allow_json(unsigned allow)
{
	json_t *list = json_array();

	for (unsigned bit = 1; bit <= ALLOW_END; bit <<= 1)
		if (allow & bit)
			json_array_append_new(list,
					      json_string(allow_name(bit)));
	return list;
}

static void answer(struct req *r, const char *sandbox,
		   const struct body_token *b)
{
	owned_json o = json_object();
	owned_str text = NULL;
	struct minted m;

	if (!mint_scoped(r, sandbox, b->allow, b->ttl_s, &m))
		return;
	json_set_take(o, "token", json_string(m.text));
	json_set_take(o, "sandbox", json_string(sandbox));
	json_set_take(o, "allow", allow_json(b->allow));
	json_set_take(o, "expires_at", json_string(m.expires_at));
	json_set_take(o, "key", json_string(r->who.key));
	text = json_text(o);
	req_json(r, 201, text);
	explicit_bzero(&m, sizeof(m));
	explicit_bzero(text, strlen(text));
}

static struct pg_stmt st_get = {
	"token_sandbox",
	"SELECT id, observed FROM caisson.sandbox_get($1, $2, $3)", 3, 0
};

static void on_got(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	struct body_token b;
	const char *observed;
	struct fault f;

	(void)sqlstate;
	if (pg_rows(res) == 0) {
		fault_set(&f, "not_found", "request",
			  "`caisson ls -a` shows what there is",
			  "no such sandbox");
		req_fault(r, &f);
		return;
	}
	observed = pg_text(res, 0, 1);
	if (strcmp(observed, "ended") == 0 || strcmp(observed, "failed") == 0 ||
	    strcmp(observed, "lost") == 0) {
		fault_set(&f, "sandbox_ended", "request",
			  "create a new sandbox", "the sandbox is %s",
			  observed);
		req_fault(r, &f);
	} else if (body_token(r->json, &b, &f) < 0) {
		req_fault(r, &f);
	} else {
		answer(r, pg_text(res, 0, 0), &b);
	}
}

void h_token_create(struct req *r)
{
	struct body_token b;
	struct fault f;

	if (body_token(r->json, &b, &f) < 0)
		req_fault(r, &f);
	else
		req_db(r, &st_get,
		       (const char *[]){ r->who.tenant, r->who.project,
					 b.sandbox },
		       on_got);
}
