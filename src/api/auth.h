/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who asks: a key of the form e2b_ + 40 hex digits, in Authorization: Bearer
 * or X-API-Key, looked up by its public prefix and compared as SHA-256 in
 * constant time; or a narrowed token (token.h), which names its key and is
 * worth nothing without it. What was found is believed for at most AUTH_TTL_MS,
 * so a revoked key is refused everywhere after that time, and here at once.
 *
 * Guessing: every wrong key costs its address and its prefix one; who has none
 * left is answered 429 without a look into the database. Whoever holds a key
 * that was right a moment ago is not hindered by what others try.
 *
 * A stream that stays open watches its key (struct auth_watch): it is told when
 * the key dies, at once or within AUTH_TTL_MS if another process revoked it.
 */

#include "api/req.h"

#define AUTH_TTL_MS	5000u
#define AUTH_CACHE_MAX	4096u
#define AUTH_KEY_LENGTH 44u
#define AUTH_PREFIX	12u
/* wrong keys: what one address, or one prefix, may try at once, and how many
 * a second after that */
#define AUTH_ADDRESS_BURST 60u
#define AUTH_PREFIX_BURST  20u
#define AUTH_GUESSES_PER_S 0.5

struct auth_cache *auth_cache_new(struct api *a);
struct auth_cache *auth_cache_free(struct auth_cache *c);

/* A key (its id), or every key of a tenant, died by this process's hand: it is
 * forgotten and its watches are told, before this returns. */
void auth_revoked(struct auth_cache *c, const char *key_id);
void auth_revoked_tenant(struct auth_cache *c, const char *tenant);

/* A struct auth_watch (req.h) has revoked(): the key is dead; the watch is off
 * the list already. Called from the loop; may free what holds the watch. Every
 * request with a key has one of its own: see on_revoked there. */
/* On until auth_watch_del() or revoked(); w is the caller's. */
void auth_watch_add(struct auth_cache *c, struct auth_watch *w,
		    const struct principal *who,
		    void (*revoked)(struct auth_watch *w));
void auth_watch_del(struct auth_watch *w); /* no-op if it is not on */

/* Fills r->who, then done with NULL; or done with a fault (unauthenticated,
 * token_expired, rate_limited, or the database's). done may run before this
 * returns. It is not called if the request was answered on the way (a full
 * queue). */
void auth_request(struct req *r,
		  void (*done)(struct req *r, const struct fault *f));

/* The key of the two header values (either may be NULL), or NULL if there is
 * none or it has not the form of one. Points into them. Pure. */
const char *auth_key(const char *authorization, const char *x_api_key);

/* May this one use this route for what its path names? false: *f says why. */
bool auth_may(const struct principal *who, const struct route *route,
	      const struct route_params *params, struct fault *f);
