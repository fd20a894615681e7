/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/frames.h"

#include <string.h>

#include "base/test.h"

static struct err err;

static void put(struct buf *b, unsigned type, uint64_t offset,
		const void *payload, size_t n)
{
	uint8_t h[EXEC_FRAME_HEADER] = { (uint8_t)type };

	for (unsigned i = 0; i < 4; i++)
		h[4 + i] = (uint8_t)(n >> (24 - 8 * i));
	for (unsigned i = 0; i < 8; i++)
		h[8 + i] = (uint8_t)(offset >> (56 - 8 * i));
	buf_put(b, h, sizeof(h));
	buf_put(b, payload, n);
}

/* Feed all in pieces of step bytes; the first failure, or frames seen. */
static int run(struct frames *f, struct buf *in, size_t step, struct buf *out)
{
	int n = 0, r;

	err_clear(&err);
	while (buf_len(in)) {
		size_t k = buf_len(in) < step ? buf_len(in) : step;

		buf_consume(in, frames_feed(f, buf_data(in), k));
		r = frames_take(f, out, &err);
		if (r < 0)
			return r;
		n += r == FRAMES_ONE;
	}
	return n;
}

static int one_of(enum frames_form form, unsigned type, uint64_t offset,
		  const void *p, size_t n)
{
	struct frames f;
	struct buf in, out;
	int r;

	frames_init(&f, 0, form);
	buf_init(&in, 0);
	buf_init(&out, FRAME_OUT_MAX);
	put(&in, type, offset, p, n);
	r = run(&f, &in, SIZE_MAX, &out);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
	return r;
}

static int one(unsigned type, uint64_t offset, const void *p, size_t n)
{
	return one_of(FRAMES_LINES, type, offset, p, n);
}

/* A client's frame with a text as its payload. */
static int wish(unsigned type, uint64_t offset, const char *text)
{
	return one_of(FRAMES_CLIENT, type, offset, text, strlen(text));
}

static void sample(struct buf *b)
{
	put(b, EXEC_STARTED, 0, "{\"pid\": 7 }", 11);
	put(b, EXEC_STDOUT, 0, "hi\n", 3);
	put(b, EXEC_STDERR, 3, "\xff\0x", 3);
	put(b, EXEC_GAP, 6, "{\"from\":6,\"to\":100}", 19);
	put(b, EXEC_PTY, 100, "z", 1);
	put(b, EXEC_ALIVE, 101, "{}", 2);
	put(b, EXEC_EXIT, 101, "{\"code\":0}", 10);
}

TEST(frames_become_lines)
{
	for (size_t step = 1; step < 40; step += 7) {
		struct frames f;
		struct buf in, out;

		frames_init(&f, 0, FRAMES_LINES);
		buf_init(&in, 0);
		buf_init(&out, 0);
		sample(&in);
		T_INT(run(&f, &in, step, &out), 7);
		T_STR(buf_cstr(&out),
		      "{\"o\":0,\"started\":{\"pid\":7}}\n"
		      "{\"o\":0,\"s\":1,\"b64\":\"aGkK\"}\n"
		      "{\"o\":3,\"s\":2,\"b64\":\"/wB4\"}\n"
		      "{\"o\":6,\"gap\":{\"from\":6,\"to\":100}}\n"
		      "{\"o\":100,\"s\":3,\"b64\":\"eg==\"}\n"
		      "{\"o\":101,\"alive\":{}}\n"
		      "{\"o\":101,\"exit\":{\"code\":0}}\n");
		frames_fini(&f);
		buf_fini(&in);
		buf_fini(&out);
	}
}

TEST(validated_frames_are_frames_again)
{
	struct frames f, again;
	struct buf in, out, twice;

	frames_init(&f, 0, FRAMES_RAW);
	frames_init(&again, 0, FRAMES_RAW);
	buf_init(&in, 0);
	buf_init(&out, 0);
	buf_init(&twice, 0);
	sample(&in);
	T_INT(run(&f, &in, SIZE_MAX, &out), 7);
	buf_put(&in, buf_data(&out), buf_len(&out));
	T_INT(run(&again, &in, SIZE_MAX, &twice), 7);
	T_INT(buf_len(&twice), buf_len(&out));
	T_TRUE(memcmp(buf_data(&twice), buf_data(&out), buf_len(&out)) == 0);
	frames_fini(&f);
	frames_fini(&again);
	buf_fini(&in);
	buf_fini(&out);
	buf_fini(&twice);
}

TEST(the_largest_frame_fits)
{
	static uint8_t big[EXEC_FRAME_MAX];

	T_INT(one(EXEC_STDOUT, 0, big, sizeof(big)), 1);
}

