/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/lines.h"

#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const uint8_t *p, size_t n, size_t step, struct buf *out)
{
	struct lines l;
	struct err e = { 0 };
	int r = 0;

	lines_init(&l);
	while (n && r >= 0) {
		size_t k = lines_feed(&l, p, n < step ? n : step);

		p += k;
		n -= k;
		r = lines_take(&l, out, &e);
		CHECK(r >= 0 || (r == -EBADMSG && e.msg[0]));
		CHECK(k > 0 || r != LINES_MORE);
	}
	lines_fini(&l);
	return r < 0 ? r : 0;
}

/* How the bytes were cut does not matter; what we wrote stays as it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf a, b, c;

	buf_init(&a, 0);
	buf_init(&b, 0);
	buf_init(&c, 0);
	CHECK(run(data, size, SIZE_MAX, &a) == run(data, size, 1, &b));
	CHECK(buf_len(&a) == buf_len(&b));
	CHECK(buf_len(&a) == 0 ||
	      memcmp(buf_data(&a), buf_data(&b), buf_len(&a)) == 0);
	if (buf_len(&a)) {
		CHECK(run(buf_data(&a), buf_len(&a), SIZE_MAX, &c) == 0);
		CHECK(buf_len(&c) == buf_len(&a));
	}
	buf_fini(&a);
	buf_fini(&b);
	buf_fini(&c);
	return 0;
}
