/* SPDX-License-Identifier: Apache-2.0 */
#include "api/idem.h"

#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define STR_(x) #x
#define STR(x)	STR_(x)

#define AGAIN_MS 100u /* while another request has the key */
#define DB_MS	 5000u

struct idem {
	struct req *req;
	char key[129];
	char hmac[65];
	void (*go)(struct req *r);
	struct loop_timer timer;
	bool ours;
	bool kept; /* or given back: nothing is left to do */
	/* the answer, while it is being kept */
	int status;
	char *name, *value, *text;
};

/* ---- If-Match ---- */

bool if_match_parse(const char *text, char ret[IF_MATCH_MAX])
{
	size_t n = strlen(text);

	ret[0] = '\0';
	if (strcmp(text, "*") == 0)
		return true;
	if (n < 3 || n > 20 || text[0] != '"' || text[n - 1] != '"' ||
	    strspn(text + 1, "0123456789") != n - 2)
		return false;
	snprintf(ret, IF_MATCH_MAX, "%.*s", (int)n - 2, text + 1);
	return true;
}

bool req_if_match(struct req *r, char ret[IF_MATCH_MAX])
{
	const char *text = req_header(r, "if-match");
	struct fault f;

	ret[0] = '\0';
	if (!text || if_match_parse(text, ret))
		return true;
	fault_set(&f, "invalid_field", "request",
		  "send the ETag of an earlier answer as it came, or *",
		  "If-Match: expected one ETag such as \"7\"");
	snprintf(f.field, sizeof(f.field), "If-Match");
	req_fault(r, &f);
	return false;
}

/* ---- secrets ---- */

static void blank(json_t *v)
{
	json_t *one;
	const char *key;
	size_t i;

	json_array_foreach(v, i, one) blank(one);
	json_object_foreach(v, key, one)
	{
		if ((strcmp(key, "secret") == 0 || strcmp(key, "token") == 0) &&
		    json_is_string(one))
			json_object_set_new(v, key, json_null());
		else
			blank(one);
	}
}

char *idem_without_secrets(const char *text)
{
	owned_json v = NULL;

	if (json_parse(text, strlen(text), &v, NULL) < 0)
		return NULL;
	blank(v);
	return json_text(v);
}

/* ---- which calls ---- */

/* These take the key where what they make is made. */
static bool takes_it_itself(const struct route *route)
{
	return route->run == h_sandbox_create || route->run == h_sandbox_end ||
	       route->run == h_key_create || route->run == h_build_start ||
	       route->run == h_exec_create || route->run == h_exec_run;
}

static bool changes(const struct route *route)
{
	return strcmp(route->method, "GET") != 0 &&
	       strcmp(route->method, "HEAD") != 0;
}

/* ---- taking ---- */

static struct pg_stmt st_take = {
	"idem_take",
	"SELECT outcome, status, location, etag, answer "
	"FROM caisson.idem_take($1, $2, $3, $4, $5, $6, $7)",
	7, 0
};

static void take(struct req *r);

static void on_again(struct loop_timer *t)
{
	struct idem *x = container_of(t, struct idem, timer);

	if (x->req->stream)
		take(x->req);
	req_unref(x->req); /* the timer's */
}

static void replay(struct req *r, const struct pg_result *res)
{
	const char *location = pg_text(res, 0, 2), *etag = pg_text(res, 0, 3);
	const char *text = pg_text(res, 0, 4), *name = NULL;

	if (location || etag)
		name = location ? "location" : "etag";
	r->replayed = true;
	r->idem->kept = true;
	req_json_with(r, (int)pg_int(res, 0, 1, 200), name,
		      location ? location : etag, text ? text : "");
}

static void on_taken(struct req *r, const struct pg_result *res,
		     const char *sqlstate)
{
	struct idem *x = r->idem;

	if (*sqlstate) {
		x->kept = true; /* not ours */
		req_refused(r, sqlstate, "request");
	} else if (strcmp(pg_text(res, 0, 0), "replay") == 0) {
		replay(r, res);
	} else if (strcmp(pg_text(res, 0, 0), "running") == 0) {
		req_ref(r);
		loop_timer_set(r->api->loop, &x->timer, AGAIN_MS, on_again);
	} else {
		x->ours = true;
		x->go(r);
	}
}

