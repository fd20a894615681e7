/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws_frame.h"

#include <string.h>

#include "base/text.h"

/* A receiver that saw one long message does not keep its memory. */
#define KEEP_BYTES 65536u

size_t ws_frame_head(uint8_t ret[WS_HEAD_MAX], enum ws_op op, uint64_t n,
		     const uint8_t mask[4])
{
	uint8_t bit = mask ? 0x80 : 0;
	size_t len = 2, wide = 0;

	ret[0] = (uint8_t)(0x80u | (unsigned)op);
	if (n <= 125) {
		ret[1] = (uint8_t)(bit | n);
	} else {
		wide = n <= UINT16_MAX ? 2 : 8;
		ret[1] = bit | (wide == 2 ? 126 : 127);
	}
	for (size_t i = 0; i < wide; i++)
		ret[len++] = (uint8_t)(n >> (8 * (wide - 1 - i)));
	if (mask) {
		memcpy(ret + len, mask, 4);
		len += 4;
	}
	return len;
}

void ws_frame_mask(uint8_t *p, size_t n, const uint8_t mask[4], uint64_t at)
{
	uint8_t key[4];

	for (size_t i = 0; i < 4; i++)
		key[i] = mask[(at + i) & 3];
	for (size_t i = 0; i < n; i++)
		p[i] ^= key[i & 3];
}

