/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "api/limit.h"
#include "api/token.h"
#include "base/map.h"
#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

#define WATCH_MS 2000u /* below AUTH_TTL_MS, with room for a slow answer */

struct entry {
	struct principal who;
	char sha256[DIGEST_HEX];
	uint64_t at_ms;
	bool revoked;
};

struct auth_cache {
	struct api *api;
	struct map *by_prefix; /* struct entry */
	uint64_t epoch;	       /* changes when anything is revoked here */
	struct limit *by_address, *by_key;
	struct list watches;
	struct loop_timer timer; /* while there are watches */
	bool asking;
};

struct auth_cache *auth_cache_new(struct api *a)
{
	struct auth_cache *c = xnew(struct auth_cache);
	unsigned burst = a->conf.guess_burst;

	c->api = a;
	c->by_prefix = map_new();
	c->by_address =
	    limit_new(AUTH_GUESSES_PER_S, burst ? burst : AUTH_ADDRESS_BURST);
	c->by_key =
	    limit_new(AUTH_GUESSES_PER_S, burst ? burst : AUTH_PREFIX_BURST);
	list_init(&c->watches);
	return c;
}

static void drop_all(struct auth_cache *c)
{
	const char *key;
	void *v;
	size_t pos = 0;

	while (map_next(c->by_prefix, &pos, &key, &v))
		free(v);
	map_free(c->by_prefix);
}

struct auth_cache *auth_cache_free(struct auth_cache *c)
{
	if (!c)
		return NULL;
	while (!list_empty(&c->watches))
		auth_watch_del(list_entry(list_first(&c->watches),
					  struct auth_watch, link));
	loop_timer_del(&c->timer);
	limit_free(c->by_address);
	limit_free(c->by_key);
	drop_all(c);
	free(c);
	return NULL;
}

/* ---- revocation ---- */

static bool is_of(const char *mine, const char *wanted)
{
	return !wanted || strcmp(mine, wanted) == 0;
}

/* A callback may take others off the list: begin anew after each. */
static void tell_watches(struct auth_cache *c, const char *key,
			 const char *tenant)
{
	struct auth_watch *w;
	bool told = true;

	while (told) {
		told = false;
		list_for_each (w, &c->watches, link) {
			if (!is_of(w->key, key) || !is_of(w->tenant, tenant))
				continue;
			auth_watch_del(w);
			w->revoked(w);
			told = true;
			break;
		}
	}
}

static void forget(struct auth_cache *c, const char *key, const char *tenant)
{
	const char *prefix;
	void *v;
	size_t pos = 0;

	c->epoch++;
	while (map_next(c->by_prefix, &pos, &prefix, &v)) {
		struct entry *x = v;

		if (is_of(x->who.key, key) && is_of(x->who.tenant, tenant))
			free(map_del(c->by_prefix, prefix));
	}
	tell_watches(c, key, tenant);
}

void auth_revoked(struct auth_cache *c, const char *key_id)
{
	forget(c, key_id, NULL);
}

void auth_revoked_tenant(struct auth_cache *c, const char *tenant)
{
	forget(c, NULL, tenant);
}

/* ---- watches: what other processes revoked ---- */

static struct pg_stmt st_dead = { "keys_dead",
				  "SELECT id FROM caisson.keys_dead($1)", 1,
				  0 };

static void on_watch_time(struct loop_timer *t);

static void on_dead(void *arg, const struct pg_result *res, const struct err *e)
{
	struct api *a = arg;
	struct auth_cache *c = a->auth;

	if (a->stopping)
		return;
	c->asking = false;
	for (int i = 0; !e && i < pg_rows(res); i++)
		forget(c, pg_text(res, i, 0), NULL);
	if (!list_empty(&c->watches) && !c->timer.loop)
		loop_timer_set(a->loop, &c->timer, WATCH_MS, on_watch_time);
}

static void on_watch_time(struct loop_timer *t)
{
	struct auth_cache *c = container_of(t, struct auth_cache, timer);
	struct map *seen = map_new();
	const struct auth_watch *w;
	const char *params[1];
	struct buf ids;

	if (list_empty(&c->watches)) {
		map_free(seen);
		return;
	}
	buf_init(&ids, 0);
	buf_puts(&ids, "{");
	list_for_each (w, &c->watches, link)
		if (!map_set(seen, w->key, c))
			buf_printf(&ids, "%s%s", map_len(seen) > 1 ? "," : "",
				   w->key);
	buf_puts(&ids, "}");
	params[0] = buf_cstr(&ids);
	c->asking = pg_query(c->api->db, &st_dead, params, 2000, on_dead,
			     c->api, NULL) == 0;
	if (!c->asking)
		loop_timer_set(c->api->loop, &c->timer, WATCH_MS,
			       on_watch_time);
	buf_fini(&ids);
	map_free(seen);
}

