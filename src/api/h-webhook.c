/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/h-webhook-body.h"
#include "api/handlers.h"
#include "api/idem.h"
#include "api/list.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "tls/digest.h"
#include "tls/seal.h"

#define WEBHOOKS_MAX "20" /* of one project */

/* ---- secrets ---- */

/* The same as caisson.webhook_key(). */
static void webhook_key(const struct api *a, uint8_t ret[SEAL_KEY])
{
	struct digest *d = digest_new();

	digest_update(d, "caisson webhook secrets 1", 25);
	digest_update(d, a->secret, sizeof(a->secret));
	digest_final(d, ret);
	digest_free(d);
}

/* An array literal of sealed secrets, bound to the webhook's id; new. */
static char *sealed(const struct api *a, const char *id,
		    const char *const *secrets, size_t n)
{
	uint8_t key[SEAL_KEY], box[WEBHOOK_SECRET_MAX + SEAL_OVERHEAD];
	char hex[2 * sizeof(box) + 1];
	struct buf b;
	char *text;

	webhook_key(a, key);
	buf_init(&b, 0);
	buf_puts(&b, "{");
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(secrets[i]);

		seal(key, id, secrets[i], len, box);
		text_hex(box, len + SEAL_OVERHEAD, hex);
		buf_printf(&b, "%s\"\\\\x%s\"", i ? "," : "", hex);
	}
	buf_puts(&b, "}");
	explicit_bzero(key, sizeof(key));
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}

/* ---- refusals ---- */

/* An address in the URL is judged here too, so that the mistake is seen at
 * once; a name is judged when it is connected to. */
static bool may_go(struct req *r, const struct target *t)
{
	const struct api_conf *c = &r->api->conf;
	struct addr_net net;
	struct fault f;

	if (t->kind != ADDR_HOST_ADDRESS)
		return true;
	for (size_t i = 0; i < c->n_webhook_allow; i++)
		if (addr_net_parse(c->webhook_allow[i],
				   strlen(c->webhook_allow[i]), &net) &&
		    addr_net_has(&net, &t->addr))
			return true;
	if (addr_classify(&t->addr) == ADDR_PUBLIC)
		return true;
	fault_set(&f, "policy_denied", "policy",
		  "use a public address; an operator can let webhooks into a "
		  "network with --webhook-allow CIDR",
		  "url: %s is a %s address", t->host,
		  addr_class_name(addr_classify(&t->addr)));
	snprintf(f.field, sizeof(f.field), "url");
	req_fault(r, &f);
	return false;
}

static void not_found(struct req *r)
{
	req_refused(r, "CA404", "webhook");
}

/* ---- list and get ---- */

static struct pg_stmt st_list = {
	"webhook_list",
	"SELECT seq, item FROM caisson.webhook_list($1, $2, $3, $4)", 4, 0
};
static struct pg_stmt st_get = {
	"webhook_get", "SELECT w FROM caisson.webhook_get($1, $2, $3) AS w", 3,
	0
};

static void on_listed(struct req *r, const struct pg_result *res,
		      const char *sqlstate)
{
	(void)sqlstate;
	list_answer(r, 'w', res);
}

void h_webhook_list(struct req *r)
{
	struct list_query q;

	if (list_query(r, 'w', &q))
		req_db(r, &st_list,
		       (const char *[]){ r->who.tenant, r->who.project,
					 list_after(&q), q.limit },
		       on_listed);
}

static void on_one(struct req *r, const struct pg_result *res,
		   const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate, "webhook");
	else if (!pg_rows(res) || !pg_text(res, 0, 0))
		not_found(r);
	else
		req_json(r, 200, pg_text(res, 0, 0));
}

void h_webhook_get(struct req *r)
{
	req_db(r, &st_get,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "whk") },
	       on_one);
}

/* ---- create ---- */

static struct pg_stmt st_create = {
	"webhook_create",
	"SELECT w FROM caisson.webhook_create($1, $2, $3, $4, $5::text[], "
	"$6::jsonb, $7::bytea[], $8, $9) AS w",
	9, 0
};

static void drop_secret(struct req *r)
{
	explicit_bzero(r->state, strlen(r->state));
	free(r->state);
}

/* A secret that we chose is in r->state and shown in this answer only. */
static void on_created(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	owned_json o = NULL;
	owned_str text = NULL;
	const char *record;
	struct fault f;

	if (strcmp(sqlstate, "CA010") == 0) {
		fault_set(&f, "quota_reached", "quota",
			  "delete one that is not needed",
			  "a project has at most %s webhooks", WEBHOOKS_MAX);
		req_fault(r, &f);
		return;
	}
	if (*sqlstate) {
		req_refused(r, sqlstate, "webhook");
		return;
	}
	record = pg_text(res, 0, 0);
	if (json_parse(record, strlen(record), &o, NULL) < 0)
		o = json_object();
	if (r->state)
		json_set_take(o, "secret", json_string(r->state));
	text = json_text(o);
	req_json(r, 201, text);
	explicit_bzero(text, strlen(text));
}

