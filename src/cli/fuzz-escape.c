/* SPDX-License-Identifier: Apache-2.0 */

/* The first line is the keys, the rest is typed. Law: the guest gets what was
 * typed but for the keys of events, however it is cut. */

#include "cli/escape.h"

#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned type(struct escape *s, const uint8_t *p, size_t n, size_t piece,
		     struct buf *out)
{
	unsigned events = 0;

	while (n > 0) {
		enum escape_event ev;
		size_t before = buf_len(out);
		size_t part = piece < n ? piece : n;
		size_t eaten = escape_feed(s, p, part, out, &ev);

		CHECK(eaten > 0 && eaten <= part);
		CHECK(buf_len(out) - before <= part + ESCAPE_KEYS_MAX + 1);
		if (ev != ESCAPE_NONE)
			events = events * 5 + ev;
		p += eaten;
		n -= eaten;
	}
	return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	struct escape a, b;
	struct err e = { 0 };
	struct buf x, y;
	char keys[64];
	size_t n;

	if (!nl || (size_t)(nl - data) >= sizeof(keys))
		return 0;
	n = (size_t)(nl - data);
	memcpy(keys, data, n);
	keys[n] = '\0';
	if (escape_init(&a, keys, size & 1, &e) < 0)
		return 0;
	b = a;
	buf_init(&x, 0);
	buf_init(&y, 0);
	CHECK(type(&a, nl + 1, size - n - 1, SIZE_MAX, &x) ==
	      type(&b, nl + 1, size - n - 1, 1, &y));
	CHECK(buf_len(&x) == buf_len(&y) && buf_len(&x) <= size);
	CHECK(buf_len(&x) == 0 ||
	      !memcmp(buf_data(&x), buf_data(&y), buf_len(&x)));
	buf_fini(&x);
	buf_fini(&y);
	return 0;
}
