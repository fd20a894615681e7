/* SPDX-License-Identifier: Apache-2.0 */
#include "api/h-event-cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tls/digest.h"

#define BODY_LEN  33u /* 'e' and two numbers of 16 digits */
#define CHECK_LEN 4u

void event_cursor_encode(const struct event_pos *p, char ret[EVENT_CURSOR_TEXT])
{
	char hex[DIGEST_HEX];

	snprintf(ret, EVENT_CURSOR_TEXT, "e%016" PRIx64 "%016" PRIx64, p->xid,
		 p->seq);
	digest_sha256_hex(ret, BODY_LEN, hex);
	snprintf(ret + BODY_LEN, EVENT_CURSOR_TEXT - BODY_LEN, "%.4s", hex);
}

static bool read_number(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	for (int i = 0; i < 16; i++) {
		int d = text_hex_digit(s[i]);

		if (d < 0)
			return false;
		v = v << 4 | (unsigned)d;
	}
	*ret = v;
	return v <= INT64_MAX;
}

bool event_cursor_decode(const char *text, struct event_pos *ret)
{
	char again[EVENT_CURSOR_TEXT];

	*ret = (struct event_pos){ 0 };
	if (strlen(text) != BODY_LEN + CHECK_LEN || text[0] != 'e' ||
	    !read_number(text + 1, &ret->xid) ||
	    !read_number(text + 17, &ret->seq))
		return false;
	event_cursor_encode(ret, again);
	return strcmp(again, text) == 0;
}

bool event_pos_after(const struct event_pos *a, const struct event_pos *b)
{
	return a->xid != b->xid ? a->xid > b->xid : a->seq > b->seq;
}

static size_t word(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyz_");
}

bool event_type_valid(const char *s, bool pattern)
{
	size_t n = word(s), rest;

	if (!n || n > 32 || s[n] != '.')
		return false;
	s += n + 1;
	if (pattern && strcmp(s, "*") == 0)
		return true;
	rest = word(s);
	return rest > 0 && rest <= 32 && !s[rest];
}

bool event_type_matches(const char *pattern, const char *type)
{
	size_t n = strlen(pattern);

	if (n > 1 && pattern[n - 1] == '*')
		return strncmp(pattern, type, n - 1) == 0;
	return strcmp(pattern, type) == 0;
}
