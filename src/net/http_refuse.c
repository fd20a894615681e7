/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Answers to what never reaches a handler: malformed, too large, too slow.
 * They have the form of every other error of the product, so that a client's
 * one error path reads them.
 */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/http_int.h"

static const struct refusal {
	int status;
	const char *code, *remedy;
} table[] = {
	{ 400, "malformed_request",
	  "send a well-formed HTTP request; proxies on the way may have "
	  "changed "
	  "it" },
	{ 408, "request_timeout",
	  "send the whole request without long pauses" },
	{ 413, "too_large", "send less in one request" },
	{ 414, "too_large", "shorten the path and its query" },
	{ 417, "malformed_request",
	  "leave the Expect field out or send 100-continue" },
	{ 426, "not_supported", "send Upgrade: websocket over HTTP/1.1" },
	{ 429, "rate_limited",
	  "close connections that are not used, or share them" },
	{ 431, "too_large", "send fewer or shorter header fields" },
	{ 500, "internal", "repeat the call; see the log of the service" },
	{ 501, "not_supported",
	  "use GET, POST, PUT, PATCH or DELETE, and no coding but chunked" },
	{ 505, "not_supported", "use HTTP/1.1 or HTTP/2" },
};

static const struct refusal *find(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].status == status)
			return &table[i];
	}
	return &table[0];
}

char *http_refusal_text(int status, const char *why, const char *request_id)
{
	const struct refusal *r = find(status);

	/* our own words: nothing of the peer's is in them */
	CHECK(!strpbrk(why, "\"\\\n"));
	return xasprintf("{\"error\":{\"code\":\"%s\",\"message\":\"%s\","
			 "\"cause\":\"request\",\"remedy\":\"%s\","
			 "\"request_id\":\"%s\"}}\n",
			 r->code, why, r->remedy, request_id);
}

void http_refusal_head(struct http_head *h, int status, size_t length,
		       char request_id[HTTP_REQUEST_ID_MAX])
{
	char number[24];

	http_head_init(h);
	h->status = status;
	snprintf(number, sizeof(number), "%zu", length);
	http_head_add(h, "content-type", "application/json");
	http_head_add(h, "content-length", number);
	http_head_add(h, "request-id", request_id);
}

void http_request_id(char ret[HTTP_REQUEST_ID_MAX])
{
	char random[21];

	random_id(random, 20);
	snprintf(ret, HTTP_REQUEST_ID_MAX, "req_%s", random);
}

void http_stream_refuse(struct http_stream *s, int status, const char *why)
{
	char id[HTTP_REQUEST_ID_MAX];
	struct http_head h;
	owned_str text = NULL;

	http_request_id(id);
	text = http_refusal_text(status, why, id);
	http_refusal_head(&h, status, strlen(text), id);
	http_stream_respond(s, &h, true);
	http_head_fini(&h);
	http_stream_write_all(s, text, strlen(text));
	http_stream_end(s);
}