TEST(a_larger_frame_is_refused)
{
	static uint8_t big[EXEC_FRAME_MAX + 1];

	T_INT(one(EXEC_STDOUT, 0, big, sizeof(big)), -EBADMSG);
	T_HAS(err.msg, "too long");
}

TEST(unknown_types_are_refused)
{
	T_INT(one(0, 0, "x", 1), -EBADMSG);
	T_INT(one(4, 0, "x", 1), -EBADMSG);
	T_INT(one(0x1f, 0, "{}", 2), -EBADMSG);
	T_INT(one(0x25, 0, "{}", 2), -EBADMSG);
	T_INT(one(EXEC_STDIN, 0, "x", 1), -EBADMSG);
	T_INT(one(0xff, 0, "x", 1), -EBADMSG);
}

TEST(offsets_must_continue)
{
	T_INT(one(EXEC_STDOUT, 1, "x", 1), -EBADMSG);
	T_INT(one(EXEC_STDOUT, UINT64_MAX, "x", 1), -EBADMSG);
	T_INT(one(EXEC_EXIT, 5, "{}", 2), -EBADMSG);
}

TEST(an_empty_payload_is_no_output)
{
	T_INT(one(EXEC_STDOUT, 0, "", 0), -EBADMSG);
}

TEST(json_must_be_an_object)
{
	T_INT(one(EXEC_EXIT, 0, "[]", 2), -EBADMSG);
	T_INT(one(EXEC_EXIT, 0, "{", 1), -EBADMSG);
	T_INT(one(EXEC_EXIT, 0, "", 0), -EBADMSG);
	T_INT(one(EXEC_EXIT, 0, "{}{}", 4), -EBADMSG);
	T_INT(one(EXEC_EXIT, 0, "{\"a\":\"\xff\"}", 9), -EBADMSG);
}

TEST(a_gap_must_lead_forwards)
{
	T_INT(one(EXEC_GAP, 0, "{\"from\":0,\"to\":9}", 17), 1);
	T_INT(one(EXEC_GAP, 0, "{\"from\":0,\"to\":0}", 17), -EBADMSG);
	T_INT(one(EXEC_GAP, 0, "{\"from\":1,\"to\":9}", 17), -EBADMSG);
	T_INT(one(EXEC_GAP, 0, "{\"from\":0}", 10), -EBADMSG);
	T_INT(one(EXEC_GAP, 0, "{\"from\":0,\"to\":-9}", 18), -EBADMSG);
}

TEST(padding_must_be_zero)
{
	struct frames f;
	struct buf in, out;

	frames_init(&f, 0, FRAMES_LINES);
	buf_init(&in, 0);
	buf_init(&out, 0);
	put(&in, EXEC_STDOUT, 0, "x", 1);
	buf_data(&in)[2] = 1;
	T_INT(run(&f, &in, SIZE_MAX, &out), -EBADMSG);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
}

TEST(nothing_comes_after_the_exit)
{
	struct frames f;
	struct buf in, out;

	frames_init(&f, 0, FRAMES_LINES);
	buf_init(&in, 0);
	buf_init(&out, 0);
	put(&in, EXEC_EXIT, 0, "{}", 2);
	put(&in, EXEC_STDOUT, 0, "x", 1);
	T_INT(run(&f, &in, SIZE_MAX, &out), -EBADMSG);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
}

TEST(following_may_start_in_the_middle)
{
	struct frames f;
	struct buf in, out;

	frames_init(&f, 1000, FRAMES_LINES);
	buf_init(&in, 0);
	buf_init(&out, 0);
	put(&in, EXEC_STDOUT, 1000, "x", 1);
	T_INT(run(&f, &in, SIZE_MAX, &out), 1);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
}

TEST(closing_is_the_last_frame)
{
	struct frames f;
	struct buf in, out;

	frames_init(&f, 0, FRAMES_LINES);
	buf_init(&in, 0);
	buf_init(&out, 0);
	put(&in, EXEC_CLOSING, 0, "{\"reason\":\"replaced\",\"retry\":false}",
	    35);
	T_INT(run(&f, &in, SIZE_MAX, &out), 1);
	T_STR(buf_cstr(&out), "{\"o\":0,\"closing\":{\"reason\":\"replaced\","
			      "\"retry\":false}}\n");
	put(&in, EXEC_ALIVE, 0, "{}", 2);
	T_INT(run(&f, &in, SIZE_MAX, &out), -EBADMSG);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
}

static int says(unsigned type, const char *text)
{
	return one(type, 0, text, strlen(text));
}

