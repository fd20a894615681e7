/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: what reads as good mints to the same text; no text is good unless its
 * code was made with the secret; nothing but form decides about form. */

#include <string.h>

#include "api/auth.h"
#include "api/token.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[TOKEN_SECRET] = "a secret of thirty-two bytes...";

/* The fuzzer cannot guess the code: make it for him, over any content. */
static void sign(const uint8_t *data, size_t size)
{
	static const char label[] = "caisson token 1";
	uint8_t b[96] = { 0 }, key[DIGEST_BYTES];
	char text[TOKEN_TEXT], again[TOKEN_TEXT];
	struct token t;

	memcpy(b, data, size < 64 ? size : 64);
	digest_hmac(secret, sizeof(secret), label, sizeof(label), key);
	digest_hmac(key, sizeof(key), b, 64, b + 64);
	memcpy(text, "cst_", 4);
	text_base64(b, sizeof(b), text + 4);
	for (char *c = text; *c; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	if (token_read(secret, text, 1000, &t) == TOKEN_BAD)
		return;
	token_mint(secret, &t, again);
	CHECK(strcmp(again, text) == 0);
	/* one changed character is enough */
	text[4 + data[0] % 128] ^= 1;
	CHECK(token_read(secret, text, 0, &t) == TOKEN_BAD);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xstrndup((const char *)data, size);
	struct token t;

	if (token_read(secret, text, 0, &t) != TOKEN_BAD)
		CHECK(token_form(text));
	if (size)
		sign(data, size);
	return 0;
}
