/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SHA-256 and HMAC-SHA-256 over OpenSSL's EVP, in one go or as a stream. What
 * they are for: names of artifacts and releases, API keys at rest, keyed
 * hashes of idempotent bodies. No I/O; a failing library is a bug of the
 * installation and aborts.
 */

#include <stddef.h>
#include <stdint.h>

#define DIGEST_BYTES 32u
#define DIGEST_HEX   (2u * DIGEST_BYTES + 1u)

void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_BYTES]);
/* Lower-case hex and NUL. */
void digest_sha256_hex(const void *p, size_t n, char ret[DIGEST_HEX]);
void digest_hmac(const void *key, size_t n_key, const void *p, size_t n,
		 uint8_t ret[DIGEST_BYTES]);

/* A stream: new, update..., final; free at any time. After final the stream
 * is as new. */
struct digest;
struct digest *digest_new(void);
/* The key is copied. */
struct digest *digest_hmac_new(const void *key, size_t n_key);
struct digest *digest_free(struct digest *d);
void digest_update(struct digest *d, const void *p, size_t n);
void digest_final(struct digest *d, uint8_t ret[DIGEST_BYTES]);
