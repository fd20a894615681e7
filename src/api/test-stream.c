/* SPDX-License-Identifier: Apache-2.0 */

/* Frames, events, clips and heads of previews: the pure parts of the data
 * listener. */

#include <errno.h>
#include <string.h>

#include "api/clip.h"
#include "api/frame.h"
#include "api/preview-head.h"
#include "api/sse.h"
#include "base/own.h"
#include "base/test.h"
#include "net/json.h"

/* ---- frames ---- */

static size_t make(uint8_t *to, uint8_t type, uint64_t offset, const char *p)
{
	struct frame f = { .type = type,
			   .offset = offset,
			   .n = (uint32_t)strlen(p) };

	frame_head(&f, to);
	memcpy(to + EXEC_FRAME_HEADER, p, f.n);
	return EXEC_FRAME_HEADER + f.n;
}

TEST(a_frame_from_the_guest_is_read_when_it_is_whole)
{
	uint8_t b[64];
	struct frame f;
	size_t n = make(b, EXEC_STDERR, 77, "abc");

	for (size_t i = 0; i < n; i++)
		T_INT(frame_from_guest(b, i, &f), 0);
	T_INT(frame_from_guest(b, n, &f), (long long)n);
	T_INT(f.type, EXEC_STDERR);
	T_INT(f.offset, 77);
	T_INT(f.n, 3);
	T_INT(memcmp(f.payload, "abc", 3), 0);
}

TEST(what_no_guest_of_ours_sends_is_refused_at_its_head)
{
	uint8_t b[64];
	struct frame f;
	size_t n;

	n = make(b, EXEC_STDIN, 0, "abc");
	T_INT(frame_from_guest(b, n, &f), -EBADMSG);
	n = make(b, EXEC_STDOUT, 0, "");
	T_INT(frame_from_guest(b, n, &f), -EBADMSG);
	n = make(b, EXEC_STDOUT, 0, "abc");
	b[2] = 1;
	T_INT(frame_from_guest(b, n, &f), -EBADMSG);
	n = make(b, EXEC_STDOUT, 0, "abc");
	b[4] = 0x7f; /* 2 GiB */
	T_INT(frame_from_guest(b, EXEC_FRAME_HEADER, &f), -EBADMSG);
	n = make(b, EXEC_STDOUT, INT64_MAX - 1, "abc");
	T_INT(frame_from_guest(b, n, &f), -EBADMSG);
}

static const char *client(uint8_t type, const char *payload, bool watch)
{
	uint8_t m[600] = { type };
	struct frame f;

	memcpy(m + 9, payload, strlen(payload));
	return frame_from_client(m, 9 + strlen(payload), watch, &f);
}

TEST(a_client_sends_what_it_may)
{
	struct frame f;

	T_TRUE(!client(EXEC_STDIN, "x", false));
	T_TRUE(!client(EXEC_STDIN_END, "", false));
	T_TRUE(!client(EXEC_ACK, "", false));
	T_TRUE(!client(EXEC_SIZE, "{\"cols\":1,\"rows\":65535}", false));
	T_TRUE(!client(EXEC_SIGNAL, "{\"name\":\"TERM\"}", false));
	T_TRUE(client(EXEC_STDIN, "", false) != NULL);
	T_TRUE(client(EXEC_STDIN_END, "x", false) != NULL);
	T_TRUE(client(EXEC_ACK, "x", false) != NULL);
	T_TRUE(client(EXEC_SIZE, "{\"cols\":1}", false) != NULL);
	T_TRUE(client(EXEC_SIZE, "{\"cols\":1,\"rows\":65536}", false) != NULL);
	T_TRUE(client(EXEC_SIGNAL, "{\"name\":\"../x\"}", false) != NULL);
	T_TRUE(client(EXEC_SIGNAL, "{\"name\":\"TERM\",\"pid\":1}", false) !=
	       NULL);
	T_TRUE(client(EXEC_EXIT, "{}", false) != NULL);
	T_TRUE(client(0, "", false) != NULL);
	T_TRUE(frame_from_client((const uint8_t *)"\x14", 1, false, &f) !=
	       NULL);
}

TEST(who_watches_acknowledges_only)
{
	T_TRUE(!client(EXEC_ACK, "", true));
	T_TRUE(client(EXEC_STDIN, "x", true) != NULL);
	T_TRUE(client(EXEC_STDIN_END, "", true) != NULL);
	T_TRUE(client(EXEC_SIGNAL, "{\"name\":\"TERM\"}", true) != NULL);
	T_TRUE(client(EXEC_SIZE, "{\"cols\":1,\"rows\":1}", true) != NULL);
}

/* ---- events ---- */

static struct buf out;

