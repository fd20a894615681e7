/* SPDX-License-Identifier: Apache-2.0 */
/* The low-level digest, linked statically: with the library's plug-ins and
 * error texts each of many monitors would have its own copy of their tables. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "monitor/sum.h"

#include <openssl/sha.h>

#include "base/own.h"

struct sum {
	SHA256_CTX ctx;
};

struct sum *sum_new(void)
{
	struct sum *s = xnew(struct sum);

	(void)SHA256_Init(&s->ctx);
	return s;
}

struct sum *sum_free(struct sum *s)
{
	free(s);
	return NULL;
}

void sum_add(struct sum *s, const void *p, size_t n)
{
	(void)SHA256_Update(&s->ctx, p, n);
}

void sum_end(struct sum *s, uint8_t ret[SUM_BYTES])
{
	(void)SHA256_Final(ret, &s->ctx);
}
