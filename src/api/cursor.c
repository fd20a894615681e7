/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a, folded: a slip of the hand is noticed, an attacker is not meant. */
static unsigned check(const char *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 16777619u;
	return (h >> 16 ^ h) & 0xffffu;
}

void cursor_encode(char kind, int64_t seq, char ret[CURSOR_TEXT])
{
	snprintf(ret, CURSOR_TEXT, "%c%016" PRIx64, kind, (uint64_t)seq);
	snprintf(ret + 17, CURSOR_TEXT - 17, "%04x", check(ret, 17));
}

bool cursor_decode(char kind, const char *text, int64_t *ret_seq)
{
	char again[CURSOR_TEXT];
	uint64_t v = 0;

	if (strlen(text) != 21 || text[0] != kind)
		return false;
	for (int i = 1; i < 17; i++) {
		const char *digits = "0123456789abcdef";
		const char *d = strchr(digits, text[i]);

		if (!d)
			return false;
		v = v << 4 | (uint64_t)(d - digits);
	}
	if (v > INT64_MAX)
		return false;
	cursor_encode(kind, (int64_t)v, again);
	if (strcmp(again, text) != 0)
		return false;
	*ret_seq = (int64_t)v;
	return true;
}