void auth_watch_add(struct auth_cache *c, struct auth_watch *w,
		    const struct principal *who,
		    void (*revoked)(struct auth_watch *w))
{
	snprintf(w->key, sizeof(w->key), "%s", who->key);
	snprintf(w->tenant, sizeof(w->tenant), "%s", who->tenant);
	w->revoked = revoked;
	list_add_tail(&c->watches, &w->link);
	if (!c->asking && !c->timer.loop)
		loop_timer_set(c->api->loop, &c->timer, WATCH_MS,
			       on_watch_time);
}

void auth_watch_del(struct auth_watch *w)
{
	if (w->link.next) /* not a watch that was never added */
		list_del(&w->link);
}

/* ---- what was sent ---- */

const char *auth_key(const char *authorization, const char *x_api_key)
{
	const char *key = x_api_key;

	if (authorization) {
		if (strncasecmp(authorization, "Bearer ", 7) != 0)
			return NULL;
		key = authorization + 7;
		while (*key == ' ')
			key++;
	}
	if (!key || strlen(key) != AUTH_KEY_LENGTH ||
	    strncmp(key, "e2b_", 4) != 0 ||
	    strspn(key + 4, "0123456789abcdef") != AUTH_KEY_LENGTH - 4)
		return NULL;
	return key;
}

/* A preview (the one kind of request without a route) may have an Authorization
 * that is for the guest's server: ours is then in X-API-Key. */
static const char *authorization_of(const struct req *r)
{
	const char *v = req_header(r, "authorization");
	const char *text;

	if (!v || r->route)
		return v;
	if (strncasecmp(v, "Bearer ", 7) != 0)
		return NULL;
	text = v + 7 + strspn(v + 7, " ");
	return auth_key(NULL, text) || token_form(text) ? v : NULL;
}

/* A token in Authorization or X-API-Key, or where a browser's WebSocket can put
 * it: Sec-WebSocket-Protocol: …, bearer.TOKEN. */
static bool token_of(struct req *r, char ret[TOKEN_TEXT])
{
	const char *auth = authorization_of(r);
	const char *key = req_header(r, "x-api-key");
	const char *list = req_header(r, "sec-websocket-protocol");
	const char *at = NULL;

	if (auth && strncasecmp(auth, "Bearer ", 7) == 0)
		at = auth + 7 + strspn(auth + 7, " ");
	else if (!auth && key)
		at = key;
	else if (!auth && list)
		at = strstr(list, "bearer.");
	if (!at)
		return false;
	if (!auth && !key)
		at += strlen("bearer.");
	if (strcspn(at, ", ") != TOKEN_LENGTH)
		return false;
	snprintf(ret, TOKEN_TEXT, "%.*s", (int)TOKEN_LENGTH, at);
	return token_form(ret);
}

/* What a request brought: a key, or a token that names one. */
struct claim {
	char key[AUTH_KEY_LENGTH + 1]; /* "" for a token */
	struct token token;
	char prefix[AUTH_PREFIX + 1];
};

struct lookup {
	struct req *req;
	void (*done)(struct req *r, const struct fault *f);
	uint64_t epoch;
	struct claim claim;
};

static void refuse(struct req *r, const char *what,
		   void (*done)(struct req *, const struct fault *))
{
	struct fault f;

	fault_set(&f, "unauthenticated", "policy",
		  "send `Authorization: Bearer KEY`; `caisson up` writes a key "
		  "to ~/.config/caisson",
		  "%s", what);
	done(r, &f);
}

