/* SPDX-License-Identifier: Apache-2.0 */

/* What is read as an address has one spelling, and one class in every form. */

#include <string.h>

#include "base/check.h"
#include "net/addr.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void whole_circle(const struct addr *a)
{
	char text[ADDR_TEXT];
	struct addr again, v4;

	addr_text(a, text);
	CHECK(addr_parse(text, strlen(text), &again));
	CHECK(again.v6 == a->v6 && memcmp(again.b, a->b, 16) == 0);
	CHECK(addr_classify(a) < ADDR_CLASS_MAX_);
	if (addr_embedded(a, &v4))
		CHECK(addr_classify(a) != ADDR_PUBLIC && !v4.v6);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const char *s = (const char *)p;
	struct addr_net net;
	struct addr a, b;
	enum addr_host h;

	if (n && addr_parse(s, n, &a))
		whole_circle(&a);
	h = addr_host(s, n, &a);
	if (h == ADDR_HOST_ADDRESS)
		whole_circle(&a);
	if (h == ADDR_HOST_NAME)
		CHECK(!addr_parse(s, n, &b));
	if (n && addr_net_parse(s, n, &net))
		CHECK(net.bits <= (net.addr.v6 ? 128u : 32u) &&
		      addr_net_has(&net, &net.addr));
	return 0;
}
