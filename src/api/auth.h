/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who asks: a key of the form e2b_ + 40 hex digits, in Authorization: Bearer
 * or X-API-Key, looked up by its public prefix and compared as SHA-256 in
 * constant time. What was found is believed for at most AUTH_TTL_MS, so a
 * revoked key is refused everywhere after that time, and here at once.
 */

#include "api/req.h"

#define AUTH_TTL_MS	5000u
#define AUTH_CACHE_MAX	4096u
#define AUTH_KEY_LENGTH 44u
#define AUTH_PREFIX	12u

struct auth_cache *auth_cache_new(void);
struct auth_cache *auth_cache_free(struct auth_cache *c);
/* Forget a key by its public prefix. */
void auth_forget(struct auth_cache *c, const char *prefix);

/* Fills r->who, then done with NULL; or done with a fault (unauthenticated, or
 * the database's). done may run before this returns. It is not called if the
 * request was answered on the way (a full queue). */
void auth_request(struct req *r,
		  void (*done)(struct req *r, const struct fault *f));

/* The key of the two header values (either may be NULL), or NULL if there is
 * none or it has not the form of one. Points into them. Pure. */
const char *auth_key(const char *authorization, const char *x_api_key);