static bool claim_of(struct req *r, struct claim *ret,
		     void (*done)(struct req *, const struct fault *))
{
	const char *key =
	    auth_key(authorization_of(r), req_header(r, "x-api-key"));
	char text[TOKEN_TEXT];
	enum token_result what;
	struct fault f;

	*ret = (struct claim){ 0 };
	if (key) {
		memcpy(ret->key, key, AUTH_KEY_LENGTH + 1);
		memcpy(ret->prefix, key, AUTH_PREFIX);
		return true;
	}
	if (!token_of(r, text)) {
		refuse(r, "no API key, or not in the form e2b_ + 40 hex digits",
		       done);
		return false;
	}
	if (!r->api->has_secret) {
		/* just started: nothing is known of this token, good or bad */
		fault_set(&f, "store_unavailable", "store", "repeat the call",
			  "tokens cannot be read before the database was");
		done(r, &f);
		return false;
	}
	what =
	    token_read(r->api->secret, text, (int64_t)time(NULL), &ret->token);
	if (what == TOKEN_GOOD) {
		memcpy(ret->prefix, ret->token.prefix, AUTH_PREFIX);
		return true;
	}
	if (what == TOKEN_EXPIRED) {
		fault_set(&f, "token_expired", "policy",
			  "ask for a new token: POST /v1/tokens, or create or "
			  "POST /v1/execs/{ex}/token",
			  "this token is no longer good");
		done(r, &f);
		return false;
	}
	refuse(r, "this token is not one of this server's", done);
	return false;
}

/* ---- judging ---- */

static bool fits(const struct claim *k, const struct entry *x)
{
	char hex[DIGEST_HEX];

	if (!*k->key) /* genuine by its HMAC; the key must be the same one */
		return strcmp(k->token.key, x->who.key) == 0;
	digest_sha256_hex(k->key, AUTH_KEY_LENGTH, hex);
	return equal_consttime(hex, x->sha256, sizeof(hex));
}

/* A wrong key: count it. */
static void wrong(struct req *r, const struct claim *k,
		  void (*done)(struct req *, const struct fault *))
{
	struct auth_cache *c = r->api->auth;
	uint64_t now_ms = loop_now_ms(r->api->loop);
	char peer[REQ_PEER];

	req_peer(r, peer);
	limit_take(c->by_address, peer, now_ms);
	limit_take(c->by_key, k->prefix, now_ms);
	refuse(r, "this key is not known", done);
}

/* true: answered 429. */
static bool too_many(struct req *r, const struct claim *k,
		     void (*done)(struct req *, const struct fault *))
{
	struct auth_cache *c = r->api->auth;
	uint64_t now_ms = loop_now_ms(r->api->loop);
	unsigned a, b;
	char peer[REQ_PEER];
	struct fault f;

	req_peer(r, peer);
	a = limit_wait_s(c->by_address, peer, now_ms);
	b = limit_wait_s(c->by_key, k->prefix, now_ms);
	if (!a && !b)
		return false;
	fault_set(&f, "rate_limited", "policy",
		  "wait, and use the key as it was shown when it was made",
		  "too many wrong keys from this address or with this "
		  "beginning");
	f.retry_after_s = (int)(a > b ? a : b);
	done(r, &f);
	return true;
}

static void narrow(struct principal *who, const struct token *t)
{
	who->exp_s = t->exp_s;
	if (t->kind == TOKEN_ATTACH) {
		snprintf(who->scope.exec, sizeof(who->scope.exec), "%s",
			 t->subject);
		who->scope.watch = t->watch;
	} else {
		snprintf(who->scope.sandbox, sizeof(who->scope.sandbox), "%s",
			 t->subject);
		who->scope.allow = t->allow;
	}
}

/* The entry speaks for the prefix; the key must be the one that was hashed. */
static void judge(struct req *r, const struct entry *x, const struct claim *k,
		  void (*done)(struct req *, const struct fault *))
{
	if (!fits(k, x)) {
		wrong(r, k, done);
		return;
	}
	if (x->revoked) {
		refuse(r, "this key was revoked", done);
		return;
	}
	r->who = x->who;
	if (!*k->key)
		narrow(&r->who, &k->token);
	done(r, NULL);
}

/* ---- not in the cache ---- */

static struct pg_stmt st_lookup = {
	"key_lookup",
	"SELECT id, tenant, project, role, name, "
	"sha256, revoked FROM caisson.key_lookup($1)",
	1, 0
};

static void copy(char *to, size_t max, const char *from)
{
	snprintf(to, max, "%s", from ? from : "");
}

static struct entry *entry_new(const struct pg_result *res, const char *prefix,
			       uint64_t now_ms)
{
	struct entry *x = xnew(struct entry);

	copy(x->who.key, sizeof(x->who.key), pg_text(res, 0, 0));
	copy(x->who.tenant, sizeof(x->who.tenant), pg_text(res, 0, 1));
	copy(x->who.project, sizeof(x->who.project), pg_text(res, 0, 2));
	copy(x->who.prefix, sizeof(x->who.prefix), prefix);
	if (!role_parse(pg_text(res, 0, 3), &x->who.role))
		x->who.role = ROLE_OPEN; /* a role of a newer version */
	copy(x->who.name, sizeof(x->who.name), pg_text(res, 0, 4));
	copy(x->sha256, sizeof(x->sha256), pg_text(res, 0, 5));
	x->revoked = pg_bool(res, 0, 6);
	x->at_ms = now_ms;
	return x;
}

