/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tokens: a key's rights, narrowed to one exec (attach) or to some kinds of
 * calls on one sandbox (scoped), for a browser or for the code inside.
 *
 * Nothing is stored. A token says itself what it is for, until when, and by
 * which key it was minted, under an HMAC-SHA256 with a key derived from the
 * cluster's secret; any caisson-api of the cluster reads it. What it may do is
 * never more than what its key may do now: whoever takes a token looks the key
 * up (auth.h), so it dies with the key, and tenant and project are the key's,
 * not the token's.
 *
 * Form: "cst_" + 128 characters of base64url over 96 bytes, no padding:
 * version (1) | kind | flags | zero | expiry u64 big endian, Unix seconds |
 * key id, 20 characters | key prefix, 4 bytes | subject, 28 characters, padded
 * with NUL | HMAC, 32 bytes. One token has one spelling. Characters are those
 * of a WebSocket subprotocol, which is how a browser passes it
 * ("bearer.cst_…").
 *
 * Pure; the parser takes hostile bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_LENGTH  132u
#define TOKEN_TEXT    (TOKEN_LENGTH + 1)
#define TOKEN_TTL_MAX 86400 /* seconds */
#define TOKEN_SECRET  32u

enum token_kind { TOKEN_ATTACH = 1, TOKEN_SCOPED = 2 };

struct token {
	enum token_kind kind;
	bool watch;	  /* attach: may only watch */
	unsigned allow;	  /* scoped: bits of enum allow, at least one */
	int64_t exp_s;	  /* Unix seconds; refused from then on */
	char key[32];	  /* id of the key that minted it, key_… */
	char prefix[16];  /* its public prefix, e2b_ + 8 hex digits */
	char subject[32]; /* attach: ex_ + 28; scoped: sb + 20 */
};

/* *t must be well formed (CHECKed). secret: TOKEN_SECRET bytes. */
void token_mint(const uint8_t *secret, const struct token *t,
		char ret[TOKEN_TEXT]);

enum token_result {
	TOKEN_GOOD,
	TOKEN_BAD,     /* not of ours, changed, or of another version */
	TOKEN_EXPIRED, /* genuine; *ret is filled */
};
/* text need not have the form of a token. Says nothing about the key. */
enum token_result token_read(const uint8_t *secret, const char *text,
			     int64_t now_s, struct token *ret);
/* Does it look like one (not: is it good)? */
bool token_form(const char *text);