static int feed(enum sse_of of, bool follow, const void *p, size_t n)
{
	struct sse s;
	int r;

	buf_fini(&out);
	sse_init(&s, of, follow);
	r = sse_feed(&s, p, n, &out);
	sse_end(&s, &out);
	sse_fini(&s);
	return r;
}

TEST(a_payload_cannot_break_out_of_its_line)
{
	uint8_t b[128];
	size_t n = make(b, EXEC_EXIT, 4, "{\"a\":\n\"x\\n\\nevent: y\"}");

	T_INT(feed(SSE_FRAMES, true, b, n), 0);
	T_STR(buf_cstr(&out), "event: exit\nid: 4\ndata: "
			      "{\"a\":\"x\\n\\nevent: y\"}\n\n");
	n = make(b, EXEC_EXIT, 4, "{\"a\":1}\n\nevent: y");
	T_INT(feed(SSE_FRAMES, true, b, n), -EBADMSG);
	T_TRUE(!strstr(buf_cstr(&out), "event: y"));
	buf_fini(&out);
}

TEST(only_a_followed_stream_is_interrupted_by_its_end)
{
	uint8_t b[64];
	size_t n = make(b, EXEC_STDOUT, 4, "x");

	feed(SSE_FRAMES, false, b, n);
	T_TRUE(!strstr(buf_cstr(&out), "closing"));
	feed(SSE_FRAMES, true, b, n);
	T_HAS(buf_cstr(&out), "interrupted");
	feed(SSE_FRAMES, false, b, n - 1);
	T_HAS(buf_cstr(&out), "interrupted");
	buf_fini(&out);
}

TEST(a_line_without_end_is_not_kept_for_ever)
{
	char *big = xcalloc(1, SSE_LINE_MAX + 2);

	memset(big, 'a', SSE_LINE_MAX + 1);
	T_INT(feed(SSE_LINES, true, big, SSE_LINE_MAX + 1), -EBADMSG);
	free(big);
	buf_fini(&out);
}

TEST(an_unknown_kind_of_line_ends_the_conversion)
{
	static const char odd[] = "{\"type\":\"ready\\nid: 7\"}\n";

	T_INT(feed(SSE_LINES, true, odd, sizeof(odd) - 1), -EBADMSG);
	T_TRUE(!strstr(buf_cstr(&out), "id: 7"));
	buf_fini(&out);
}

/* ---- clips ---- */

static json_t *clipped(size_t n, const char *unit)
{
	struct clip c;
	json_t *o;

	clip_init(&c);
	for (size_t i = 0; i < n; i++)
		clip_put(&c, unit, strlen(unit));
	o = clip_json(&c);
	clip_fini(&c);
	return o;
}