static void take(struct req *r)
{
	req_db(r, &st_take,
	       (const char *[]){ r->who.tenant, r->who.project,
				 r->route->method, r->route->path, r->idem->key,
				 r->idem->hmac, STR(IDEM_LEASE_S) },
	       on_taken);
}

void idem_begin(struct req *r, void (*go)(struct req *r))
{
	const char *key = NULL;

	if (r->side != SIDE_CONTROL || !changes(r->route) || r->route->stream ||
	    takes_it_itself(r->route)) {
		go(r);
		return;
	}
	if (!req_idem(r, &key))
		return;
	if (!key) {
		go(r);
		return;
	}
	r->idem = xnew(struct idem);
	r->idem->req = r;
	r->idem->go = go;
	snprintf(r->idem->key, sizeof(r->idem->key), "%s", key);
	req_body_hmac(r, r->idem->hmac);
	take(r);
}

/* ---- keeping ---- */

static struct pg_stmt st_keep = {
	"idem_keep",
	"SELECT caisson.idem_keep($1, $2, $3, $4, $5, $6, $7, $8, $9)", 9, 0
};
static struct pg_stmt st_drop = {
	"idem_drop", "SELECT caisson.idem_drop($1, $2, $3, $4, $5)", 5, 0
};

static void say(struct req *r)
{
	struct idem *x = r->idem;

	req_json_with(r, x->status, x->name, x->value, x->text);
}

/* Kept or not, the change is made: the client is told. */
static void on_kept(void *arg, const struct pg_result *res, const struct err *e)
{
	struct req *r = arg;

	(void)res;
	if (e)
		log_warn("answer_not_kept", "id=%s error=%s", r->id, e->msg);
	say(r);
	req_unref(r);
}

static char *text_of(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static bool is(const struct idem_answer *x, const char *name)
{
	return x->name && strcmp(x->name, name) == 0;
}

/* Refused: the key is free again, before the client may use it again. */
static bool give_back(struct req *r)
{
	const char *params[] = { r->who.tenant, r->who.project,
				 r->route->method, r->route->path,
				 r->idem->key };

	return pg_query(r->api->db, &st_drop, params, DB_MS, on_kept,
			req_ref(r), NULL) == 0;
}

static bool keep(struct req *r, const struct idem_answer *a)
{
	owned_str text = idem_without_secrets(a->text);
	char status[16];
	const char *params[] = { r->who.tenant,
				 r->who.project,
				 r->route->method,
				 r->route->path,
				 r->idem->key,
				 status,
				 is(a, "location") ? a->value : NULL,
				 is(a, "etag") ? a->value : NULL,
				 text ? text : "" };

	snprintf(status, sizeof(status), "%d", a->status);
	return pg_query(r->api->db, &st_keep, params, DB_MS, on_kept,
			req_ref(r), NULL) == 0;
}

bool idem_answer(struct req *r, const struct idem_answer *a)
{
	struct idem *x = r->idem;

	if (!x || !x->ours || x->kept)
		return false;
	x->kept = true;
	x->status = a->status;
	x->name = text_of(a->name);
	x->value = text_of(a->value);
	x->text = text_of(a->text);
	if (a->status < 400 ? keep(r, a) : give_back(r))
		return true;
	req_unref(r); /* the query's */
	return false;
}

static void ignore(void *arg, const struct pg_result *res, const struct err *e)
{
	(void)arg;
	(void)res;
	(void)e;
}

void idem_fini(struct req *r)
{
	struct idem *x = r->idem;
	const char *params[] = { r->who.tenant, r->who.project,
				 r->route ? r->route->method : "",
				 r->route ? r->route->path : "",
				 x ? x->key : "" };

	if (!x)
		return;
	/* answered in a way that is not kept, or not at all */
	if (x->ours && !x->kept && !r->api->stopping)
		pg_query(r->api->db, &st_drop, params, DB_MS, ignore, NULL,
			 NULL);
	loop_timer_del(&x->timer);
	free(x->name);
	free(x->value);
	if (x->text)
		explicit_bzero(x->text, strlen(x->text));
	free(x->text);
	free(x);
	r->idem = NULL;
}
