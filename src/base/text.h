/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small text codecs and names that every program needs: hex, base64, random
 * identifiers, RFC 3339 times, constant-time comparison, whole files. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

void text_hex(const void *p, size_t n, char *ret);	   /* 2n + NUL */
bool text_unhex(const char *s, size_t n_bytes, void *ret); /* exact length */
size_t text_base64_len(size_t n);		      /* without NUL, padded */
void text_base64(const void *p, size_t n, char *ret); /* len + NUL */
/* Strict RFC 4648 4 with padding; returns bytes or -1. ret holds 3/4 of n. */
ssize_t text_unbase64(const char *s, size_t n, void *ret);

int text_hex_digit(char c); /* 0..15, or -1 */

/* Percent-decode n bytes (RFC 3986 2.1) to at most max_bytes; a bad escape or a
 * NUL is -EINVAL, too long -ENOBUFS. ret holds max_bytes + NUL and may be s.
 * '+' is '+'. Returns the bytes of the result. */
ssize_t text_unpercent(const char *s, size_t n, char *ret, size_t max_bytes);
/* Append s with everything escaped but unreserved characters; slashes stay if
 * keep_slash. 0 / -ENOBUFS. */
int text_percent(struct buf *to, const char *s, size_t n, bool keep_slash);
/* A whole decimal number, no blanks, no '+', within min..max. */
bool text_int(const char *s, int64_t min, int64_t max, int64_t *ret);
/* Bytes of the longest prefix of p that is valid UTF-8. */
size_t text_utf8_prefix(const void *p, size_t n);

void random_bytes(void *p, size_t n); /* getrandom; aborts if it fails */
/* n random characters of [a-z0-9] and a NUL; unbiased. */
void random_id(char *ret, size_t n);
/* "sb" + 20 etc.: is s exactly prefix + n of [a-z0-9]? */
bool id_valid(const char *s, const char *prefix, size_t n);

/* RFC 3339, UTC, milliseconds: 2026-12-01T10:00:00.000Z (24 + NUL). */
void text_rfc3339(int64_t unix_ms, char ret[25]);
int64_t now_unix_ms(void);
uint64_t now_mono_us(void);

bool equal_consttime(const void *a, const void *b, size_t n);

/* Whole file, at most max bytes; allocated, NUL behind. */
int file_read(const char *path, size_t max, char **ret, size_t *ret_n,
	      struct err *e);
/* Temp file beside it, fsync, rename. */
int file_write_atomic(const char *path, const void *p, size_t n, unsigned mode,
		      struct err *e);
int mkdir_p(const char *path, unsigned mode, struct err *e);
/* write(2) until done; 0 / -errno. */
int write_all(int fd, const void *p, size_t n);
