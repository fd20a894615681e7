/* SPDX-License-Identifier: Apache-2.0 */

/* The same events, in one piece or cut anywhere. */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cli/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int on_event(void *arg, const struct sse_event *ev)
{
	struct buf *b = arg;

	CHECK(ev->data[ev->n] == '\0');
	buf_printf(b, "[%s|%s|", ev->type, ev->id);
	buf_put(b, ev->data, ev->n);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	size_t step = n > 0 ? 1u + p[0] % 7u : 1;
	struct buf a, b;
	struct sse s;
	struct err e = { 0 };

	buf_init(&a, 0);
	buf_init(&b, 0);
	sse_init(&s, on_event, &a);
	CHECK(sse_feed(&s, p, n, &e) == 0);
	sse_fini(&s);
	sse_init(&s, on_event, &b);
	for (size_t at = 0; at < n; at += step)
		CHECK(sse_feed(&s, p + at, n - at < step ? n - at : step, &e) ==
		      0);
	sse_fini(&s);
	CHECK(buf_len(&a) == buf_len(&b) &&
	      (buf_len(&a) == 0 ||
	       !memcmp(buf_data(&a), buf_data(&b), buf_len(&a))));
	buf_fini(&a);
	buf_fini(&b);
	return 0;
}