bool ws_code_valid(unsigned code)
{
	return (code >= 1000 && code <= 1003) ||
	       (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

void ws_rx_init(struct ws_rx *r, bool masked, size_t max)
{
	memset(r, 0, sizeof(*r));
	r->masked = masked;
	r->max = max;
	buf_init(&r->msg, 0);
}

void ws_rx_fini(struct ws_rx *r)
{
	buf_fini(&r->msg);
}

static enum ws_event bad(struct ws_rx *r, enum ws_code code, const char *why)
{
	r->code = code;
	r->why = why;
	buf_fini(&r->msg);
	return WS_EV_BAD;
}

static bool is_control(const struct ws_rx *r)
{
	return r->op >= WS_CLOSE;
}

static enum ws_event judge_op(struct ws_rx *r)
{
	switch (r->op) {
	case WS_CONT:
		if (!r->open)
			return bad(r, WS_PROTOCOL,
				   "a continuation of no message");
		return WS_EV_MORE;
	case WS_TEXT:
	case WS_BINARY:
		if (r->open)
			return bad(r, WS_PROTOCOL,
				   "a message within another message");
		return WS_EV_MORE;
	case WS_CLOSE:
	case WS_PING:
	case WS_PONG:
		if (!r->fin)
			return bad(r, WS_PROTOCOL,
				   "a control frame in fragments");
		return WS_EV_MORE;
	}
	return bad(r, WS_PROTOCOL, "an unknown kind of frame");
}

/* The first byte of a head, then the second. */
static enum ws_event judge_first(struct ws_rx *r)
{
	if (r->head[0] & 0x70)
		return bad(r, WS_PROTOCOL, "a reserved bit is set");
	r->fin = r->head[0] & 0x80;
	r->op = (enum ws_op)(r->head[0] & 0x0f);
	return judge_op(r);
}

static enum ws_event judge_second(struct ws_rx *r)
{
	bool masked = r->head[1] & 0x80;

	if (masked != r->masked)
		return bad(r, WS_PROTOCOL,
			   r->masked ? "a client's frame is not masked"
				     : "a server's frame is masked");
	if (is_control(r) && (r->head[1] & 0x7f) > WS_CONTROL_MAX)
		return bad(r, WS_PROTOCOL, "a control frame is too long");
	return WS_EV_MORE;
}

static size_t head_size(const struct ws_rx *r)
{
	unsigned len;
	size_t n = r->masked ? 6 : 2;

	if (r->n_head < 2)
		return 2;
	len = r->head[1] & 0x7f;
	if (len == 126)
		n += 2;
	else if (len == 127)
		n += 8;
	return n;
}

static enum ws_event begin_payload(struct ws_rx *r)
{
	unsigned len = r->head[1] & 0x7f;
	size_t wide = len == 126 ? 2 : len == 127 ? 8 : 0;
	uint64_t n = wide ? 0 : len;

	for (size_t i = 0; i < wide; i++)
		n = n << 8 | r->head[2 + i];
	if ((wide == 2 && n < 126) ||
	    (wide == 8 && (n <= UINT16_MAX || n >> 63)))
		return bad(r, WS_PROTOCOL, "a length is not in its short form");
	if (r->masked)
		memcpy(r->mask, r->head + 2 + wide, 4);
	r->n_head = 0;
	r->in_payload = true;
	r->left = n;
	r->at = 0;
	if (is_control(r)) {
		r->n_control = 0;
		return WS_EV_MORE;
	}
	if (n > r->max - buf_len(&r->msg))
		return bad(r, WS_TOO_BIG, "the message is too long");
	if (r->op != WS_CONT) {
		r->open = true;
		r->is_text = r->op == WS_TEXT;
		r->empty = 0;
	}
	if (n == 0 && !r->fin && ++r->empty > WS_EMPTY_MAX)
		return bad(r, WS_POLICY, "too many empty fragments");
	return WS_EV_MORE;
}

static enum ws_event take_head(struct ws_rx *r, uint8_t byte)
{
	enum ws_event ev = WS_EV_MORE;

	r->head[r->n_head++] = byte;
	if (r->n_head == 1)
		ev = judge_first(r);
	else if (r->n_head == 2)
		ev = judge_second(r);
	if (ev == WS_EV_MORE && r->n_head == head_size(r))
		ev = begin_payload(r);
	return ev;
}

static enum ws_event take_payload(struct ws_rx *r, const uint8_t *p, size_t n)
{
	uint8_t *to;

	if (is_control(r)) {
		to = r->control + r->n_control;
		r->n_control += n;
	} else {
		to = buf_reserve(&r->msg, n);
		if (!to)
			return bad(r, WS_TOO_BIG, "no memory for the message");
		buf_commit(&r->msg, n);
	}
	memcpy(to, p, n);
	if (r->masked)
		ws_frame_mask(to, n, r->mask, r->at);
	r->at += n;
	r->left -= n;
	return WS_EV_MORE;
}

static bool is_utf8(const void *p, size_t n)
{
	return text_utf8_prefix(p, n) == n;
}

static enum ws_event end_close(struct ws_rx *r)
{
	r->code = WS_NO_CODE;
	if (r->n_control == 0)
		return WS_EV_CLOSE;
	if (r->n_control == 1)
		return bad(r, WS_PROTOCOL, "half a code in a close frame");
	r->code = (unsigned)r->control[0] << 8 | r->control[1];
	if (!ws_code_valid(r->code))
		return bad(r, WS_PROTOCOL, "an invalid code in a close frame");
	if (!is_utf8(r->control + 2, r->n_control - 2))
		return bad(r, WS_DATA, "a close frame's reason is not UTF-8");
	return WS_EV_CLOSE;
}

static enum ws_event end_frame(struct ws_rx *r)
{
	r->in_payload = false;
	if (is_control(r)) {
		r->control[r->n_control] = 0;
		if (r->op == WS_CLOSE)
			return end_close(r);
		return r->op == WS_PING ? WS_EV_PING : WS_EV_PONG;
	}
	if (!r->fin)
		return WS_EV_MORE;
	r->open = false;
	if (r->is_text && buf_len(&r->msg) &&
	    !is_utf8(buf_data(&r->msg), buf_len(&r->msg)))
		return bad(r, WS_DATA, "a text message is not UTF-8");
	r->told = true;
	return WS_EV_MESSAGE;
}

static void forget_message(struct ws_rx *r)
{
	r->told = false;
	if (r->msg.cap > KEEP_BYTES)
		buf_fini(&r->msg);
	else
		buf_clear(&r->msg);
}

enum ws_event ws_rx_next(struct ws_rx *r, const uint8_t *p, size_t n,
			 size_t *ret_used)
{
	enum ws_event ev = WS_EV_MORE;
	size_t used = 0;

	*ret_used = 0;
	if (r->why)
		return WS_EV_BAD;
	if (r->told)
		forget_message(r);
	while (ev == WS_EV_MORE && used < n) {
		if (r->in_payload) {
			size_t k = n - used;

			if (k > r->left)
				k = (size_t)r->left;
			ev = take_payload(r, p + used, k);
			used += k;
		} else {
			ev = take_head(r, p[used++]);
		}
		if (ev == WS_EV_MORE && r->in_payload && !r->left)
			ev = end_frame(r);
	}
	*ret_used = used;
	return ev;
}