static void remember(struct api *a, const char *prefix, struct entry *x)
{
	if (map_len(a->auth->by_prefix) >= AUTH_CACHE_MAX) {
		drop_all(a->auth);
		a->auth->by_prefix = map_new();
	}
	free(map_set(a->auth->by_prefix, prefix, x));
}

static void on_found(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct lookup *k = arg;
	struct req *r = k->req;
	struct entry *x;
	struct fault f;

	if (e) {
		fault_of_db(&f, e);
		k->done(r, &f);
	} else if (pg_rows(res) == 0) {
		wrong(r, &k->claim, k->done);
	} else {
		x = entry_new(res, k->claim.prefix, loop_now_ms(r->api->loop));
		judge(r, x, &k->claim, k->done);
		/* something was revoked meanwhile: perhaps this one, after it
		 * was read */
		if (k->epoch == r->api->auth->epoch)
			remember(r->api, k->claim.prefix, x);
		else
			free(x);
	}
	req_unref(r);
	explicit_bzero(k, sizeof(*k));
	free(k);
}

static void look_up(struct req *r, const struct claim *claim,
		    void (*done)(struct req *, const struct fault *))
{
	struct lookup *k = xnew(struct lookup);
	const char *params[] = { k->claim.prefix };
	struct err e = { 0 };
	struct fault f;

	k->req = req_ref(r);
	k->done = done;
	k->epoch = r->api->auth->epoch;
	k->claim = *claim;
	if (pg_query(r->api->db, &st_lookup, params, 5000, on_found, k, &e) ==
	    0)
		return;
	explicit_bzero(k, sizeof(*k));
	free(k);
	fault_of_db(&f, &e);
	done(r, &f);
	req_unref(r);
}

void auth_request(struct req *r,
		  void (*done)(struct req *r, const struct fault *f))
{
	struct claim k;
	struct entry *x;
	bool known;

	if (!claim_of(r, &k, done))
		return;
	x = map_get(r->api->auth->by_prefix, k.prefix);
	known = x && fits(&k, x);
	if (!known && too_many(r, &k, done))
		return;
	if (x && loop_now_ms(r->api->loop) - x->at_ms < AUTH_TTL_MS)
		judge(r, x, &k, done);
	else
		look_up(r, &k, done);
	explicit_bzero(&k, sizeof(k));
}

/* ---- rights ---- */

/* The exec's id carries its sandbox's 20 characters. */
static bool names_sandbox(const struct route_params *p, const char *sandbox)
{
	const char *id = route_param(p, "id"), *ex = route_param(p, "ex");

	if (id)
		return strcmp(id, sandbox) == 0;
	return !ex ||
	       (strlen(ex) == 31 && strncmp(ex + 3, sandbox + 2, 20) == 0);
}

static bool may_by_token(const struct principal *who, const struct route *route,
			 const struct route_params *params, struct fault *f)
{
	unsigned bit = route_allow(route);
	const char *ex = route_param(params, "ex");

	if (*who->scope.exec) {
		if (ex && strcmp(ex, who->scope.exec) == 0 &&
		    strcmp(route->method, "GET") == 0)
			return true;
		fault_set(f, "policy_denied", "policy",
			  "use the key, or a token of POST /v1/tokens",
			  "this token is good for attaching to one exec only");
		return false;
	}
	if (!bit || (bit != ALLOW_ANY && !(who->scope.allow & bit))) {
		fault_set(f, "policy_denied", "policy",
			  "use the key, or ask for a token that allows it: "
			  "POST /v1/tokens",
			  "this token does not allow this call");
		return false;
	}
	if (names_sandbox(params, who->scope.sandbox))
		return true;
	fault_set(f, "not_found", "request",
		  "a narrowed token knows its own sandbox only, by its id",
		  "no such thing");
	return false;
}

bool auth_may(const struct principal *who, const struct route *route,
	      const struct route_params *params, struct fault *f)
{
	if (who->role < route->role) {
		fault_set(f, "role_required", "policy",
			  "use a key of that role: `caisson key …`, or ask who "
			  "gave you this one",
			  "this call needs role %s; the key is a %s",
			  role_name(route->role), role_name(who->role));
		return false;
	}
	if (!*who->scope.exec && !*who->scope.sandbox)
		return true;
	return may_by_token(who, route, params, f);
}