static long long number(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static size_t length(const json_t *o, const char *name)
{
	return json_string_length(json_object_get(o, name));
}

TEST(what_fits_is_in_one_piece)
{
	owned_json o = clipped(CLIP_HEAD + CLIP_TAIL, "x");

	T_INT(length(o, "head"), CLIP_HEAD + CLIP_TAIL);
	T_INT(length(o, "tail"), 0);
	T_INT(number(o, "omitted_bytes"), 0);
	T_TRUE(json_is_false(json_object_get(o, "truncated")));
}

TEST(one_byte_more_is_counted_and_both_ends_stay)
{
	owned_json o = clipped(CLIP_HEAD + CLIP_TAIL + 1, "x");

	T_INT(length(o, "head"), CLIP_HEAD);
	T_INT(length(o, "tail"), CLIP_TAIL);
	T_INT(number(o, "omitted_bytes"), 1);
	T_INT(number(o, "bytes"), CLIP_HEAD + CLIP_TAIL + 1);
	T_TRUE(json_is_true(json_object_get(o, "truncated")));
}

TEST(a_cut_never_goes_through_a_character)
{
	owned_json o = clipped(100000, "\xe2\x82\xac"); /* 3 bytes each */

	T_STR(json_string_value(json_object_get(o, "encoding")), "utf-8");
	T_INT(length(o, "head") % 3, 0);
	T_INT(length(o, "tail") % 3, 0);
	T_INT(number(o, "omitted_bytes"),
	      300000 - (long long)(length(o, "head") + length(o, "tail")));
}

TEST(bytes_that_are_no_text_come_as_base64)
{
	owned_json o = clipped(3, "\xff");
	struct clip c;

	T_STR(json_string_value(json_object_get(o, "encoding")), "base64");
	T_STR(json_string_value(json_object_get(o, "head")), "////");
	clip_init(&c);
	clip_put(&c, "a\0b", 3);
	json_decref(o);
	o = clip_json(&c);
	clip_fini(&c);
	T_STR(json_string_value(json_object_get(o, "encoding")), "base64");
}

TEST(one_huge_write_keeps_its_ends)
{
	char *big = xcalloc(1, 1 << 20);
	struct clip c;

	memset(big, 'm', 1 << 20);
	big[0] = 'a';
	big[(1 << 20) - 1] = 'z';
	clip_init(&c);
	clip_put(&c, big, 1 << 20);
	T_INT(buf_data(&c.head)[0], 'a');
	T_INT(buf_data(&c.tail)[CLIP_TAIL - 1], 'z');
	T_INT(buf_len(&c.head), CLIP_HEAD);
	T_INT(buf_len(&c.tail), CLIP_TAIL);
	clip_fini(&c);
	free(big);
}

/* ---- previews ---- */

TEST(a_preview_host_has_a_port_an_id_and_a_domain)
{
	static const char *const bad[] = {
		"",
		"localhost",
		"80-sb0123456789abcdefghij",
		"0-sb0123456789abcdefghij.x",
		"65536-sb0123456789abcdefghij.x",
		"080000-sb0123456789abcdefghij.x",
		"80-sb0123456789abcdefghi.x",
		"80-sb0123456789abcdefghijk.x",
		"80-ex0123456789abcdefghij.x",
		"-sb0123456789abcdefghij.x",
		"80 sb0123456789abcdefghij.x",
		"a80-sb0123456789abcdefghij.x",
		"80-sb0123456789abcdefghij.x y",
		"80-sb0123456789abcdefghij.\x7f",
	};
	uint16_t port;
	char id[23];

	T_TRUE(preview_host("8080-sb0123456789abcdefghij.localhost:7710", &port,
			    id));
	T_INT(port, 8080);
	T_STR(id, "sb0123456789abcdefghij");
	T_TRUE(preview_host("1-SB0123456789ABCDEFGHIJ.Example.org", &port, id));
	T_STR(id, "sb0123456789abcdefghij");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_TRUE(!preview_host(bad[i], &port, id));
}

static struct http_head sent;

static void pass(const char *name, const char *value)
{
	struct http_head h;

	http_head_fini(&sent);
	http_head_init(&h);
	h.method = xstrdup("GET");
	h.path = xstrdup("/");
	h.authority = xstrdup("1-x.y");
	http_head_add(&h, "connection", "x-hop, keep-alive");
	http_head_add(&h, "x-hop", "1");
	http_head_add(&h, name, value);
	preview_request(&h, "9.9.9.9", &sent);
	http_head_fini(&h);
}

#define KEY "e2b_0123456789012345678901234567890123456789"
#define CPT "cpt_0123456789012345678901234567890123456789"

TEST(what_is_ours_stays_outside)
{
	pass("authorization", "Bearer " KEY);
	T_TRUE(!http_head_get(&sent, "authorization"));
	T_TRUE(!http_head_get(&sent, "x-hop"));
	T_TRUE(!http_head_get(&sent, "connection"));
	pass("authorization", "bearer  " CPT);
	T_TRUE(!http_head_get(&sent, "authorization"));
	pass("x-api-key", KEY);
	T_TRUE(!http_head_get(&sent, "x-api-key"));
	pass("caisson-anything", "1");
	T_TRUE(!http_head_get(&sent, "caisson-anything"));
	pass("cookie", "caisson_a=1");
	T_TRUE(!http_head_get(&sent, "cookie"));
	http_head_fini(&sent);
}

TEST(what_is_the_users_passes)
{
	pass("authorization", "Bearer somebody-else");
	T_STR(http_head_get(&sent, "authorization"), "Bearer somebody-else");
	pass("x-api-key", "other");
	T_STR(http_head_get(&sent, "x-api-key"), "other");
	pass("cookie", "a=b; caisson=1; c=\"d, e\"");
	T_STR(http_head_get(&sent, "cookie"), "a=b; c=\"d, e\"");
	pass("cookie", "a=b ; caisson=1");
	T_STR(http_head_get(&sent, "cookie"), "a=b");
	pass("cookie", "caisson=1 ;\t a");
	T_STR(http_head_get(&sent, "cookie"), "a");
	pass("sec-websocket-protocol", "a, bearer.x, b");
	T_STR(http_head_get(&sent, "sec-websocket-protocol"), "a, bearer.x, b");
	T_STR(http_head_get(&sent, "x-forwarded-for"), "9.9.9.9");
	http_head_fini(&sent);
}

TEST(a_cookie_of_a_guest_stays_on_its_host)
{
	struct http_head from, to;

	http_head_init(&from);
	from.status = 200;
	http_head_add(&from, "set-cookie",
		      "a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT; "
		      "DOMAIN=.localhost ;\tSecure ; domain=x");
	preview_response(&from, &to);
	T_STR(http_head_get(&to, "set-cookie"),
	      "a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Secure");
	http_head_fini(&from);
	http_head_fini(&to);
}
