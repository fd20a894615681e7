/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A head as request and as response. Laws: the verdict on a prefix does not
 * change with more bytes; what is accepted has a host and a path, no framing
 * field left to misread, and can be written and read again to the same.
 */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "net/http1.h"

static const struct http1_limits limits = { .head_bytes = 8192, .fields = 32 };

#define HEAD_MAX 16384

static void check_prefixes(const uint8_t *p, size_t n, ssize_t whole)
{
	struct http1_scan step = { 0 };
	ssize_t r = 0;

	for (size_t i = 0; i <= n && r == 0; i++)
		r = http1_scan(&step, p, i, HEAD_MAX);
	CHECK(r == whole);
}

static void check_fields(const struct http_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		const char *name = h->fields[i].name;

		CHECK(http1_is_token(name, strlen(name)));
		CHECK(!http1_is_hop_field(name, strlen(name)));
		for (; *name; name++)
			CHECK(*name < 'A' || *name > 'Z');
		CHECK(http1_is_value(h->fields[i].value,
				     strlen(h->fields[i].value)));
	}
}

static void check_round_trip(const struct http_head *h,
			     const struct http1_msg *m)
{
	struct http1_scan scan = { 0 };
	struct http_head again;
	struct http1_msg m2;
	const char *why;
	struct buf out;
	ssize_t n;

	buf_init(&out, 0);
	http_head_init(&again);
	CHECK(http1_put_request(&out, h, m->framing, NULL) == 0);
	n = http1_scan(&scan, buf_data(&out), buf_len(&out), 4 * HEAD_MAX);
	CHECK(n == (ssize_t)buf_len(&out));
	/* what was accepted is not refused when it is written again */
	CHECK(http1_parse_request(buf_data(&out), (size_t)n,
				  &(struct http1_limits){ 65536, 64 }, &again,
				  &m2, &why) == 0);
	CHECK(!strcmp(again.path, h->path));
	CHECK(!strcmp(again.method, h->method));
	CHECK(!strcmp(again.authority, h->authority));
	CHECK(m2.framing == m->framing && m2.length == m->length);
	http_head_fini(&again);
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http1_scan scan = { 0 };
	struct http_head h;
	struct http1_msg m;
	const char *why = NULL;
	ssize_t n = http1_scan(&scan, data, size, HEAD_MAX);

	check_prefixes(data, size, n);
	CHECK(n <= (ssize_t)size);
	if (n <= 0)
		return 0;

	http_head_init(&h);
	if (http1_parse_request(data, (size_t)n, &limits, &h, &m, &why) == 0) {
		CHECK(h.path[0] == '/' && h.authority[0] && h.method[0]);
		CHECK(m.framing != HTTP1_UNTIL_EOF);
		check_fields(&h);
		check_round_trip(&h, &m);
	} else {
		CHECK(why);
	}
	http_head_fini(&h);
	if (http1_parse_response(data, (size_t)n, "GET", &limits, &h, &m,
				 &why) == 0) {
		CHECK(h.status >= 100 && h.status <= 599);
		check_fields(&h);
	}
	http_head_fini(&h);
	return 0;
}
