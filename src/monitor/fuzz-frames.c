/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/frames.h"

#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Frames until the first error; how the bytes were cut must not matter. */
static int run(const uint8_t *p, size_t n, size_t step, enum frames_form form,
	       struct buf *out)
{
	struct frames f;
	struct err e = { 0 };
	int r = 0;

	frames_init(&f, 0, form);
	while (n && r >= 0) {
		size_t k = frames_feed(&f, p, n < step ? n : step);

		p += k;
		n -= k;
		r = frames_take(&f, out, &e);
		CHECK(r >= 0 || (r == -EBADMSG && e.msg[0]));
		CHECK(k > 0 || r != FRAMES_MORE);
	}
	frames_fini(&f);
	return r < 0 ? r : 0;
}

static void check(const uint8_t *data, size_t size, enum frames_form form)
{
	struct buf a, b, c;

	buf_init(&a, 0);
	buf_init(&b, 0);
	buf_init(&c, 0);
	CHECK(run(data, size, SIZE_MAX, form, &a) ==
	      run(data, size, 1, form, &b));
	CHECK(buf_len(&a) == buf_len(&b));
	CHECK(buf_len(&a) == 0 ||
	      memcmp(buf_data(&a), buf_data(&b), buf_len(&a)) == 0);
	/* what we wrote is valid and stays as it is */
	if (buf_len(&a)) {
		CHECK(run(buf_data(&a), buf_len(&a), SIZE_MAX, form, &c) == 0);
		CHECK(buf_len(&c) == buf_len(&a));
	}
	buf_fini(&a);
	buf_fini(&b);
	buf_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf lines;

	check(data, size, FRAMES_RAW);
	check(data, size, FRAMES_CLIENT);
	buf_init(&lines, 0);
	run(data, size, SIZE_MAX, FRAMES_LINES, &lines);
	buf_fini(&lines);
	return 0;
}
