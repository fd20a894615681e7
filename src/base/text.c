/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"

void text_hex(const void *p, size_t n, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *in = p;

	for (size_t i = 0; i < n; i++) {
		ret[2 * i] = digits[in[i] >> 4];
		ret[2 * i + 1] = digits[in[i] & 15];
	}
	ret[2 * n] = 0;
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool text_unhex(const char *s, size_t n_bytes, void *ret)
{
	uint8_t *out = ret;

	if (strnlen(s, 2 * n_bytes + 1) != 2 * n_bytes)
		return false;
	for (size_t i = 0; i < n_bytes; i++) {
		int hi = text_hex_digit(s[2 * i]),
		    lo = text_hex_digit(s[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

size_t text_base64_len(size_t n)
{
	return (n + 2) / 3 * 4;
}

void text_base64(const void *p, size_t n, char *ret)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
				  "stuvwxyz0123456789+/";
	const uint8_t *in = p;

	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)in[i] << 16;

		if (left > 1)
			v |= (uint32_t)in[i + 1] << 8;
		if (left > 2)
			v |= in[i + 2];
		*ret++ = set[v >> 18];
		*ret++ = set[v >> 12 & 63];
		*ret++ = (char)(left > 1 ? set[v >> 6 & 63] : '=');
		*ret++ = (char)(left > 2 ? set[v & 63] : '=');
	}
	*ret = 0;
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ssize_t text_unbase64(const char *s, size_t n, void *ret)
{
	uint8_t *out = ret;
	size_t used = 0;

	if (n % 4)
		return -1;
	for (size_t i = 0; i < n; i += 4) {
		unsigned pad = 0;
		uint32_t v = 0;

		if (i + 4 == n && s[i + 3] == '=')
			pad = s[i + 2] == '=' ? 2 : 1;
		for (unsigned k = 0; k < 4; k++) {
			int d = k >= 4 - pad ? 0 : base64_digit(s[i + k]);

			if (d < 0)
				return -1;
			v = v << 6 | (uint32_t)d;
		}
		/* bits behind the last byte must be zero: one text per value */
		if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
			return -1;
		for (unsigned k = 0; k < 3 - pad; k++)
			out[used++] = (uint8_t)(v >> (16 - 8 * k));
	}
	return (ssize_t)used;
}

ssize_t text_unpercent(const char *s, size_t n, char *ret, size_t max_bytes)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (c == '%') {
			int hi = i + 1 < n ? text_hex_digit(s[i + 1]) : -1;
			int lo = i + 2 < n ? text_hex_digit(s[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return -EINVAL;
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		if (!c)
			return -EINVAL;
		if (used == max_bytes)
			return -ENOBUFS;
		ret[used++] = c;
	}
	ret[used] = 0;
	return (ssize_t)used;
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
	       c == '~';
}

int text_percent(struct buf *to, const char *s, size_t n, bool keep_slash)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)s[i];
		char esc[3] = { '%', digits[c >> 4], digits[c & 15] };
		bool plain = is_unreserved(s[i]) || (keep_slash && c == '/');
		int r = plain ? buf_put(to, s + i, 1) : buf_put(to, esc, 3);

		if (r < 0)
			return r;
	}
	return 0;
}

bool text_int(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	char *end;
	long long v;

	/* strtoll would take blanks and '+' */
	if (!((*s >= '0' && *s <= '9') ||
	      (*s == '-' && s[1] >= '0' && s[1] <= '9')))
		return false;
	errno = 0;
	v = strtoll(s, &end, 10);
	if (errno || *end || v < min || v > max)
		return false;
	*ret = v;
	return true;
}

/* Length of the well-formed sequence at p (Unicode 15, table 3-7), or 0. */
static size_t utf8_sequence(const uint8_t *p, size_t n)
{
	uint8_t c = p[0], lo = 0x80, hi = 0xbf;
	size_t len;

	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf) {
		len = 2;
	} else if (c >= 0xe0 && c <= 0xef) {
		len = 3;
		lo = c == 0xe0 ? 0xa0 : 0x80;
		hi = c == 0xed ? 0x9f : 0xbf; /* no surrogates */
	} else if (c >= 0xf0 && c <= 0xf4) {
		len = 4;
		lo = c == 0xf0 ? 0x90 : 0x80;
		hi = c == 0xf4 ? 0x8f : 0xbf;
	} else {
		return 0;
	}
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	}
	return len;
}

size_t text_utf8_prefix(const void *p, size_t n)
{
	const uint8_t *in = p;
	size_t i = 0;

	while (i < n) {
		size_t len = utf8_sequence(in + i, n - i);

		if (!len)
			break;
		i += len;
	}
	return i;
}

void random_bytes(void *p, size_t n)
{
	uint8_t *out = p;

	while (n > 0) {
		ssize_t got = getrandom(out, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		CHECK(got > 0);
		out += got;
		n -= (size_t)got;
	}
}

void random_id(char *ret, size_t n)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint8_t pool[64];
	size_t left = 0, i = 0;

	while (i < n) {
		uint8_t b;

		if (left == 0) {
			left = sizeof(pool);
			random_bytes(pool, left);
		}
		b = pool[--left];
		if (b < 252) /* 7 * 36: the rest would favour some letters */
			ret[i++] = set[b % 36];
	}
	ret[n] = 0;
}

bool id_valid(const char *s, const char *prefix, size_t n)
{
	size_t skip = strlen(prefix);

	if (strncmp(s, prefix, skip) != 0)
		return false;
	s += skip;
	for (size_t i = 0; i < n; i++) {
		if (!((s[i] >= 'a' && s[i] <= 'z') ||
		      (s[i] >= '0' && s[i] <= '9')))
			return false;
	}
	return s[n] == 0;
}

void text_rfc3339(int64_t unix_ms, char ret[25])
{
	/* 0000-01-01 .. 9999-12-31, so that the text always fits */
	const int64_t min = -62167219200000, max = 253402300799999;
	int64_t ms = unix_ms < min ? min : unix_ms > max ? max : unix_ms;
	time_t s = (time_t)(ms / 1000 - (ms % 1000 < 0));
	unsigned rest = (unsigned)(ms - (int64_t)s * 1000);
	char text[64];
	struct tm tm;

	CHECK(gmtime_r(&s, &tm));
	snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ",
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
		 tm.tm_min, tm.tm_sec, rest);
	memcpy(ret, text, 25);
}

int64_t now_unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

uint64_t now_mono_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

bool equal_consttime(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= (uint8_t)(x[i] ^ y[i]);
	return differ == 0;
}

int write_all(int fd, const void *p, size_t n)
{
	const uint8_t *from = p;

	while (n > 0) {
		ssize_t done = write(fd, from, n);

		if (done < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		from += done;
		n -= (size_t)done;
	}
	return 0;
}
