/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The error object.
 *
 * It lives on the caller's stack and never allocates, so that it works under
 * memory pressure, between fork and exec, and in PID 1. A function that takes a
 * `struct err *` leaves it untouched on success. Three kinds of "no" are kept
 * apart: r < 0 is a failure (negative errno, with words and a kind here);
 * r > 0 is an outcome that the function documents; a bug is CHECK().
 *
 * Each function here accepts e == NULL and then only returns the code.
 */

#include <errno.h>

#define ERR_MSG_MAX 512

/* What went wrong, for whoever must react. One table maps kinds to HTTP. */
enum err_kind {
	ERR_INTERNAL,	 /* our own fault, or none of the below */
	ERR_INVALID,	 /* the request is wrong; repeating it is useless */
	ERR_NOT_FOUND,	 /* no such thing, for this caller */
	ERR_EXISTS,	 /* it is there already */
	ERR_DENIED,	 /* understood and refused */
	ERR_CONFLICT,	 /* not in this state */
	ERR_EXHAUSTED,	 /* no room: memory, slots, disk, quota */
	ERR_UNAVAILABLE, /* a part we need is not there now; may be retried */
	ERR_TIMEOUT,	 /* a deadline passed */
	ERR_UNSUPPORTED, /* this build or node cannot do it */
	ERR_KIND_MAX_,
};

struct err {
	int code; /* negative errno, 0 while unset */
	enum err_kind kind;
	char msg[ERR_MSG_MAX];
};

/* Set *e and return code. code must be negative. %m is allowed in fmt. */
int err_set(struct err *e, int code, enum err_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Set *e from errnum (positive errno); the kind is err_kind_of(errnum). The
 * errno's words are appended unless fmt has them (%m). */
int err_errno(struct err *e, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "context: " before the message; returns e->code. */
int err_wrap(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void err_clear(struct err *e);

/* The kind that a positive errno value usually means. */
enum err_kind err_kind_of(int errnum);

/* Stable lower-case name, e.g. "not_found"; "internal" for unknown values. */
const char *err_kind_name(enum err_kind kind);
