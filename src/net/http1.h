/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The HTTP/1.1 message syntax (RFC 9112) as pure functions: find the end of a
 * head, parse it, decode a body, write a head. No I/O, no clock; memory only
 * for the parsed head, and bounded by the caller's limits.
 *
 * Two parties that read one message differently are how requests get smuggled,
 * so whatever could be read in two ways is refused, also where the RFC lets a
 * recipient be kind: bare CR or LF, obsolete folding, empty lines before the
 * request line, whitespace before the colon, Content-Length together with
 * Transfer-Encoding, twice, or as a list, chunk extensions, HTTP/1.0 (of a
 * client; a server's answer may be of it, and ends with its connection).
 *
 * A refusal is a negative HTTP status (-400, -414, -431, -501, -505, -417): the
 * answer that a server gives, and simply "broken" for a client. The verdict on
 * a prefix never changes when more bytes arrive.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/http.h"

#define HTTP1_LINE_MAX	  8192u /* request or status line */
#define HTTP1_TRAILER_MAX 8192u /* discarded trailer section */
#define HTTP1_UPGRADE_MAX 32u	/* name of a protocol to switch to */

/* ---- heads ---- */

struct http1_scan {
	size_t pos;  /* bytes looked at */
	size_t line; /* bytes in the current line */
	bool cr;     /* the last byte was a CR */
	bool later;  /* not in the first line any more */
};

struct http1_limits {
	size_t head_bytes; /* names + values */
	size_t fields;
};

enum http1_framing {
	HTTP1_NONE,
	HTTP1_LENGTH,
	HTTP1_CHUNKED,
	HTTP1_UNTIL_EOF, /* responses only */
};

struct http1_msg {
	enum http1_framing framing;
	uint64_t length; /* HTTP1_LENGTH */
	bool close;	 /* Connection: close */
	bool expect;	 /* Expect: 100-continue */
	/* The one protocol of Upgrade, if Connection names that field and there
	 * is no body; else empty. */
	char upgrade[HTTP1_UPGRADE_MAX + 1];
};

/*
 * Look for the empty line that ends a head in p[0..n), which must begin with
 * the same bytes at each call. Returns the head's size with the empty line, 0
 * for "more", or a refusal. max bounds the size.
 */
ssize_t http1_scan(struct http1_scan *s, const uint8_t *p, size_t n,
		   size_t max);

/*
 * Parse a head that http1_scan() found whole. 0, or a refusal with *ret_why
 * pointing to a constant text. ret must be initialised, is filled as far as
 * parsing went, and is the caller's to free either way.
 *
 * Fields about the connection (connection, transfer-encoding, te, upgrade,
 * trailer, keep-alive, expect...) and host are interpreted, not passed up.
 */
int http1_parse_request(const uint8_t *p, size_t n,
			const struct http1_limits *lim, struct http_head *ret,
			struct http1_msg *ret_msg, const char **ret_why);
/* method: of the request that is answered; HEAD has no body. */
int http1_parse_response(const uint8_t *p, size_t n, const char *method,
			 const struct http1_limits *lim, struct http_head *ret,
			 struct http1_msg *ret_msg, const char **ret_why);

/*
 * Append a head with its empty line. Connection-level fields of h are skipped:
 * framing, close and upgrade (a protocol, or NULL) decide them. HTTP1_LENGTH
 * adds `content-length: 0` if h has none; HTTP1_CHUNKED drops a content-length.
 * 0 or -ENOBUFS.
 */
int http1_put_request(struct buf *out, const struct http_head *h,
		      enum http1_framing framing, const char *upgrade);
/* 101, whatever h's status. */
int http1_put_switch(struct buf *out, const struct http_head *h,
		     const char *upgrade);
int http1_put_response(struct buf *out, const struct http_head *h,
		       enum http1_framing framing, bool close);
const char *http1_reason(int status);

/* ---- bodies ---- */

enum http1_state {
	HTTP1_BODY_DATA,
	HTTP1_BODY_SIZE, /* chunk size */
	HTTP1_BODY_SIZE_LF,
	HTTP1_BODY_CHUNK_CR,
	HTTP1_BODY_CHUNK_LF,
	HTTP1_BODY_TRAILER,
	HTTP1_BODY_DONE,
};

struct http1_body {
	enum http1_framing framing;
	enum http1_state state;
	uint64_t left;		/* of the chunk, or of the body */
	unsigned digits;	/* of the chunk size */
	struct http1_scan scan; /* trailer section, fed byte by byte */
	size_t trailer;
	bool name; /* inside a trailer's name */
};

void http1_body_init(struct http1_body *b, const struct http1_msg *m);
/*
 * Decode: returns how many bytes of p were used, with the payload found among
 * them (at most max bytes, possibly none) in *ret; or -400. Uses 0 bytes only
 * if n is 0, max is 0 before payload, or the body is done.
 */
ssize_t http1_body_next(struct http1_body *b, const uint8_t *p, size_t n,
			size_t max, struct view *ret);
static inline bool http1_body_done(const struct http1_body *b)
{
	return b->state == HTTP1_BODY_DONE;
}

/* ---- shared with HTTP/2 ---- */

bool http1_is_token(const char *p, size_t n);
bool http1_is_value(const char *p, size_t n); /* no controls but HTAB */
bool http1_is_path(const char *p, size_t n);  /* origin form */
bool http1_is_authority(const char *p, size_t n);
/* Digits only, at most 2^63 - 1. */
bool http1_parse_length(const char *p, size_t n, uint64_t *ret);
/* A field about the connection itself, by its lower-case name; never passed
 * up, never sent from a caller's head. */
bool http1_is_hop_field(const char *name, size_t n);
