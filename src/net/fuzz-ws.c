/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames from a peer. The first byte chooses: bit 0 a client's (masked), bit 1
 * a small limit. Laws: however the bytes are cut, the same events come with the
 * same contents, and memory stays within what was received and the limit; what
 * is accepted can be written and read again to the same.
 */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "net/ws_frame.h"

struct outcome {
	unsigned events;
	uint64_t sum;
	unsigned code;
};

static void mix(struct outcome *o, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		o->sum = (o->sum ^ b[i]) * 0x100000001b3u;
	o->sum = (o->sum + n) * 31;
}

static void check_again(const void *p, size_t n, bool is_text)
{
	static const uint8_t mask[4] = { 1, 2, 3, 0xff };
	enum ws_op op = is_text ? WS_TEXT : WS_BINARY;
	uint8_t head[WS_HEAD_MAX];
	struct buf wire;
	struct ws_rx r;
	size_t used;

	buf_init(&wire, 0);
	CHECK(buf_put(&wire, head, ws_frame_head(head, op, n, mask)) == 0);
	if (n) {
		CHECK(buf_put(&wire, p, n) == 0);
		ws_frame_mask(buf_data(&wire) + buf_len(&wire) - n, n, mask, 0);
	}
	ws_rx_init(&r, true, n);
	CHECK(ws_rx_next(&r, buf_data(&wire), buf_len(&wire), &used) ==
	      WS_EV_MESSAGE);
	CHECK(used == buf_len(&wire) && buf_len(&r.msg) == n);
	CHECK(r.is_text == is_text);
	CHECK(n == 0 || !memcmp(buf_data(&r.msg), p, n));
	ws_rx_fini(&r);
	buf_fini(&wire);
}

static void on_event(struct outcome *o, struct ws_rx *r, enum ws_event ev)
{
	o->events++;
	o->sum = o->sum * 7 + (unsigned)ev;
	switch (ev) {
	case WS_EV_MESSAGE:
		CHECK(buf_len(&r->msg) <= r->max);
		if (!buf_len(&r->msg)) {
			check_again(NULL, 0, r->is_text);
			break;
		}
		mix(o, buf_data(&r->msg), buf_len(&r->msg));
		if (r->is_text)
			CHECK(text_utf8_prefix(buf_data(&r->msg),
					       buf_len(&r->msg)) ==
			      buf_len(&r->msg));
		check_again(buf_data(&r->msg), buf_len(&r->msg), r->is_text);
		break;
	case WS_EV_PING:
	case WS_EV_PONG:
	case WS_EV_CLOSE:
		CHECK(r->n_control <= WS_CONTROL_MAX);
		CHECK(ev != WS_EV_CLOSE || r->code == WS_NO_CODE ||
		      ws_code_valid(r->code));
		mix(o, r->control, r->n_control);
		break;
	case WS_EV_BAD:
		CHECK(r->why && ws_code_valid(r->code));
		o->code = r->code;
		break;
	case WS_EV_MORE:
		break;
	}
}

static struct outcome run(const uint8_t *p, size_t n, size_t step, bool masked,
			  size_t max)
{
	struct outcome o = { 0 };
	size_t at = 0, used;
	struct ws_rx r;

	ws_rx_init(&r, masked, max);
	while (at < n && !o.code) {
		size_t k = n - at < step ? n - at : step;
		enum ws_event ev = ws_rx_next(&r, p + at, k, &used);

		CHECK(used <= k && (ev == WS_EV_BAD || used > 0));
		CHECK(ev != WS_EV_MORE || used == k);
		CHECK(r.msg.cap <= 4 * n + 1024);
		at += used;
		if (ev != WS_EV_MORE)
			on_event(&o, &r, ev);
	}
	if (o.code) /* there is no way back */
		CHECK(ws_rx_next(&r, p, n, &used) == WS_EV_BAD && used == 0);
	ws_rx_fini(&r);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t steps[] = { 1, 2, 3, 7, 64 };
	struct outcome whole, part;
	bool masked;
	size_t max;

	if (size == 0)
		return 0;
	masked = data[0] & 1;
	max = data[0] & 2 ? 16 : 1 << 20;
	whole = run(data + 1, size - 1, SIZE_MAX, masked, max);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		part = run(data + 1, size - 1, steps[i], masked, max);
		CHECK(part.events == whole.events && part.sum == whole.sum);
		CHECK(part.code == whole.code);
	}
	return 0;
}
