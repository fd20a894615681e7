/* SPDX-License-Identifier: Apache-2.0 */
#include "api/token.h"

#include <string.h>

#include "api/route.h"
#include "base/test.h"

static const uint8_t secret[TOKEN_SECRET] = "one secret";
static const uint8_t other[TOKEN_SECRET] = "one secreT";

static const struct token scoped = {
	.kind = TOKEN_SCOPED,
	.allow = ALLOW_EXEC | ALLOW_END,
	.exp_s = 2000,
	.key = "key_abcdefghijklmnopqrst",
	.prefix = "e2b_0123abcd",
	.subject = "sb0123456789abcdefghij",
};

static const struct token attach = {
	.kind = TOKEN_ATTACH,
	.watch = true,
	.exp_s = 2000,
	.key = "key_abcdefghijklmnopqrst",
	.prefix = "e2b_0123abcd",
	.subject = "ex_0123456789abcdefghijklmnopqr",
};

static void same(const struct token *a, const struct token *b)
{
	T_INT(a->kind, b->kind);
	T_INT(a->watch, b->watch);
	T_INT(a->allow, b->allow);
	T_INT(a->exp_s, b->exp_s);
	T_STR(a->key, b->key);
	T_STR(a->prefix, b->prefix);
	T_STR(a->subject, b->subject);
}

TEST(what_was_minted_is_read_back)
{
	char text[TOKEN_TEXT];
	struct token t;

	token_mint(secret, &scoped, text);
	T_INT(strlen(text), TOKEN_LENGTH);
	T_INT(token_read(secret, text, 1999, &t), TOKEN_GOOD);
	same(&t, &scoped);
	token_mint(secret, &attach, text);
	T_INT(token_read(secret, text, 0, &t), TOKEN_GOOD);
	same(&t, &attach);
}

TEST(a_token_ends_at_its_second)
{
	char text[TOKEN_TEXT];
	struct token t;

	token_mint(secret, &scoped, text);
	T_INT(token_read(secret, text, 2000, &t), TOKEN_EXPIRED);
	same(&t, &scoped);
	T_INT(token_read(secret, text, INT64_MAX, &t), TOKEN_EXPIRED);
}

TEST(another_secret_reads_nothing)
{
	char text[TOKEN_TEXT];
	struct token t;

	token_mint(secret, &scoped, text);
	T_INT(token_read(other, text, 0, &t), TOKEN_BAD);
}

TEST(every_changed_bit_is_seen)
{
	char text[TOKEN_TEXT], bad[TOKEN_TEXT];
	struct token t;

	token_mint(secret, &attach, text);
	for (size_t i = 0; i < TOKEN_LENGTH; i++)
		for (unsigned bit = 0; bit < 7; bit++) {
			memcpy(bad, text, sizeof(bad));
			bad[i] = (char)(bad[i] ^ (1 << bit));
			T_INT(token_read(secret, bad, 0, &t), TOKEN_BAD);
		}
}

TEST(only_the_whole_text_counts)
{
	char text[TOKEN_TEXT + 1];
	struct token t;

	token_mint(secret, &scoped, text);
	T_TRUE(token_form(text));
	text[TOKEN_LENGTH] = 'A';
	text[TOKEN_LENGTH + 1] = '\0';
	T_INT(token_read(secret, text, 0, &t), TOKEN_BAD);
	text[TOKEN_LENGTH - 1] = '\0';
	T_INT(token_read(secret, text, 0, &t), TOKEN_BAD);
	T_TRUE(!token_form(text));
	T_TRUE(!token_form(""));
	T_TRUE(!token_form("cst_"));
}

TEST(a_token_never_shows_the_other_kind)
{
	char text[TOKEN_TEXT];
	struct token t;

	token_mint(secret, &attach, text);
	T_INT(token_read(secret, text, 0, &t), TOKEN_GOOD);
	T_INT(t.allow, 0);
	token_mint(secret, &scoped, text);
	T_INT(token_read(secret, text, 0, &t), TOKEN_GOOD);
	T_TRUE(!t.watch);
}
