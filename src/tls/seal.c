/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/seal.h"

#include <string.h>

#include <openssl/evp.h>

#include "base/check.h"
#include "base/text.h"

#define NONCE 12
#define TAG   16

void seal(const uint8_t key[SEAL_KEY], const char *place, const void *p,
	  size_t n, uint8_t *ret)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int len = 0;

	CHECK(c && n <= 65536);
	random_bytes(ret, NONCE);
	CHECK(EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, ret) == 1);
	CHECK(EVP_EncryptUpdate(c, NULL, &len, (const uint8_t *)place,
				(int)strlen(place)) == 1);
	CHECK(EVP_EncryptUpdate(c, ret + NONCE + TAG, &len, p, (int)n) == 1 &&
	      len == (int)n);
	CHECK(EVP_EncryptFinal_ex(c, ret + NONCE + TAG + n, &len) == 1);
	CHECK(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, ret + NONCE) ==
	      1);
	EVP_CIPHER_CTX_free(c);
}

bool unseal(const uint8_t key[SEAL_KEY], const char *place, const uint8_t *p,
	    size_t n, uint8_t *ret)
{
	EVP_CIPHER_CTX *c;
	uint8_t tag[TAG], end[16];
	size_t text;
	int len = 0;
	bool ok;

	if (n < SEAL_OVERHEAD || n > 65536 + SEAL_OVERHEAD)
		return false;
	text = n - SEAL_OVERHEAD;
	c = EVP_CIPHER_CTX_new();
	CHECK(c);
	memcpy(tag, p + NONCE, TAG);
	CHECK(EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, p) == 1);
	CHECK(EVP_DecryptUpdate(c, NULL, &len, (const uint8_t *)place,
				(int)strlen(place)) == 1);
	CHECK(EVP_DecryptUpdate(c, ret, &len, p + NONCE + TAG, (int)text) == 1);
	CHECK(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1);
	ok = EVP_DecryptFinal_ex(c, end, &len) == 1;
	EVP_CIPHER_CTX_free(c);
	if (!ok)
		memset(ret, 0, text);
	return ok;
}
