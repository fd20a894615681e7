/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: every event is lines of known names and a blank one, whatever the guest
 * said; cut into pieces, the same events come. The first byte chooses. */

#include <stdio.h>
#include <string.h>

#include "api/sse.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(struct buf *out)
{
	const char *p = buf_cstr(out);
	bool data = false, name = false;

	while (p && *p) {
		size_t n = strcspn(p, "\n");

		CHECK(p[n] == '\n'); /* no NUL within, whole lines */
		if (n == 0) {
			CHECK(name && data);
			name = data = false;
		} else if (strncmp(p, "event: ", 7) == 0) {
			CHECK(!name && !data);
			name = true;
		} else if (strncmp(p, "data: {", 7) == 0) {
			CHECK(name && !data);
			data = true;
		} else {
			CHECK(strncmp(p, "id: ", 4) == 0 && name && !data);
			CHECK(strspn(p + 4, "0123456789") == n - 4);
		}
		p += n + 1;
	}
	CHECK(!name && !data);
}

static int convert(struct buf *out, const uint8_t *p, size_t n, size_t step,
		   enum sse_of of)
{
	struct sse s;
	int r = 0;

	buf_init(out, 0);
	sse_init(&s, of, true);
	while (n && r == 0) {
		size_t k = step < n ? step : n;

		r = sse_feed(&s, p, k, out);
		p += k;
		n -= k;
	}
	sse_end(&s, out);
	sse_fini(&s);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, pieces;
	enum sse_of of;
	int r;

	if (size < 2)
		return 0;
	of = data[0] & 1 ? SSE_LINES : SSE_FRAMES;
	r = convert(&whole, data + 2, size - 2, size, of);
	CHECK(convert(&pieces, data + 2, size - 2, 1u + data[1] % 64, of) == r);
	check_lines(&whole);
	check_lines(&pieces);
	CHECK(buf_len(&whole) == buf_len(&pieces));
	CHECK(memcmp(buf_cstr(&whole), buf_cstr(&pieces), buf_len(&whole)) ==
	      0);
	buf_fini(&whole);
	buf_fini(&pieces);
	return 0;
}
