/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growable byte queue with a limit: bytes are appended at the end and
 * consumed at the front. Whatever a peer can make us hold lives in one of
 * these, and buf_reserve() can say no.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct view {
	const char *p; /* not terminated; NULL only when n == 0 */
	size_t n;
};

struct buf {
	uint8_t *mem;
	size_t start, end, cap; /* valid bytes are mem[start..end) */
	size_t max;		/* most bytes held; 0 = no limit */
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b); /* frees and re-initialises with the same max */

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}
static inline uint8_t *buf_data(struct buf *b)
{
	return b->mem + b->start;
}

/* Room for n more bytes at the end: pointer to them, or NULL if over max or out
 * of memory. buf_commit(n) then makes them part of the content. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n); /* n <= buf_len() */
void buf_clear(struct buf *b);

/* 0, or -ENOBUFS with the buffer unchanged. */
int buf_put(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Content as a C string (a NUL is kept behind the content, not counted);
 * NULL if there is no room for it. Valid until the next change. */
char *buf_cstr(struct buf *b);

bool view_eq(struct view v, const char *s);
bool view_eq_nocase(struct view v, const char *s); /* ASCII only */
struct view view_of(const char *s);
