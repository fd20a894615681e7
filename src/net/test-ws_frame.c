/* SPDX-License-Identifier: Apache-2.0 */

/* WebSocket frames, read and written. */

#include <string.h>

#include "base/check.h"
#include "base/test.h"
#include "net/ws_frame.h"

static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };

static struct buf wire;

/* Append a frame as a client sends it, with any first byte. */
static void frame(unsigned first, const void *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX];
	size_t len = ws_frame_head(head, WS_CONT, n, key);

	head[0] = (uint8_t)first;
	CHECK(buf_put(&wire, head, len) == 0);
	if (!n)
		return;
	CHECK(buf_put(&wire, p, n) == 0);
	ws_frame_mask(buf_data(&wire) + buf_len(&wire) - n, n, key, 0);
}

static void bytes(const void *p, size_t n)
{
	CHECK(buf_put(&wire, p, n) == 0);
}

static enum ws_event next(struct ws_rx *r)
{
	size_t used;
	enum ws_event ev;

	ev = ws_rx_next(r, buf_len(&wire) ? buf_data(&wire) : NULL,
			buf_len(&wire), &used);
	buf_consume(&wire, used);
	return ev;
}

static void start(struct ws_rx *r, size_t max)
{
	buf_fini(&wire);
	ws_rx_init(r, true, max);
}

static void stop(struct ws_rx *r)
{
	ws_rx_fini(r);
	buf_fini(&wire);
}

/* What was put on the wire is refused. */
static void refused(size_t max, unsigned code, const char *why)
{
	struct ws_rx r;

	ws_rx_init(&r, true, max);
	T_INT(next(&r), WS_EV_BAD);
	T_INT(r.code, code);
	T_HAS(r.why, why);
	T_INT(next(&r), WS_EV_BAD); /* and stays so */
	T_INT(r.msg.cap, 0);
	stop(&r);
}

TEST(the_rfc_example_of_a_masked_text)
{
	static const uint8_t rfc[] = { 0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d,
				       0x7f, 0x9f, 0x4d, 0x51, 0x58 };
	struct ws_rx r;

	start(&r, 100);
	bytes(rfc, sizeof(rfc));
	T_INT(next(&r), WS_EV_MESSAGE);
	T_TRUE(r.is_text);
	T_STR(buf_cstr(&r.msg), "Hello");
	stop(&r);
}

TEST(lengths_have_their_shortest_form)
{
	static const struct {
		uint64_t n;
		size_t size;
	} table[] = {
		{ 0, 2 },     { 125, 2 },    { 126, 4 },
		{ 65535, 4 }, { 65536, 10 }, { 1ull << 40, 10 },
	};
	uint8_t head[WS_HEAD_MAX];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		T_INT(ws_frame_head(head, WS_BINARY, table[i].n, NULL),
		      table[i].size);
		T_INT(ws_frame_head(head, WS_BINARY, table[i].n, key),
		      table[i].size + 4);
	}
}

TEST(masking_can_start_anywhere)
{
	uint8_t whole[100], part[100];

	for (size_t i = 0; i < sizeof(whole); i++)
		whole[i] = part[i] = (uint8_t)i;
	ws_frame_mask(whole, sizeof(whole), key, 0);
	for (size_t at = 0; at < sizeof(part);) {
		size_t k = at % 11 + 1;

		if (k > sizeof(part) - at)
			k = sizeof(part) - at;
		ws_frame_mask(part + at, k, key, at);
		at += k;
	}
	T_TRUE(!memcmp(whole, part, sizeof(whole)));
}

TEST(control_frames_come_between_fragments)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x01, "he", 2);
	frame(0x89, "ping", 4);
	frame(0x00, "", 0);
	frame(0x8a, "", 0);
	frame(0x80, "llo", 3);
	T_INT(next(&r), WS_EV_PING);
	T_INT(r.n_control, 4);
	T_STR((const char *)r.control, "ping");
	T_INT(next(&r), WS_EV_PONG);
	T_INT(next(&r), WS_EV_MESSAGE);
	T_STR(buf_cstr(&r.msg), "hello");
	T_INT(next(&r), WS_EV_MORE);
	T_INT(buf_len(&r.msg), 0);
	stop(&r);
}

TEST(a_character_may_be_cut_by_a_fragment)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x01, "\xe2\x82", 2);
	frame(0x80, "\xac", 1);
	T_INT(next(&r), WS_EV_MESSAGE);
	T_STR(buf_cstr(&r.msg), "\xe2\x82\xac");
	stop(&r);
}

TEST(a_binary_message_may_hold_anything)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x82, "\xff\xfe\0\x80", 4);
	T_INT(next(&r), WS_EV_MESSAGE);
	T_TRUE(!r.is_text);
	T_INT(buf_len(&r.msg), 4);
	stop(&r);
}

TEST(a_long_message_leaves_no_memory_behind)
{
	static uint8_t big[300000];
	struct ws_rx r;

	start(&r, sizeof(big));
	frame(0x82, big, sizeof(big));
	frame(0x82, "x", 1);
	T_INT(next(&r), WS_EV_MESSAGE);
	T_INT(buf_len(&r.msg), sizeof(big));
	T_INT(next(&r), WS_EV_MESSAGE);
	T_INT(buf_len(&r.msg), 1);
	T_TRUE(r.msg.cap <= 65536);
	stop(&r);
}

