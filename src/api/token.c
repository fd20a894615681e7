/* SPDX-License-Identifier: Apache-2.0 */
#include "api/token.h"

#include <stdio.h>
#include <string.h>

#include "api/route.h"
#include "base/check.h"
#include "base/text.h"
#include "tls/digest.h"

#define VERSION 1u

#define BYTES	   96u
#define AT_KIND	   1u
#define AT_FLAGS   2u
#define AT_EXPIRY  4u
#define AT_KEY	   12u
#define AT_PREFIX  32u
#define AT_SUBJECT 36u
#define AT_MAC	   64u

#define N_KEY	  20u
#define N_SUBJECT 28u
#define N_SANDBOX 20u
#define WATCH	  1u
#define ALLOW_ALL                                                              \
	((unsigned)ALLOW_EXEC | (unsigned)ALLOW_FILES |                        \
	 (unsigned)ALLOW_PORTS | (unsigned)ALLOW_END)

static void mac(const uint8_t *secret, const uint8_t *p,
		uint8_t ret[DIGEST_BYTES])
{
	static const char label[] = "caisson token 1";
	uint8_t key[DIGEST_BYTES];

	/* the secret has other uses: a key of this one's own */
	digest_hmac(secret, TOKEN_SECRET, label, sizeof(label), key);
	digest_hmac(key, sizeof(key), p, AT_MAC, ret);
	explicit_bzero(key, sizeof(key));
}

static bool well_formed(const struct token *t)
{
	bool subject = t->kind == TOKEN_ATTACH
			   ? id_valid(t->subject, "ex_", N_SUBJECT)
			   : id_valid(t->subject, "sb", N_SANDBOX);
	bool rights =
	    t->kind == TOKEN_ATTACH
		? t->allow == 0
		: !t->watch && t->allow != 0 && (t->allow & ~ALLOW_ALL) == 0;

	return (t->kind == TOKEN_ATTACH || t->kind == TOKEN_SCOPED) &&
	       subject && rights && t->exp_s > 0 &&
	       id_valid(t->key, "key_", N_KEY) &&
	       strncmp(t->prefix, "e2b_", 4) == 0 && strlen(t->prefix) == 12 &&
	       strspn(t->prefix + 4, "0123456789abcdef") == 8;
}

void token_mint(const uint8_t *secret, const struct token *t,
		char ret[TOKEN_TEXT])
{
	uint8_t b[BYTES] = { VERSION, (uint8_t)t->kind };
	const char *subject = t->subject + (t->kind == TOKEN_ATTACH ? 3 : 2);
	const size_t n_subject =
	    t->kind == TOKEN_ATTACH ? N_SUBJECT : N_SANDBOX;
	char text[TOKEN_TEXT];

	CHECK(well_formed(t));
	b[AT_FLAGS] = (uint8_t)(t->kind == TOKEN_ATTACH ? (t->watch ? WATCH : 0)
							: t->allow);
	for (unsigned i = 0; i < 8; i++)
		b[AT_EXPIRY + i] =
		    (uint8_t)((uint64_t)t->exp_s >> (56 - 8 * i));
	memcpy(b + AT_KEY, t->key + 4, N_KEY);
	CHECK(text_unhex(t->prefix + 4, 4, b + AT_PREFIX));
	memcpy(b + AT_SUBJECT, subject, n_subject);
	mac(secret, b, b + AT_MAC);
	text_base64(b, sizeof(b), text);
	for (char *c = text; *c; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	snprintf(ret, TOKEN_TEXT, "cst_%.128s", text);
}

bool token_form(const char *text)
{
	return strlen(text) == TOKEN_LENGTH && strncmp(text, "cst_", 4) == 0 &&
	       strspn(text + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
				"qrstuvwxyz0123456789-_") == TOKEN_LENGTH - 4;
}

/* The bytes are genuine; they are checked all the same. */
static bool fill(const uint8_t *b, struct token *ret)
{
	uint64_t exp = 0;
	char hex[9];

	*ret = (struct token){ .kind = (enum token_kind)b[AT_KIND] };
	if (b[0] != VERSION || b[3] != 0)
		return false;
	for (unsigned i = 0; i < 8; i++)
		exp = exp << 8 | b[AT_EXPIRY + i];
	if (exp > INT64_MAX)
		return false;
	ret->exp_s = (int64_t)exp;
	if (ret->kind == TOKEN_ATTACH) {
		if (b[AT_FLAGS] & ~WATCH)
			return false;
		ret->watch = b[AT_FLAGS] == WATCH;
	} else {
		ret->allow = b[AT_FLAGS];
	}
	text_hex(b + AT_PREFIX, 4, hex);
	snprintf(ret->prefix, sizeof(ret->prefix), "e2b_%s", hex);
	snprintf(ret->key, sizeof(ret->key), "key_%.20s",
		 (const char *)b + AT_KEY);
	for (unsigned i = ret->kind == TOKEN_SCOPED ? 20 : N_SUBJECT;
	     i < N_SUBJECT; i++)
		if (b[AT_SUBJECT + i])
			return false;
	snprintf(ret->subject, sizeof(ret->subject), "%s%.28s",
		 ret->kind == TOKEN_ATTACH ? "ex_" : "sb",
		 (const char *)b + AT_SUBJECT);
	return well_formed(ret);
}

enum token_result token_read(const uint8_t *secret, const char *text,
			     int64_t now_s, struct token *ret)
{
	uint8_t b[BYTES], want[DIGEST_BYTES];
	char std[TOKEN_TEXT];

	if (!token_form(text))
		return TOKEN_BAD;
	snprintf(std, sizeof(std), "%s", text + 4);
	for (char *c = std; *c; c++)
		*c = *c == '-' ? '+' : *c == '_' ? '/' : *c;
	if (text_unbase64(std, TOKEN_LENGTH - 4, b) != (ssize_t)BYTES)
		return TOKEN_BAD;
	mac(secret, b, want);
	if (!equal_consttime(b + AT_MAC, want, sizeof(want)) || !fill(b, ret))
		return TOKEN_BAD;
	return ret->exp_s <= now_s ? TOKEN_EXPIRED : TOKEN_GOOD;
}
