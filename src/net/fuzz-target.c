/* SPDX-License-Identifier: Apache-2.0 */

/* A URL that is read names one host, which is no odd spelling of an address. */

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "net/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char url[TARGET_URL_MAX + 16];
	struct target t;
	struct err e = { 0 };
	struct addr a;

	if (n >= sizeof(url))
		return 0;
	memcpy(url, p, n);
	url[n] = '\0';
	if (target_parse(url, &t, &e) < 0) {
		CHECK(e.code < 0 && *e.msg);
		return 0;
	}
	CHECK(t.port && *t.host && t.kind != ADDR_HOST_BAD);
	if (t.kind == ADDR_HOST_ADDRESS)
		CHECK(addr_parse(t.host, strlen(t.host), &a));
	else
		CHECK(!strpbrk(t.host, "@:/[]% "));
	return 0;
}
