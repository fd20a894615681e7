/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Header fields of file calls (RFC 9110, RFC 9530), both ways: what a client
 * asks with (ranges, conditions, a digest) and what a guest answers with. Each
 * is parsed, bounded and written anew. A field that does not hold to its form
 * is an error, never passed on and never dropped in silence: a condition that
 * got lost would overwrite what it should protect. Pure.
 *
 * An answer must fit its question: a part only where a range was asked, never
 * more than that range, and always of a length that is known beforehand.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http.h"

enum range_kind {
	RANGE_NONE,
	RANGE_FROM_TO, /* first..last */
	RANGE_FROM,    /* first.. */
	RANGE_LAST,    /* the last `last` bytes */
};

struct asked {
	enum range_kind range;
	uint64_t first, last;
	bool has_if_range, has_if_none_match;
	bool has_digest;
	uint8_t digest[32];    /* SHA-256 of the request's body */
	const char *bad_field; /* static; set with an error */
	int bad_status;	       /* 400, or 416 for a range */
};

/* Copy what goes with the call (fields: enum route_field, and the common ones:
 * content-type, accept, idempotency-key, traceparent). -EINVAL with *e. */
int fields_ask(const struct http_head *from, unsigned fields,
	       struct http_head *to, struct asked *ret, struct err *e);

/* The fields of a file's 200, 206, 304 or 416; *ret_length: the body's bytes,
 * set for 200 and 206. -EBADMSG with *e if the guest's answer does not fit. */
int fields_answer(const struct http_head *from, const struct asked *asked,
		  struct http_head *to, int64_t *ret_length, struct err *e);
