/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/digest.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

#define BLOCK 64u /* of SHA-256: RFC 2104, 2 */

/* HMAC is written out over two plain digests (RFC 2104), which is shorter than
 * EVP_MAC's parameters and lets a stream start again without its key. */
struct digest {
	EVP_MD_CTX *ctx;
	uint8_t inner[BLOCK], outer[BLOCK];
	int keyed;
};

void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_BYTES])
{
	unsigned len = 0;

	CHECK(EVP_Digest(n ? p : "", n, ret, &len, EVP_sha256(), NULL) == 1);
	CHECK(len == DIGEST_BYTES);
}

void digest_sha256_hex(const void *p, size_t n, char ret[DIGEST_HEX])
{
	uint8_t md[DIGEST_BYTES];

	digest_sha256(p, n, md);
	text_hex(md, sizeof(md), ret);
}

void digest_hmac(const void *key, size_t n_key, const void *p, size_t n,
		 uint8_t ret[DIGEST_BYTES])
{
	struct digest *d = digest_hmac_new(key, n_key);

	digest_update(d, p, n);
	digest_final(d, ret);
	digest_free(d);
}

static void digest_begin(struct digest *d)
{
	CHECK(EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1);
	if (d->keyed)
		CHECK(EVP_DigestUpdate(d->ctx, d->inner, BLOCK) == 1);
}

struct digest *digest_new(void)
{
	struct digest *d = xnew(struct digest);

	d->ctx = EVP_MD_CTX_new();
	CHECK(d->ctx);
	digest_begin(d);
	return d;
}

struct digest *digest_hmac_new(const void *key, size_t n_key)
{
	struct digest *d = xnew(struct digest);
	uint8_t k[BLOCK] = { 0 };

	if (n_key > BLOCK)
		digest_sha256(key, n_key, k);
	else if (n_key)
		memcpy(k, key, n_key);
	for (size_t i = 0; i < BLOCK; i++) {
		d->inner[i] = k[i] ^ 0x36u;
		d->outer[i] = k[i] ^ 0x5cu;
	}
	OPENSSL_cleanse(k, sizeof(k));
	d->keyed = 1;
	d->ctx = EVP_MD_CTX_new();
	CHECK(d->ctx);
	digest_begin(d);
	return d;
}

struct digest *digest_free(struct digest *d)
{
	if (!d)
		return NULL;
	EVP_MD_CTX_free(d->ctx);
	OPENSSL_cleanse(d, sizeof(*d));
	free(d);
	return NULL;
}

void digest_update(struct digest *d, const void *p, size_t n)
{
	if (n)
		CHECK(EVP_DigestUpdate(d->ctx, p, n) == 1);
}

void digest_final(struct digest *d, uint8_t ret[DIGEST_BYTES])
{
	CHECK(EVP_DigestFinal_ex(d->ctx, ret, NULL) == 1);
	if (d->keyed) {
		CHECK(EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1);
		CHECK(EVP_DigestUpdate(d->ctx, d->outer, BLOCK) == 1);
		CHECK(EVP_DigestUpdate(d->ctx, ret, DIGEST_BYTES) == 1);
		CHECK(EVP_DigestFinal_ex(d->ctx, ret, NULL) == 1);
	}
	digest_begin(d);
}