TEST(known_fields_have_their_types)
{
	T_INT(says(EXEC_STARTED, "{\"pid\":1,\"stdin_offset\":0}"), 1);
	T_INT(says(EXEC_STARTED, "{\"pid\":-1}"), -EBADMSG);
	T_INT(says(EXEC_STARTED, "{\"pid\":9223372036854775807}"), -EBADMSG);
	T_INT(says(EXEC_STARTED, "{\"started_at\":1}"), -EBADMSG);
	T_INT(says(EXEC_ALIVE, "{\"stdin_offset\":5}"), 1);
	T_INT(says(EXEC_ALIVE, "{\"stdin_offset\":-5}"), -EBADMSG);
	T_INT(says(EXEC_CLOSING, "{\"retry\":true}"), -EBADMSG);
	T_INT(says(EXEC_CLOSING, "{\"reason\":\"a b\"}"), -EBADMSG);
	T_INT(says(EXEC_EXIT, "{\"code\":null,\"signal\":\"KILL\"}"), 1);
	T_INT(says(EXEC_EXIT, "{\"code\":256}"), -EBADMSG);
	T_INT(says(EXEC_EXIT, "{\"reason\":\"\"}"), -EBADMSG);
}

TEST(a_newer_guests_fields_pass)
{
	T_INT(says(EXEC_EXIT, "{\"code\":0,\"new\":[1]}"), 1);
	T_INT(says(EXEC_ALIVE, "{\"new\":1}"), 1);
}

TEST(clients_send_their_kinds_alone)
{
	T_INT(wish(EXEC_STDIN, 5, "x"), 1);
	T_INT(wish(EXEC_STDIN_END, 6, ""), 1);
	T_INT(wish(EXEC_ACK, 7, ""), 1);
	T_INT(wish(EXEC_STDOUT, 0, "x"), -EBADMSG);
	T_INT(wish(EXEC_STARTED, 0, "{}"), -EBADMSG);
	T_INT(wish(EXEC_EXIT, 0, "{}"), -EBADMSG);
	T_INT(wish(0x15, 0, ""), -EBADMSG);
	T_INT(err.kind, ERR_INVALID);
}

TEST(a_clients_offsets_need_not_continue)
{
	struct frames f;
	struct buf in, out;

	frames_init(&f, 0, FRAMES_CLIENT);
	buf_init(&in, 0);
	buf_init(&out, 0);
	put(&in, EXEC_ACK, 50, "", 0);
	put(&in, EXEC_STDIN, 9, "x", 1);
	put(&in, EXEC_ACK, 40, "", 0);
	T_INT(run(&f, &in, 3, &out), 3);
	T_INT(buf_len(&out), 3 * EXEC_FRAME_HEADER + 1);
	frames_fini(&f);
	buf_fini(&in);
	buf_fini(&out);
}

TEST(a_clients_offsets_are_bounded)
{
	T_INT(wish(EXEC_ACK, UINT64_MAX, ""), -EBADMSG);
	T_INT(wish(EXEC_STDIN, INT64_MAX, "x"), -EBADMSG);
	T_INT(wish(EXEC_SIZE, 1, "{\"cols\":1,\"rows\":1}"), -EBADMSG);
	T_INT(wish(EXEC_SIGNAL, 1, "{\"name\":\"TERM\"}"), -EBADMSG);
}

TEST(payloads_are_where_they_belong)
{
	T_INT(wish(EXEC_ACK, 0, "x"), -EBADMSG);
	T_INT(wish(EXEC_STDIN_END, 0, "x"), -EBADMSG);
	T_INT(wish(EXEC_STDIN, 0, ""), -EBADMSG);
}

TEST(sizes_and_signals_have_their_form)
{
	T_INT(wish(EXEC_SIZE, 0, "{\"cols\":80,\"rows\":24}"), 1);
	T_INT(wish(EXEC_SIZE, 0, "{\"cols\":80}"), -EBADMSG);
	T_INT(wish(EXEC_SIZE, 0, "{\"cols\":0,\"rows\":24}"), -EBADMSG);
	T_INT(wish(EXEC_SIZE, 0, "{\"cols\":65536,\"rows\":1}"), -EBADMSG);
	T_INT(wish(EXEC_SIZE, 0, "{\"cols\":1,\"rows\":1,\"x\":1}"), -EBADMSG);
	T_INT(wish(EXEC_SIGNAL, 0, "{\"name\":\"RTMIN+3\"}"), 1);
	T_INT(wish(EXEC_SIGNAL, 0, "{\"name\":\"INT\",\"scope\":\"leader\"}"),
	      1);
	T_INT(wish(EXEC_SIGNAL, 0, "{\"name\":\"INT\",\"scope\":\"all\"}"),
	      -EBADMSG);
	T_INT(wish(EXEC_SIGNAL, 0, "{\"name\":\"../x\"}"), -EBADMSG);
	T_INT(wish(EXEC_SIGNAL, 0, "{\"name\":9}"), -EBADMSG);
	T_INT(wish(EXEC_SIGNAL, 0, ""), -EBADMSG);
}
