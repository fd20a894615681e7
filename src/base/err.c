/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define WORDS_ROOM 96 /* for what an errno means */

static const char *const kind_names[ERR_KIND_MAX_] = {
	[ERR_INTERNAL] = "internal",   [ERR_INVALID] = "invalid",
	[ERR_NOT_FOUND] = "not_found", [ERR_EXISTS] = "exists",
	[ERR_DENIED] = "denied",       [ERR_CONFLICT] = "conflict",
	[ERR_EXHAUSTED] = "exhausted", [ERR_UNAVAILABLE] = "unavailable",
	[ERR_TIMEOUT] = "timeout",     [ERR_UNSUPPORTED] = "unsupported",
};

int err_set(struct err *e, int code, enum err_kind kind, const char *fmt, ...)
{
	/* an argument may be a part of e->msg itself */
	char msg[ERR_MSG_MAX];
	va_list ap;

	CHECK(code < 0);
	if (!e)
		return code;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	e->code = code;
	e->kind = kind;
	memcpy(e->msg, msg, sizeof(msg));
	return code;
}

int err_errno(struct err *e, int errnum, const char *fmt, ...)
{
	char msg[ERR_MSG_MAX];
	va_list ap;
	int n;

	CHECK(errnum > 0 && fmt);
	if (!e)
		return -errnum;
	errno = errnum; /* for %m, whatever ran since the failure */
	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (!strstr(fmt, "%m") && n >= 0) {
		const char *words = strerrordesc_np(errnum);
		size_t at = (size_t)n;

		/* the reason matters more than the end of a long path */
		if (at > sizeof(msg) - WORDS_ROOM)
			at = sizeof(msg) - WORDS_ROOM;
		if (words)
			snprintf(msg + at, sizeof(msg) - at, ": %s", words);
		else
			snprintf(msg + at, sizeof(msg) - at, ": error %d",
				 errnum);
	}
	e->code = -errnum;
	e->kind = err_kind_of(errnum);
	memcpy(e->msg, msg, sizeof(msg));
	return -errnum;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char msg[ERR_MSG_MAX];
	va_list ap;
	int n;

	if (!e)
		return -EIO;
	CHECK(e->code < 0);
	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (n < 0)
		return e->code;
	if (n < ERR_MSG_MAX - 3) {
		size_t at = (size_t)n + 2, room = ERR_MSG_MAX - 1 - at;

		memcpy(msg + n, ": ", 2);
		room = strnlen(e->msg, room);
		memcpy(msg + at, e->msg, room);
		msg[at + room] = 0;
	}
	memcpy(e->msg, msg, sizeof(msg));
	return e->code;
}

void err_clear(struct err *e)
{
	if (!e)
		return;
	e->code = 0;
	e->kind = ERR_INTERNAL;
	e->msg[0] = 0;
}

enum err_kind err_kind_of(int errnum)
{
	switch (errnum) {
	case EINVAL:
	case EBADMSG:
	case EMSGSIZE:
	case ENAMETOOLONG:
	case ERANGE:
	case EDOM:
	case EILSEQ:
	case EPROTO:
	case E2BIG:
		return ERR_INVALID;
	case ENOENT:
	case ESRCH:
	case ENODEV:
	case ENXIO:
		return ERR_NOT_FOUND;
	case EEXIST:
	case EADDRINUSE:
		return ERR_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_DENIED;
	case EBUSY:
	case ENOTEMPTY:
	case ETXTBSY:
	case EISDIR:
	case ENOTDIR:
	case ESTALE:
		return ERR_CONFLICT;
	case ENOMEM:
	case ENOSPC:
	case ENFILE:
	case EMFILE:
	case EDQUOT:
	case ENOBUFS:
	case EFBIG:
		return ERR_EXHAUSTED;
	case EAGAIN:
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE:
	case ENOTCONN:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ESHUTDOWN:
	case ECANCELED:
		return ERR_UNAVAILABLE;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ENOSYS:
	case EOPNOTSUPP:
	case EAFNOSUPPORT:
	case EPROTONOSUPPORT:
		return ERR_UNSUPPORTED;
	default:
		return ERR_INTERNAL;
	}
}

const char *err_kind_name(enum err_kind kind)
{
	if ((unsigned)kind >= ERR_KIND_MAX_)
		return kind_names[ERR_INTERNAL];
	return kind_names[kind];
}
