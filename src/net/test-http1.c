/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"

#define HOST "Host: a.test\r\n"

static const struct http1_limits limits = { .head_bytes = 4096, .fields = 10 };

struct parsed {
	int r; /* of the scan if that refused, else of the parser */
	struct http_head head;
	struct http1_msg msg;
	const char *why;
};

static void parse_n(struct parsed *ret, const char *p, size_t n)
{
	struct http1_scan scan = { 0 };
	ssize_t used;

	memset(ret, 0, sizeof(*ret));
	used = http1_scan(&scan, (const uint8_t *)p, n, 16384);
	if (used <= 0) {
		ret->r = used < 0 ? (int)used : 1;
		return;
	}
	ret->r = http1_parse_request((const uint8_t *)p, (size_t)used, &limits,
				     &ret->head, &ret->msg, &ret->why);
}

static int verdict(const char *text)
{
	struct parsed got;

	parse_n(&got, text, strlen(text));
	http_head_fini(&got.head);
	return got.r;
}

TEST(a_plain_request)
{
	struct parsed got;
	const char *text = "GET /a/b?c=d HTTP/1.1\r\nHOST: a.test:80\r\n"
			   "X-Thing: \t some value \t\r\nEmpty:\r\n\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_STR(got.head.method, "GET");
	T_STR(got.head.path, "/a/b?c=d");
	T_STR(got.head.authority, "a.test:80");
	T_STR(http_head_get(&got.head, "x-thing"), "some value");
	T_STR(http_head_get(&got.head, "empty"), "");
	T_INT(got.head.n_fields, 2);
	T_INT(got.msg.framing, HTTP1_NONE);
	T_INT(got.msg.close, 0);
	http_head_fini(&got.head);
}

TEST(fields_about_the_connection_stay_below)
{
	struct parsed got;
	const char *text =
	    "GET / HTTP/1.1\r\n" HOST "Connection: Close, x-y\r\n"
	    "TE: trailers\r\nUpgrade: h2c\r\n"
	    "Keep-Alive: 5\r\nHTTP2-Settings: AAA\r\n"
	    "Cookie: a=b\r\n\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_INT(got.head.n_fields, 1);
	T_STR(http_head_get(&got.head, "cookie"), "a=b");
	T_INT(got.msg.close, 1);
	http_head_fini(&got.head);
}

TEST(content_length_frames)
{
	struct parsed got;
	const char *text =
	    "PUT / HTTP/1.1\r\n" HOST "Content-Length: 0042\r\n\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_INT(got.msg.framing, HTTP1_LENGTH);
	T_INT(got.msg.length, 42);
	http_head_fini(&got.head);
}

TEST(transfer_encoding_frames)
{
	struct parsed got;
	const char *text =
	    "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_INT(got.msg.framing, HTTP1_CHUNKED);
	http_head_fini(&got.head);
}

TEST(expect_continue_is_seen)
{
	struct parsed got;
	const char *text = "PUT / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n"
			   "Content-Length: 1\r\n\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_INT(got.msg.expect, 1);
	http_head_fini(&got.head);
}

TEST(absolute_target_for_its_host)
{
	struct parsed got;
	const char *text = "GET http://a.test/x HTTP/1.1\r\n" HOST "\r\n";

	parse_n(&got, text, strlen(text));
	T_INT(got.r, 0);
	T_STR(got.head.path, "/x");
	http_head_fini(&got.head);
}

