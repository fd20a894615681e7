/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One text per value: what decodes is what its value encodes to. */
static void try_base64(const char *s, size_t n)
{
	char *out = xcalloc(n + 1, 1), *back = xcalloc(2 * n + 8, 1);
	ssize_t got = text_unbase64(s, n, out);

	CHECK(got >= -1 && got <= (ssize_t)n);
	if (got >= 0) {
		CHECK(text_base64_len((size_t)got) == n);
		text_base64(out, (size_t)got, back);
		CHECK(memcmp(back, s, n) == 0);
	}
	free(back);
	free(out);
}

static void try_percent(const char *s, size_t n)
{
	char *out = xcalloc(n + 1, 1), *again = xcalloc(n + 1, 1);
	ssize_t got = text_unpercent(s, n, out, n);
	struct buf b;

	buf_init(&b, 0);
	CHECK(got == -EINVAL || (got >= 0 && got <= (ssize_t)n));
	if (got >= 0) {
		CHECK(strlen(out) == (size_t)got);
		CHECK(text_percent(&b, out, (size_t)got, true) == 0);
		CHECK(text_unpercent(b.mem ? (char *)buf_data(&b) : "",
				     buf_len(&b), again, n) == got);
		CHECK(memcmp(out, again, (size_t)got) == 0);
	}
	buf_fini(&b);
	free(again);
	free(out);
}

static void try_utf8(const char *s, size_t n)
{
	size_t good = text_utf8_prefix(s, n);

	CHECK(good <= n);
	CHECK(text_utf8_prefix(s, good) == good);
}

static void try_words(const char *s, size_t n)
{
	char *word = xstrndup(s, n), hex[2 * 8 + 1];
	int64_t v;
	uint8_t b[8];

	if (text_int(word, -1000, 1000, &v))
		CHECK(v >= -1000 && v <= 1000);
	if (text_unhex(word, 8, b)) {
		text_hex(b, 8, hex);
		CHECK(strcasecmp(hex, word) == 0);
	}
	if (id_valid(word, "sb", 20))
		CHECK(strlen(word) == 22);
	free(word);
}

static void try_time(const char *s, size_t n)
{
	int64_t ms = 0;
	char text[25];

	memcpy(&ms, s, n < sizeof(ms) ? n : sizeof(ms));
	text_rfc3339(ms, text);
	CHECK(strlen(text) == 24 && text[23] == 'Z');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *)data;

	if (size == 0)
		return 0;
	try_base64(s, size);
	try_percent(s, size);
	try_utf8(s, size);
	try_words(s, size);
	try_time(s, size);
	return 0;
}
