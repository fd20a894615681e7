/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

struct entry {
	struct principal who;
	char sha256[DIGEST_HEX];
	uint64_t at_ms;
	bool revoked;
};

struct auth_cache {
	struct map *by_prefix; /* struct entry */
};

struct auth_cache *auth_cache_new(void)
{
	struct auth_cache *c = xnew(struct auth_cache);

	c->by_prefix = map_new();
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
	drop_all(c);
	free(c);
	return NULL;
}

void auth_forget(struct auth_cache *c, const char *prefix)
{
	free(map_del(c->by_prefix, prefix));
}

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

/* The entry speaks for the prefix; the key must be the one that was hashed. */
static void judge(struct req *r, const struct entry *x, const char *key,
		  void (*done)(struct req *, const struct fault *))
{
	char hex[DIGEST_HEX];

	digest_sha256_hex(key, AUTH_KEY_LENGTH, hex);
	if (!equal_consttime(hex, x->sha256, sizeof(hex))) {
		refuse(r, "this key is not known", done);
		return;
	}
	if (x->revoked) {
		refuse(r, "this key was revoked", done);
		return;
	}
	r->who = x->who;
	done(r, NULL);
}

/* ---- not in the cache ---- */

static struct pg_stmt st_lookup = {
	"key_lookup",
	"SELECT id, tenant, project, role, name, "
	"sha256, revoked FROM caisson.key_lookup($1)",
	1, 0
};

struct lookup {
	struct req *req;
	void (*done)(struct req *r, const struct fault *f);
	char key[AUTH_KEY_LENGTH + 1];
};

static void copy(char *to, size_t max, const char *from)
{
	snprintf(to, max, "%s", from ? from : "");
}

static struct entry *entry_new(const struct pg_result *res, uint64_t now_ms)
{
	struct entry *x = xnew(struct entry);

	copy(x->who.key, sizeof(x->who.key), pg_text(res, 0, 0));
	copy(x->who.tenant, sizeof(x->who.tenant), pg_text(res, 0, 1));
	copy(x->who.project, sizeof(x->who.project), pg_text(res, 0, 2));
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
	char prefix[AUTH_PREFIX + 1];
	struct fault f;

	if (e) {
		fault_of_db(&f, e);
		k->done(r, &f);
	} else if (pg_rows(res) == 0) {
		refuse(r, "this key is not known", k->done);
	} else {
		x = entry_new(res, loop_now_ms(r->api->loop));
		memcpy(prefix, k->key, AUTH_PREFIX);
		prefix[AUTH_PREFIX] = '\0';
		remember(r->api, prefix, x);
		judge(r, x, k->key, k->done);
	}
	req_unref(r);
	explicit_bzero(k, sizeof(*k));
	free(k);
}

void auth_request(struct req *r,
		  void (*done)(struct req *r, const struct fault *f))
{
	const char *key = auth_key(req_header(r, "authorization"),
				   req_header(r, "x-api-key"));
	char prefix[AUTH_PREFIX + 1];
	const char *params[] = { prefix };
	struct entry *x;
	struct lookup *k;
	struct err e = { 0 };
	struct fault f;

	if (!key) {
		refuse(r, "no API key, or not in the form e2b_ + 40 hex digits",
		       done);
		return;
	}
	memcpy(prefix, key, AUTH_PREFIX);
	prefix[AUTH_PREFIX] = '\0';
	x = map_get(r->api->auth->by_prefix, prefix);
	if (x && loop_now_ms(r->api->loop) - x->at_ms < AUTH_TTL_MS) {
		judge(r, x, key, done);
		return;
	}
	k = xnew(struct lookup);
	k->req = req_ref(r);
	k->done = done;
	memcpy(k->key, key, AUTH_KEY_LENGTH + 1);
	if (pg_query(r->api->db, &st_lookup, params, 5000, on_found, k, &e) ==
	    0)
		return;
	free(k);
	fault_of_db(&f, &e);
	done(r, &f);
	req_unref(r);
}