/* A refusal each: what it is, the bytes, the status. */
#define REFUSES(id, status, text)                                              \
	TEST(refuses_##id)                                                     \
	{                                                                      \
		T_INT(verdict(text), -(status));                               \
	}

REFUSES(length_and_transfer_encoding, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
REFUSES(transfer_encoding_and_length, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n")
REFUSES(two_different_lengths, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Content-Length: 5\r\nContent-Length: 6\r\n\r\n")
REFUSES(two_equal_lengths, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Content-Length: 5\r\nContent-Length: 5\r\n\r\n")
REFUSES(a_list_of_lengths, 400,
	"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n")
REFUSES(a_signed_length, 400,
	"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n")
REFUSES(a_negative_length, 400,
	"POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n")
REFUSES(a_hexadecimal_length, 400,
	"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n")
REFUSES(an_empty_length, 400,
	"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n")
REFUSES(a_length_that_overflows, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Content-Length: 18446744073709551617\r\n\r\n")
REFUSES(gzip_transfer_coding, 501,
	"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n")
REFUSES(identity_transfer_coding, 501,
	"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n")
REFUSES(chunked_twice_in_a_list, 501,
	"POST / HTTP/1.1\r\n" HOST
	"Transfer-Encoding: chunked, chunked\r\n\r\n")
REFUSES(an_xchunked_coding, 501,
	"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n")
REFUSES(a_quoted_coding, 501,
	"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n")
REFUSES(two_transfer_encodings, 400,
	"POST / HTTP/1.1\r\n" HOST
	"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n")
REFUSES(a_vertical_tab_before_chunked, 400,
	"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \vchunked\r\n\r\n")
REFUSES(folding_with_a_space, 400,
	"GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n")
REFUSES(folding_with_a_tab, 400,
	"GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n")
REFUSES(a_space_before_the_first_field, 400,
	"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n")
REFUSES(bare_lf_after_a_field, 400, "GET / HTTP/1.1\r\nHost: a.test\n\r\n")
REFUSES(bare_lf_after_the_request_line, 400, "GET / HTTP/1.1\nHost: a\r\n\r\n")
REFUSES(bare_lf_as_the_empty_line, 400, "GET / HTTP/1.1\r\n" HOST "\n")
REFUSES(bare_cr_in_a_value, 400, "GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n")
REFUSES(bare_cr_in_a_name, 400, "GET / HTTP/1.1\r\n" HOST "X\r: a\r\n\r\n")
REFUSES(two_crs, 400, "GET / HTTP/1.1\r\r\n" HOST "\r\n")
REFUSES(a_space_before_the_colon, 400,
	"GET / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\n")
REFUSES(a_tab_before_the_colon, 400, "GET / HTTP/1.1\r\n" HOST "X\t: 5\r\n\r\n")
REFUSES(a_space_in_a_name, 400, "GET / HTTP/1.1\r\n" HOST "X Y: 5\r\n\r\n")
REFUSES(a_name_of_nothing, 400, "GET / HTTP/1.1\r\n" HOST ": 5\r\n\r\n")
REFUSES(a_field_without_colon, 400, "GET / HTTP/1.1\r\n" HOST "X\r\n\r\n")
REFUSES(a_name_with_high_bytes, 400,
	"GET / HTTP/1.1\r\n" HOST "X\xc3\xa9: 5\r\n\r\n")
REFUSES(a_control_in_a_value, 400, "GET / HTTP/1.1\r\n" HOST "X: \x01\r\n\r\n")
REFUSES(a_delete_in_a_value, 400, "GET / HTTP/1.1\r\n" HOST "X: \x7f\r\n\r\n")
REFUSES(no_host, 400, "GET / HTTP/1.1\r\nX: a\r\n\r\n")
REFUSES(no_field_at_all, 400, "GET / HTTP/1.1\r\n\r\n")
REFUSES(two_hosts, 400, "GET / HTTP/1.1\r\n" HOST HOST "\r\n")
REFUSES(an_empty_host, 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n")
REFUSES(a_host_with_a_path, 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n")
REFUSES(a_host_with_a_user, 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n")
REFUSES(a_host_with_a_space, 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
REFUSES(absolute_target_of_another_host, 400,
	"GET http://b.test/ HTTP/1.1\r\n" HOST "\r\n")
REFUSES(absolute_target_of_a_longer_host, 400,
	"GET http://a.test.evil/ HTTP/1.1\r\n" HOST "\r\n")
REFUSES(absolute_target_with_a_user, 400,
	"GET http://a.test@evil/ HTTP/1.1\r\n" HOST "\r\n")
REFUSES(absolute_target_without_a_path, 400,
	"GET http://a.test HTTP/1.1\r\n" HOST "\r\n")
REFUSES(https_target, 400, "GET https://a.test/ HTTP/1.1\r\n" HOST "\r\n")
REFUSES(asterisk_target, 400, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n")
REFUSES(a_relative_target, 400, "GET a HTTP/1.1\r\n" HOST "\r\n")
REFUSES(an_empty_target, 400, "GET  HTTP/1.1\r\n" HOST "\r\n")
REFUSES(a_fragment, 400, "GET /a#b HTTP/1.1\r\n" HOST "\r\n")
REFUSES(high_bytes_in_the_target, 400, "GET /\xff HTTP/1.1\r\n" HOST "\r\n")
REFUSES(a_tab_in_the_target, 400, "GET /a\tb HTTP/1.1\r\n" HOST "\r\n")
REFUSES(spaces_in_the_target, 400, "GET /a b HTTP/1.1\r\n" HOST "\r\n")
REFUSES(trailing_space_on_the_request_line, 400,
	"GET / HTTP/1.1 \r\n" HOST "\r\n")
REFUSES(leading_space_on_the_request_line, 400,
	" GET / HTTP/1.1\r\n" HOST "\r\n")
REFUSES(an_empty_line_first, 400, "\r\nGET / HTTP/1.1\r\n" HOST "\r\n")
REFUSES(connect, 501, "CONNECT a.test:80 HTTP/1.1\r\n" HOST "\r\n")
REFUSES(a_method_that_is_no_token, 400, "G(T / HTTP/1.1\r\n" HOST "\r\n")
REFUSES(an_endless_method, 400,
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" HOST "\r\n")
REFUSES(no_version, 400, "GET /\r\n" HOST "\r\n")
REFUSES(http_1_0, 505, "GET / HTTP/1.0\r\n" HOST "\r\n")
REFUSES(http_1_2, 505, "GET / HTTP/1.2\r\n" HOST "\r\n")
REFUSES(http_2_in_a_request_line, 505, "GET / HTTP/2.0\r\n" HOST "\r\n")
REFUSES(lower_case_version, 400, "GET / http/1.1\r\n" HOST "\r\n")
REFUSES(a_version_with_more_digits, 400, "GET / HTTP/1.10\r\n" HOST "\r\n")
REFUSES(an_unknown_expectation, 417,
	"GET / HTTP/1.1\r\n" HOST "Expect: miracles\r\n\r\n")
REFUSES(a_malformed_connection_field, 400,
	"GET / HTTP/1.1\r\n" HOST "Connection: a b\r\n\r\n")
REFUSES(too_many_fields, 431,
	"GET / HTTP/1.1\r\n" HOST "a:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\n"
	"a:1\r\na:1\r\na:1\r\na:1\r\n\r\n")

TEST(as_many_fields_as_allowed)
{
	T_INT(verdict("GET / HTTP/1.1\r\n" HOST "a:1\r\na:1\r\na:1\r\na:1\r\n"
		      "a:1\r\na:1\r\na:1\r\na:1\r\na:1\r\n\r\n"),
	      0);
}

TEST(refuses_a_nul_byte)
{
	static const char text[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";
	struct parsed got;

	parse_n(&got, text, sizeof(text) - 1);
	T_INT(got.r, -400);
}

/* prefix, n times fill, suffix */
static int verdict_of_long(const char *prefix, size_t n, const char *suffix)
{
	owned_str text = xcalloc(1, strlen(prefix) + n + strlen(suffix) + 1);

	memcpy(text, prefix, strlen(prefix));
	memset(text + strlen(prefix), 'a', n);
	memcpy(text + strlen(prefix) + n, suffix, strlen(suffix));
	return verdict(text);
}

TEST(refuses_a_long_target)
{
	T_INT(verdict_of_long("GET /", 8000, " HTTP/1.1\r\n" HOST "\r\n"), 0);
	T_INT(verdict_of_long("GET /", 8200, " HTTP/1.1\r\n" HOST "\r\n"),
	      -414);
	T_INT(verdict_of_long("GET /", 8200, ""), -414);
}

TEST(refuses_a_long_field)
{
	T_INT(
	    verdict_of_long("GET / HTTP/1.1\r\n" HOST "X: ", 4000, "\r\n\r\n"),
	    0);
	T_INT(
	    verdict_of_long("GET / HTTP/1.1\r\n" HOST "X: ", 5000, "\r\n\r\n"),
	    -431);
}

TEST(refuses_a_head_without_end)
{
	T_INT(verdict_of_long("GET / HTTP/1.1\r\n" HOST "X: ", 20000, ""),
	      -431);
}

TEST(refuses_a_long_name)
{
	T_INT(verdict_of_long("GET / HTTP/1.1\r\n" HOST, 300, ": a\r\n\r\n"),
	      -400);
}

TEST(incomplete_heads_want_more)
{
	const char *text = "GET / HTTP/1.1\r\nHost: a.test\r\nX: y\r\n\r\n";

	for (size_t n = 0; n < strlen(text); n++) {
		struct http1_scan scan = { 0 };

		T_INT(http1_scan(&scan, (const uint8_t *)text, n, 1000), 0);
	}
}

TEST(scanning_byte_by_byte_finds_the_same_end)
{
	const char *text = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET";
	struct http1_scan scan = { 0 };
	ssize_t r = 0;
	size_t n = 0;

	while (r == 0)
		r = http1_scan(&scan, (const uint8_t *)text, ++n, 1000);
	T_INT(r, strlen(text) - 3);
	T_INT(n, r);
}

TEST(obs_text_in_values_passes)
{
	T_INT(verdict("GET / HTTP/1.1\r\n" HOST "X: \xc3\xa9\r\n\r\n"), 0);
}

/* ---- responses ---- */

static int response(const char *text, const char *method, struct http_head *ret,
		    struct http1_msg *msg)
{
	struct http1_scan scan = { 0 };
	const char *why;
	ssize_t n =
	    http1_scan(&scan, (const uint8_t *)text, strlen(text), 8192);

	http_head_init(ret);
	memset(msg, 0, sizeof(*msg));
	if (n <= 0)
		return n < 0 ? (int)n : 1;
	return http1_parse_response((const uint8_t *)text, (size_t)n, method,
				    &limits, ret, msg, &why);
}

static int response_framing(const char *text, const char *method)
{
	struct http_head h;
	struct http1_msg m;
	int r = response(text, method, &h, &m);

	http_head_fini(&h);
	return r < 0 ? r : (int)m.framing;
}

TEST(a_plain_response)
{
	struct http_head h;
	struct http1_msg m;

	T_INT(response("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n"
		       "Connection: close\r\n\r\n",
		       "GET", &h, &m),
	      0);
	T_INT(h.status, 404);
	T_INT(http_head_length(&h), 3);
	T_INT(m.framing, HTTP1_LENGTH);
	T_INT(m.length, 3);
	T_INT(m.close, 1);
	http_head_fini(&h);
}

TEST(responses_are_framed_as_the_rfc_says)
{
	T_INT(response_framing("HTTP/1.1 200 OK\r\n\r\n", "GET"),
	      HTTP1_UNTIL_EOF);
	T_INT(response_framing("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
			       "HEAD"),
	      HTTP1_NONE);
	T_INT(response_framing("HTTP/1.1 304 N\r\ncontent-length: 5\r\n\r\n",
			       "GET"),
	      HTTP1_NONE);
	T_INT(response_framing("HTTP/1.1 204 N\r\n\r\n", "GET"), HTTP1_NONE);
	T_INT(response_framing("HTTP/1.1 100 C\r\n\r\n", "PUT"), HTTP1_NONE);
	T_INT(response_framing(
		  "HTTP/1.1 200\r\ntransfer-encoding: chunked\r\n\r\n", "GET"),
	      HTTP1_CHUNKED);
}

TEST(a_response_of_http_1_0_ends_with_its_connection)
{
	struct http_head h;
	struct http1_msg m;

	T_INT(response("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n"
		       "Connection: keep-alive\r\n\r\n",
		       "GET", &h, &m),
	      0);
	T_INT(h.status, 200);
	T_INT(m.framing, HTTP1_LENGTH);
	T_INT(m.length, 3);
	T_INT(m.close, 1);
	http_head_fini(&h);
	T_INT(response_framing("HTTP/1.0 200 OK\r\n\r\n", "GET"),
	      HTTP1_UNTIL_EOF);
	T_INT(response_framing("HTTP/1.0 304 N\r\n\r\n", "GET"), HTTP1_NONE);
}

TEST(malformed_responses_are_refused)
{
	static const char *const bad[] = {
		"HTTP/0.9 200 OK\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n",
		"HTTP/1.0 100 C\r\n\r\n",
		"HTTP/1.0 101 S\r\n\r\n",
		"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"HTTP/1.1\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n",
		"HTTP/1.1 200 OK\r\na : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n"
		"transfer-encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n"
		"content-length: 2\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (response_framing(bad[i], "GET") >= 0)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
	}
}

/* ---- bodies ---- */

struct decoded {
	int r; /* 1 done, 0 wants more, -400 */
	size_t used, n;
	char text[256];
};

static void decode(struct decoded *ret, enum http1_framing framing,
		   uint64_t length, const char *p, size_t n, size_t step,
		   size_t max)
{
	struct http1_msg m = { .framing = framing, .length = length };
	struct http1_body b;

	memset(ret, 0, sizeof(*ret));
	http1_body_init(&b, &m);
	while (!http1_body_done(&b)) {
		size_t k = n - ret->used < step ? n - ret->used : step;
		struct view v;
		ssize_t used;

		used = http1_body_next(&b, (const uint8_t *)p + ret->used, k,
				       max, &v);
		if (used < 0) {
			ret->r = (int)used;
			return;
		}
		if (used == 0)
			return;
		T_TRUE(v.n <= max);
		if (v.n)
			memcpy(ret->text + ret->n, v.p, v.n);
		ret->n += v.n;
		ret->used += (size_t)used;
	}
	ret->r = 1;
}

static int chunks(const char *text)
{
	struct decoded d;

	decode(&d, HTTP1_CHUNKED, 0, text, strlen(text), 1000, 1000);
	return d.r;
}

TEST(chunks_are_joined)
{
	const char *text = "5\r\nhello\r\n00A\r\n, chunked \r\n0\r\n\r\nnext";
	struct decoded d;

	decode(&d, HTTP1_CHUNKED, 0, text, strlen(text), 1000, 1000);
	T_INT(d.r, 1);
	T_STR(d.text, "hello, chunked ");
	T_STR(text + d.used, "next");
}

TEST(chunks_in_any_portions)
{
	const char *text = "5\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";

	for (size_t step = 1; step < strlen(text); step++) {
		for (size_t max = 1; max < 7; max++) {
			struct decoded d;

			decode(&d, HTTP1_CHUNKED, 0, text, strlen(text), step,
			       max);
			T_INT(d.r, 1);
			T_STR(d.text, "hello!");
			T_INT(d.used, strlen(text));
		}
	}
}

TEST(length_bodies_end_where_they_say)
{
	struct decoded d;

	decode(&d, HTTP1_LENGTH, 5, "helloGET", 8, 3, 1000);
	T_INT(d.r, 1);
	T_STR(d.text, "hello");
	T_INT(d.used, 5);
}

TEST(length_body_wants_more)
{
	struct decoded d;

	decode(&d, HTTP1_LENGTH, 6, "hello", 5, 1000, 1000);
	T_INT(d.r, 0);
	T_INT(d.used, 5);
}

TEST(no_body_is_done_at_once)
{
	struct decoded d;

	decode(&d, HTTP1_NONE, 0, "hello", 5, 1000, 1000);
	T_INT(d.r, 1);
	T_INT(d.used, 0);
}

TEST(body_until_the_end_never_ends_by_itself)
{
	struct decoded d;

	decode(&d, HTTP1_UNTIL_EOF, 0, "hello", 5, 2, 1000);
	T_INT(d.r, 0);
	T_STR(d.text, "hello");
}

TEST(a_decoder_without_room_waits)
{
	struct http1_msg m = { .framing = HTTP1_CHUNKED };
	struct http1_body b;
	struct view v;

	http1_body_init(&b, &m);
	T_INT(http1_body_next(&b, (const uint8_t *)"5\r\nhello", 8, 0, &v), 3);
	T_INT(v.n, 0);
	T_INT(http1_body_next(&b, (const uint8_t *)"hello", 5, 0, &v), 0);
	T_INT(http1_body_next(&b, (const uint8_t *)"hello", 5, 9, &v), 5);
	T_INT(v.n, 5);
}

TEST(trailers_are_dropped)
{
	T_INT(chunks("0\r\nDigest: abc\r\nX-Y:\r\n\r\n"), 1);
}

#define BAD_CHUNKS(id, text)                                                   \
	TEST(refuses_chunks_##id)                                              \
	{                                                                      \
		T_INT(chunks(text), -400);                                     \
	}

BAD_CHUNKS(without_size, "\r\n\r\n")
BAD_CHUNKS(with_a_sign, "+5\r\nhello\r\n")
BAD_CHUNKS(with_a_prefix, "0x5\r\nhello\r\n")
BAD_CHUNKS(with_a_leading_space, " 5\r\nhello\r\n")
BAD_CHUNKS(with_a_trailing_space, "5 \r\nhello\r\n")
BAD_CHUNKS(with_an_extension, "5;a=b\r\nhello\r\n")
BAD_CHUNKS(with_bare_lf_after_the_size, "5\nhello\r\n")
BAD_CHUNKS(with_bare_lf_after_the_data, "5\r\nhello\n0\r\n\r\n")
BAD_CHUNKS(longer_than_their_size, "5\r\nhelloo\r\n0\r\n\r\n")
BAD_CHUNKS(shorter_than_their_size, "6\r\nhello\r\n0\r\n\r\n")
BAD_CHUNKS(that_overflow, "10000000000000000\r\nhello\r\n")
BAD_CHUNKS(with_endless_zeros, "00000000000000005\r\nhello\r\n")
BAD_CHUNKS(with_bare_lf_at_the_end, "0\r\n\n")
BAD_CHUNKS(with_a_bare_cr_at_the_end, "0\r\n\rX")
BAD_CHUNKS(with_a_nameless_trailer, "0\r\n: a\r\n\r\n")
BAD_CHUNKS(with_a_trailer_without_colon, "0\r\nabc\r\n\r\n")
BAD_CHUNKS(with_a_folded_trailer, "0\r\na: b\r\n c\r\n\r\n")
BAD_CHUNKS(with_a_spaced_trailer, "0\r\na : b\r\n\r\n")
BAD_CHUNKS(with_a_control_in_a_trailer, "0\r\na: \x01\r\n\r\n")

TEST(refuses_endless_trailers)
{
	struct http1_msg m = { .framing = HTTP1_CHUNKED };
	struct http1_body b;
	struct view v;
	ssize_t r = 0;

	http1_body_init(&b, &m);
	T_INT(http1_body_next(&b, (const uint8_t *)"0\r\n", 3, 1, &v), 3);
	for (int i = 0; i < 10000 && r >= 0; i++)
		r = http1_body_next(&b, (const uint8_t *)"a: b\r\n", 6, 1, &v);
	T_INT(r, -400);
}

/* ---- writing ---- */

TEST(request_head_is_written)
{
	struct http_head h = { .method = xstrdup("POST"),
			       .path = xstrdup("/x") };
	struct buf out;

	buf_init(&out, 0);
	http_head_add(&h, "content-length", "5");
	http_head_add(&h, "transfer-encoding", "gzip");
	http_head_add(&h, "host", "evil");
	http_head_add(&h, "x-a", "b");
	T_INT(http1_put_request(&out, &h, HTTP1_CHUNKED, NULL), 0);
	T_STR(buf_cstr(&out), "POST /x HTTP/1.1\r\nhost: localhost\r\n"
			      "x-a: b\r\ntransfer-encoding: chunked\r\n\r\n");
	buf_clear(&out);
	T_INT(http1_put_request(&out, &h, HTTP1_NONE, NULL), 0);
	T_HAS(buf_cstr(&out), "\r\ncontent-length: 5\r\n");
	buf_fini(&out);
	http_head_fini(&h);
}

TEST(response_head_is_written)
{
	struct http_head h = { .status = 204 };
	struct buf out;

	buf_init(&out, 0);
	T_INT(http1_put_response(&out, &h, HTTP1_NONE, true), 0);
	T_STR(buf_cstr(&out),
	      "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
	buf_clear(&out);
	h.status = 200;
	T_INT(http1_put_response(&out, &h, HTTP1_LENGTH, false), 0);
	T_STR(buf_cstr(&out), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
	buf_fini(&out);
}

TEST(what_is_written_can_be_read)
{
	struct http_head h = { .method = xstrdup("PUT"),
			       .path = xstrdup("/a%20b"),
			       .authority = xstrdup("[::1]:80") };
	struct parsed got;
	struct buf out;

	buf_init(&out, 0);
	http_head_add(&h, "x-a", "b; c, d");
	T_INT(http1_put_request(&out, &h, HTTP1_CHUNKED, NULL), 0);
	parse_n(&got, (char *)buf_data(&out), buf_len(&out));
	T_INT(got.r, 0);
	T_STR(got.head.path, "/a%20b");
	T_STR(got.head.authority, "[::1]:80");
	T_STR(http_head_get(&got.head, "x-a"), "b; c, d");
	T_INT(got.msg.framing, HTTP1_CHUNKED);
	http_head_fini(&got.head);
	http_head_fini(&h);
	buf_fini(&out);
}

/* ---- heads ---- */

TEST(a_head_holds_many_fields)
{
	struct http_head h;
	char name[16];

	http_head_init(&h);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "x-%d", i);
		http_head_add(&h, name, name + 2);
	}
	T_INT(h.n_fields, 100);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "x-%d", i);
		T_STR(http_head_get(&h, name), name + 2);
	}
	T_TRUE(!http_head_get(&h, "x-100"));
	http_head_fini(&h);
	T_INT(h.n_fields, 0);
}

TEST(head_length_is_strict)
{
	struct http_head h;

	http_head_init(&h);
	T_INT(http_head_length(&h), -1);
	http_head_add(&h, "content-length", "12 ");
	T_INT(http_head_length(&h), -1);
	http_head_fini(&h);
	http_head_add(&h, "content-length", "999999999999999999");
	T_INT(http_head_length(&h), 999999999999999999);
	http_head_fini(&h);
}