static char *new_secret(void)
{
	uint8_t random[24];
	char hex[49];
	char *secret;

	random_bytes(random, sizeof(random));
	text_hex(random, sizeof(random), hex);
	secret = xasprintf("whsec_%s", hex);
	explicit_bzero(random, sizeof(random));
	explicit_bzero(hex, sizeof(hex));
	return secret;
}

void h_webhook_create(struct req *r)
{
	owned_str types = NULL;
	owned_str labels = NULL;
	owned_str secrets = NULL;
	char id[28] = "whk_";
	struct body_webhook b;
	const char *chosen;
	struct fault f;

	if (body_webhook(r->json, false, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	if (!may_go(r, &b.target))
		return;
	random_id(id + 4, 20);
	if (!b.n_secrets) {
		r->state = new_secret();
		r->drop = drop_secret;
		chosen = r->state;
		secrets = sealed(r->api, id, &chosen, 1);
	} else {
		secrets = sealed(r->api, id, b.secrets, b.n_secrets);
	}
	types = webhook_types_literal(b.types);
	labels = b.labels ? json_text(b.labels) : NULL;
	req_db(r, &st_create,
	       (const char *[]){ r->who.tenant, r->who.project, id, b.url,
				 types, labels, secrets, WEBHOOKS_MAX,
				 r->who.key },
	       on_created);
}

/* ---- change and delete ---- */

static struct pg_stmt st_update = {
	"webhook_update",
	"SELECT w FROM caisson.webhook_update($1, $2, $3, $4, $5::text[], $6, "
	"$7::jsonb, $8::bytea[], $9, $10) AS w",
	10, 0
};
static struct pg_stmt st_delete = {
	"webhook_delete",
	"SELECT ok FROM caisson.webhook_delete($1, $2, $3) AS ok", 3, 0
};

void h_webhook_update(struct req *r)
{
	owned_str types = NULL;
	owned_str labels = NULL;
	owned_str secrets = NULL;
	const char *id = req_param(r, "whk");
	char generation[IF_MATCH_MAX];
	struct body_webhook b;
	struct fault f;

	if (!req_if_match(r, generation))
		return;
	if (body_webhook(r->json, true, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	if (b.url && !may_go(r, &b.target))
		return;
	types = b.types ? webhook_types_literal(b.types) : NULL;
	labels = b.labels ? json_text(b.labels) : NULL;
	secrets =
	    b.n_secrets ? sealed(r->api, id, b.secrets, b.n_secrets) : NULL;
	req_db(r, &st_update,
	       (const char *[]){ r->who.tenant, r->who.project, id, b.url,
				 types, b.has_labels ? "t" : "f", labels,
				 secrets, b.state,
				 *generation ? generation : NULL },
	       on_one);
}

static void on_deleted(struct req *r, const struct pg_result *res,
		       const char *sqlstate)
{
	(void)sqlstate;
	if (!pg_bool(res, 0, 0))
		not_found(r);
	else
		req_json(r, 200, "{\"deleted\":true}");
}

void h_webhook_delete(struct req *r)
{
	req_db(r, &st_delete,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "whk") },
	       on_deleted);
}

/* ---- deliveries ---- */

static struct pg_stmt st_deliveries = {
	"delivery_list",
	"SELECT seq, item FROM caisson.delivery_list($1, $2, $3, $4, $5, $6)",
	6, 0
};
static struct pg_stmt st_test = {
	"webhook_test",
	"SELECT d FROM caisson.webhook_test($1, $2, $3, $4, $5) AS d", 5, 0
};
static struct pg_stmt st_again = {
	"delivery_again",
	"SELECT d FROM caisson.delivery_again($1, $2, $3, $4) AS d", 4, 0
};

static void on_deliveries(struct req *r, const struct pg_result *res,
			  const char *sqlstate)
{
	if (*sqlstate)
		req_refused(r, sqlstate, "webhook");
	else
		list_answer(r, 'd', res);
}

void h_delivery_list(struct req *r)
{
	owned_str state = req_query(r, "state");
	struct list_query q;

	if (list_query(r, 'd', &q))
		req_db(r, &st_deliveries,
		       (const char *[]){ r->who.tenant, r->who.project,
					 req_param(r, "whk"), list_after(&q),
					 q.limit, state },
		       on_deliveries);
}

static void on_accepted(struct req *r, const struct pg_result *res,
			const char *sqlstate)
{
	struct fault f;

	if (strcmp(sqlstate, "CA003") == 0) {
		fault_set(&f, "wrong_state", "request",
			  "PATCH it to state active first, or wait for the "
			  "try under way",
			  "the webhook is disabled, or this delivery is under "
			  "way");
		req_fault(r, &f);
	} else if (*sqlstate) {
		req_refused(r, sqlstate, "webhook or delivery");
	} else {
		req_json(r, 202, pg_text(res, 0, 0));
	}
}

void h_webhook_test(struct req *r)
{
	req_db(r, &st_test,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "whk"), r->who.key, r->trace },
	       on_accepted);
}

void h_delivery_again(struct req *r)
{
	req_db(r, &st_again,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "whk"), req_param(r, "id") },
	       on_accepted);
}
