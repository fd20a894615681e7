/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * AES-256-GCM for small secrets at rest: a random nonce (12 bytes), the tag
 * (16), then the ciphertext. The associated data binds a secret to the place it
 * was put, so that one row's secret cannot be moved into another. No I/O; a
 * failing library is a bug of the installation and aborts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEAL_KEY      32u
#define SEAL_OVERHEAD 28u

/* ret holds n + SEAL_OVERHEAD. */
void seal(const uint8_t key[SEAL_KEY], const char *place, const void *p,
	  size_t n, uint8_t *ret);
/* ret holds n - SEAL_OVERHEAD. false: too short, another key or place, or not
 * as it was sealed; ret is then zeroed. */
bool unseal(const uint8_t key[SEAL_KEY], const char *place, const uint8_t *p,
	    size_t n, uint8_t *ret);
