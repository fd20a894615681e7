/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tokens for a request's principal (token.h), and the URLs they are for. */

#include "api/req.h"
#include "api/token.h"

struct minted {
	char text[TOKEN_TEXT];
	char expires_at[25];
};

/* Of an exec. A token minted with a token does not outlive it, nor may it more.
 * false: the request was answered (the secret is not known yet). */
bool mint_attach(struct req *r, const char *exec, bool watch, int64_t ttl_s,
		 struct minted *ret);
bool mint_scoped(struct req *r, const char *sandbox, unsigned allow,
		 int64_t ttl_s, struct minted *ret);

/* The data listener as this client sees it: "ws://127.0.0.1:7710", scheme as
 * given; allocated. */
char *mint_data_url(const struct req *r, const char *scheme);
