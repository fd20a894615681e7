/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A chunked body. Law: however it is cut into portions, and however little
 * payload is taken at a time, the same bytes come out and the same verdict.
 */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "net/http1.h"

struct outcome {
	int verdict; /* 1 done, 0 more, -400 */
	size_t used, n;
	uint64_t sum;
};

static struct outcome run(const uint8_t *p, size_t n, size_t step, size_t max)
{
	struct http1_msg m = { .framing = HTTP1_CHUNKED };
	struct outcome o = { 0 };
	struct http1_body b;

	http1_body_init(&b, &m);
	while (!http1_body_done(&b) && o.used < n) {
		size_t k = n - o.used < step ? n - o.used : step;
		struct view v;
		ssize_t used = http1_body_next(&b, p + o.used, k, max, &v);

		if (used < 0) {
			o.verdict = (int)used;
			return o;
		}
		CHECK(used > 0 && (size_t)used <= k && v.n <= max);
		for (size_t i = 0; i < v.n; i++)
			o.sum = o.sum * 31 + (uint8_t)v.p[i] + 1;
		o.n += v.n;
		o.used += (size_t)used;
	}
	o.verdict = http1_body_done(&b);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = run(data, size, SIZE_MAX, SIZE_MAX);
	static const size_t cuts[] = { 1, 2, 3, 7, 64 };

	CHECK(whole.n <= size && whole.used <= size);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct outcome part = run(data, size, cuts[i], cuts[4 - i]);

		CHECK(part.verdict == whole.verdict);
		if (whole.verdict >= 0) {
			CHECK(part.used == whole.used && part.n == whole.n);
			CHECK(part.sum == whole.sum);
		}
	}
	return 0;
}
