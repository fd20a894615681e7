/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

#define BUF_MIN 256u

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_fini(struct buf *b)
{
	free(b->mem);
	buf_init(b, b->max);
}

/* Make room for n bytes at the end, whatever max says. */
static bool make_room(struct buf *b, size_t n)
{
	size_t len = buf_len(b), cap = b->cap ? b->cap : BUF_MIN, need;
	uint8_t *mem;

	if (b->mem && n <= b->cap - b->end)
		return true;
	if (__builtin_add_overflow(len, n, &need) || need > SIZE_MAX / 2)
		return false;
	/* Moving is cheaper than growing, but only when much was consumed:
	 * else a full queue is moved for every few bytes. */
	if (b->mem && need <= b->cap && b->start >= len) {
		memmove(b->mem, b->mem + b->start, len);
		b->start = 0;
		b->end = len;
		return true;
	}
	while (cap < need || (b->mem && cap == b->cap))
		cap *= 2;
	mem = malloc(cap);
	if (!mem)
		return false;
	if (b->mem)
		memcpy(mem, b->mem + b->start, len);
	free(b->mem);
	b->mem = mem;
	b->cap = cap;
	b->start = 0;
	b->end = len;
	return true;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	if (b->max && (n > b->max || buf_len(b) > b->max - n))
		return NULL;
	if (!make_room(b, n))
		return NULL;
	return b->mem + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
	CHECK(n <= b->cap - b->end);
	b->end += n;
}

void buf_consume(struct buf *b, size_t n)
{
	CHECK(n <= buf_len(b));
	b->start += n;
	if (b->start == b->end)
		b->start = b->end = 0;
}

void buf_clear(struct buf *b)
{
	b->start = b->end = 0;
}

int buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *to;

	if (n == 0)
		return 0;
	to = buf_reserve(b, n);
	if (!to)
		return -ENOBUFS;
	memcpy(to, p, n);
	b->end += n;
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_put(b, s, strlen(s));
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	uint8_t *to;
	int n, r = -ENOBUFS;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0 || (b->max && (size_t)n > b->max - buf_len(b)))
		goto out;
	/* one more for vsnprintf's NUL, which does not count as content */
	if (!make_room(b, (size_t)n + 1))
		goto out;
	to = b->mem + b->end;
	vsnprintf((char *)to, (size_t)n + 1, fmt, again);
	b->end += (size_t)n;
	r = 0;
out:
	va_end(again);
	return r;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return r;
}

char *buf_cstr(struct buf *b)
{
	if (!make_room(b, 1))
		return NULL;
	b->mem[b->end] = 0;
	return (char *)buf_data(b);
}

bool view_eq(struct view v, const char *s)
{
	size_t n = strlen(s);

	return v.n == n && (n == 0 || memcmp(v.p, s, n) == 0);
}

static unsigned char ascii_lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool view_eq_nocase(struct view v, const char *s)
{
	if (v.n != strlen(s))
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (ascii_lower(v.p[i]) != ascii_lower(s[i]))
			return false;
	}
	return true;
}

struct view view_of(const char *s)
{
	return (struct view){ s, strlen(s) };
}