TEST(an_announced_length_allocates_nothing)
{
	static const uint8_t head[] = { 0x82, 0xff, 0, 0, 0, 0, 0x3f, 0xff,
					0xff, 1,    2, 3, 4, 5, 6,    7 };
	struct ws_rx r;

	start(&r, 1u << 30);
	bytes(head, sizeof(head));
	T_INT(next(&r), WS_EV_MORE);
	T_TRUE(r.msg.cap < 4096);
	stop(&r);
}

TEST(reserved_bits)
{
	for (unsigned bit = 0x10; bit <= 0x40; bit <<= 1) {
		frame(0x81 | bit, "x", 1);
		refused(100, WS_PROTOCOL, "reserved");
	}
}

TEST(unknown_kinds)
{
	static const unsigned ops[] = { 3, 4, 5, 6, 7, 11, 12, 13, 14, 15 };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		frame(0x80 | ops[i], "x", 1);
		refused(100, WS_PROTOCOL, "unknown kind");
	}
}

TEST(a_client_must_mask)
{
	bytes("\x81\x01x", 3);
	refused(100, WS_PROTOCOL, "not masked");
}

TEST(a_server_must_not_mask)
{
	struct ws_rx r;

	start(&r, 100);
	r.masked = false;
	frame(0x81, "x", 1);
	T_INT(next(&r), WS_EV_BAD);
	T_HAS(r.why, "is masked");
	stop(&r);
}

TEST(control_frames_are_whole)
{
	static const unsigned ops[] = { WS_CLOSE, WS_PING, WS_PONG };

	for (size_t i = 0; i < 3; i++) {
		frame(ops[i], "", 0);
		refused(100, WS_PROTOCOL, "in fragments");
	}
}

TEST(control_frames_are_short)
{
	uint8_t long_one[126] = { 0 };

	frame(0x89, long_one, sizeof(long_one));
	refused(1000, WS_PROTOCOL, "too long");
}

TEST(a_continuation_needs_a_beginning)
{
	frame(0x80, "x", 1);
	refused(100, WS_PROTOCOL, "continuation");
}

TEST(a_message_within_a_message)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x01, "x", 1);
	frame(0x82, "y", 1);
	T_INT(next(&r), WS_EV_BAD);
	T_HAS(r.why, "within another");
	stop(&r);
}

TEST(lengths_in_a_longer_form_than_needed)
{
	bytes("\x82\xfe\x00\x7d", 4);
	bytes(key, 4);
	refused(1000, WS_PROTOCOL, "short form");
	bytes("\x82\xff\0\0\0\0\0\0\xff\xff", 10);
	bytes(key, 4);
	refused(100000, WS_PROTOCOL, "short form");
	bytes("\x82\xff\x80\0\0\0\0\0\0\0", 10);
	bytes(key, 4);
	refused(100000, WS_PROTOCOL, "short form");
}

TEST(too_long_at_once)
{
	frame(0x82, "12345", 5);
	refused(4, WS_TOO_BIG, "too long");
}

TEST(too_long_in_fragments)
{
	struct ws_rx r;

	start(&r, 4);
	frame(0x02, "1234", 4);
	frame(0x80, "5", 1);
	T_INT(next(&r), WS_EV_BAD);
	T_INT(r.code, WS_TOO_BIG);
	stop(&r);
}

TEST(the_limit_itself_is_allowed)
{
	struct ws_rx r;

	start(&r, 4);
	frame(0x02, "12", 2);
	frame(0x80, "34", 2);
	T_INT(next(&r), WS_EV_MESSAGE);
	stop(&r);
}

TEST(empty_fragments_are_few)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x02, "", 0);
	for (unsigned i = 0; i <= WS_EMPTY_MAX; i++)
		frame(0x00, "", 0);
	T_INT(next(&r), WS_EV_BAD);
	T_INT(r.code, WS_POLICY);
	stop(&r);
}

TEST(text_is_utf8)
{
	static const char *const bad[] = { "\xff", "\xc0\xaf", "\xed\xa0\x80",
					   "\xf4\x90\x80\x80", "\xe2\x82" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		frame(0x81, bad[i], strlen(bad[i]));
		refused(100, WS_DATA, "UTF-8");
	}
}

TEST(close_frames)
{
	struct ws_rx r;

	start(&r, 100);
	frame(0x88, "", 0);
	T_INT(next(&r), WS_EV_CLOSE);
	T_INT(r.code, WS_NO_CODE);
	stop(&r);
	start(&r, 100);
	frame(0x88,
	      "\x03\xe8"
	      "bye",
	      5);
	T_INT(next(&r), WS_EV_CLOSE);
	T_INT(r.code, WS_NORMAL);
	T_STR((const char *)r.control + 2, "bye");
	stop(&r);
}

TEST(close_frames_that_are_wrong)
{
	static const unsigned codes[] = { 0,	999,  1004, 1005, 1006,
					  1015, 1016, 2999, 5000, 65535 };

	frame(0x88, "\x03", 1);
	refused(100, WS_PROTOCOL, "half a code");
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		uint8_t c[2] = { (uint8_t)(codes[i] >> 8), (uint8_t)codes[i] };

		frame(0x88, c, 2);
		refused(100, WS_PROTOCOL, "invalid code");
	}
	frame(0x88, "\x03\xe8\xff", 3);
	refused(100, WS_DATA, "reason");
}
