/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/http_int.h"

void http1_body_init(struct http1_body *b, const struct http1_msg *m)
{
	memset(b, 0, sizeof(*b));
	b->framing = m->framing;
	switch (m->framing) {
	case HTTP1_NONE:
		b->state = HTTP1_BODY_DONE;
		break;
	case HTTP1_LENGTH:
		b->state = m->length ? HTTP1_BODY_DATA : HTTP1_BODY_DONE;
		b->left = m->length;
		break;
	case HTTP1_CHUNKED:
		b->state = HTTP1_BODY_SIZE;
		break;
	case HTTP1_UNTIL_EOF:
		b->state = HTTP1_BODY_DATA;
		b->left = UINT64_MAX;
		break;
	}
}

/* Chunk size, then CR. No extensions: nobody sends them honestly, and
 * recipients disagree about how they end. */
static int on_size(struct http1_body *b, uint8_t c)
{
	int d = text_hex_digit((char)c);

	if (d >= 0) {
		/* 15 digits cannot overflow; leading zeros count */
		if (b->digits++ >= 15)
			return -400;
		b->left = b->left * 16 + (uint64_t)d;
		return 0;
	}
	if (c != '\r' || b->digits == 0)
		return -400;
	b->state = HTTP1_BODY_SIZE_LF;
	return 0;
}

static int on_size_lf(struct http1_body *b, uint8_t c)
{
	if (c != '\n')
		return -400;
	b->digits = 0;
	b->state = b->left ? HTTP1_BODY_DATA : HTTP1_BODY_TRAILER;
	b->name = true;
	return 0;
}

/* Trailer fields are checked for shape and dropped. */
static int on_trailer(struct http1_body *b, uint8_t c)
{
	struct http1_scan *s = &b->scan;
	char ch = (char)c;

	if (++b->trailer > HTTP1_TRAILER_MAX)
		return -400;
	if (s->cr) {
		if (c != '\n')
			return -400;
		if (s->line == 0)
			b->state = HTTP1_BODY_DONE;
		s->cr = false;
		s->line = 0;
		b->name = true;
		return 0;
	}
	if (c == '\r') {
		s->cr = true;
		return s->line && b->name ? -400 : 0;
	}
	if (b->name && s->line && c == ':')
		b->name = false;
	else if (b->name ? !http1_is_token(&ch, 1) : !http1_is_value(&ch, 1))
		return -400;
	s->line++;
	return 0;
}

static int on_byte(struct http1_body *b, uint8_t c)
{
	switch (b->state) {
	case HTTP1_BODY_SIZE:
		return on_size(b, c);
	case HTTP1_BODY_SIZE_LF:
		return on_size_lf(b, c);
	case HTTP1_BODY_CHUNK_CR:
		b->state = HTTP1_BODY_CHUNK_LF;
		return c == '\r' ? 0 : -400;
	case HTTP1_BODY_CHUNK_LF:
		b->state = HTTP1_BODY_SIZE;
		return c == '\n' ? 0 : -400;
	case HTTP1_BODY_TRAILER:
		return on_trailer(b, c);
	case HTTP1_BODY_DATA:
	case HTTP1_BODY_DONE:
		break;
	}
	return -400;
}

ssize_t http1_body_next(struct http1_body *b, const uint8_t *p, size_t n,
			size_t max, struct view *ret)
{
	size_t used = 0, take;

	ret->p = NULL;
	ret->n = 0;
	while (used < n && b->state != HTTP1_BODY_DATA && !http1_body_done(b)) {
		if (on_byte(b, p[used]) < 0)
			return -400;
		used++;
	}
	if (b->state != HTTP1_BODY_DATA || used == n)
		return (ssize_t)used;

	take = n - used < max ? n - used : max;
	if (take > b->left)
		take = (size_t)b->left;
	if (take == 0)
		return (ssize_t)used;
	ret->p = (const char *)p + used;
	ret->n = take;
	if (b->framing != HTTP1_UNTIL_EOF)
		b->left -= take;
	if (b->left == 0)
		b->state = b->framing == HTTP1_CHUNKED ? HTTP1_BODY_CHUNK_CR
						       : HTTP1_BODY_DONE;
	return (ssize_t)(used + take);
}

const char *http1_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} table[] = {
		{ 100, "Continue" },
		{ 101, "Switching Protocols" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 402, "Payment Required" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 425, "Too Early" },
		{ 426, "Upgrade Required" },
		{ 428, "Precondition Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].status == status)
			return table[i].reason;
	}
	return "Unknown";
}

static int put_field(struct buf *out, const char *name, const char *value)
{
	int r = buf_puts(out, name);

	if (r == 0)
		r = buf_puts(out, ": ");
	if (r == 0)
		r = buf_puts(out, value);
	return r ? r : buf_puts(out, "\r\n");
}

static int put_fields(struct buf *out, const struct http_head *h,
		      enum http1_framing framing)
{
	bool length = false;
	int r = 0;

	for (size_t i = 0; i < h->n_fields && r == 0; i++) {
		const struct http_field *f = &h->fields[i];

		if (http1_is_hop_field(f->name, strlen(f->name)))
			continue;
		if (!strcmp(f->name, "content-length")) {
			if (framing == HTTP1_CHUNKED || length)
				continue;
			length = true;
		}
		r = put_field(out, f->name, f->value);
	}
	if (r == 0 && framing == HTTP1_CHUNKED)
		r = put_field(out, "transfer-encoding", "chunked");
	if (r == 0 && framing == HTTP1_LENGTH && !length)
		r = put_field(out, "content-length", "0");
	return r;
}

static int put_upgrade(struct buf *out, const char *upgrade)
{
	int r = put_field(out, "connection", "Upgrade");

	return r ? r : put_field(out, "upgrade", upgrade);
}

int http1_put_request(struct buf *out, const struct http_head *h,
		      enum http1_framing framing, const char *upgrade)
{
	int r = buf_printf(out, "%s %s HTTP/1.1\r\n", h->method, h->path);

	if (r == 0)
		r = put_field(out, "host",
			      h->authority ? h->authority : HTTP_AUTHORITY);
	if (r == 0)
		r = put_fields(out, h, framing);
	if (r == 0 && upgrade)
		r = put_upgrade(out, upgrade);
	return r ? r : buf_puts(out, "\r\n");
}

int http1_put_switch(struct buf *out, const struct http_head *h,
		     const char *upgrade)
{
	int r = buf_printf(out, "HTTP/1.1 101 %s\r\n", http1_reason(101));

	if (r == 0)
		r = put_upgrade(out, upgrade);
	if (r == 0)
		r = put_fields(out, h, HTTP1_NONE);
	return r ? r : buf_puts(out, "\r\n");
}

int http1_put_response(struct buf *out, const struct http_head *h,
		       enum http1_framing framing, bool close)
{
	int r = buf_printf(out, "HTTP/1.1 %d %s\r\n", h->status,
			   http1_reason(h->status));

	if (r == 0)
		r = put_fields(out, h, framing);
	if (r == 0 && close)
		r = put_field(out, "connection", "close");
	return r ? r : buf_puts(out, "\r\n");
}
