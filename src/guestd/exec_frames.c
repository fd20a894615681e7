/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_frames.h"

#include <errno.h>
#include <string.h>

void frame_reader_init(struct frame_reader *r)
{
	*r = (struct frame_reader){ 0 };
}

static uint64_t get_be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void put_be(uint8_t *to, uint64_t v, unsigned n)
{
	while (n > 0) {
		to[--n] = (uint8_t)v;
		v >>= 8;
	}
}

void frame_put_header(uint8_t to[EXEC_FRAME_HEADER], uint8_t type, size_t n,
		      uint64_t offset)
{
	memset(to, 0, EXEC_FRAME_HEADER);
	to[0] = type;
	put_be(to + 4, n, 4);
	put_be(to + 8, offset, 8);
}

/* Longest payload of a type; -1 for a type that no client sends. */
static int64_t payload_max(uint8_t type)
{
	switch (type) {
	case EXEC_STDIN:
		return EXEC_FRAME_MAX;
	case EXEC_STDIN_END:
	case EXEC_ACK:
		return 0;
	case EXEC_SIZE:
	case EXEC_SIGNAL:
		return FRAME_JSON_MAX;
	default:
		return -1;
	}
}

static int take_header(struct frame_reader *r)
{
	const uint8_t *h = r->head;

	r->type = h[0];
	r->left = (uint32_t)get_be(h + 4, 4);
	r->offset = get_be(h + 8, 8);
	if ((h[1] | h[2] | h[3]) || (int64_t)r->left > payload_max(r->type))
		return -EINVAL;
	/* positions are counted in 63 bits, as JSON's numbers are */
	if (r->offset > (uint64_t)INT64_MAX - r->left)
		return -EINVAL;
	return 0;
}

/* A short frame is whole. */
static int finish(struct frame_reader *r, struct frame_event *ret)
{
	struct spec_error se;
	struct err e = { 0 };
	int res = 0;

	*ret = (struct frame_event){ .type = r->type, .offset = r->offset };
	if (r->type == EXEC_SIZE)
		res = spec_read_size(r->json, r->n_json, &ret->size, &se, &e);
	else if (r->type == EXEC_SIGNAL)
		res = spec_read_kill(r->json, r->n_json, &ret->kill, &se, &e);
	r->n_head = r->n_json = 0;
	return res < 0 ? -EINVAL : 1;
}

static size_t collect(uint8_t *to, size_t have, size_t want, const uint8_t *p,
		      size_t n)
{
	if (n > want - have)
		n = want - have;
	memcpy(to + have, p, n);
	return n;
}

static int input_part(struct frame_reader *r, const uint8_t *p, size_t n,
		      size_t *used, struct frame_event *ret)
{
	if (n > r->left)
		n = r->left;
	*ret = (struct frame_event){
		.type = EXEC_STDIN, .offset = r->offset, .p = p, .n = n
	};
	r->left -= (uint32_t)n;
	r->offset += n;
	if (r->left == 0)
		r->n_head = 0;
	*used += n;
	return 1;
}

int frame_reader_feed(struct frame_reader *r, const uint8_t *p, size_t n,
		      size_t *ret_used, struct frame_event *ret)
{
	size_t used = 0, k;

	*ret_used = 0;
	while (used < n) {
		if (r->n_head < EXEC_FRAME_HEADER) {
			k = collect(r->head, r->n_head, EXEC_FRAME_HEADER,
				    p + used, n - used);
			used += k;
			r->n_head += k;
			*ret_used = used;
			if (r->n_head < EXEC_FRAME_HEADER)
				return 0;
			if (take_header(r) < 0)
				return -EINVAL;
			if (r->type == EXEC_STDIN && r->left == 0)
				r->n_head = 0; /* says nothing */
			else if (r->left == 0)
				return finish(r, ret);
			continue;
		}
		if (r->type == EXEC_STDIN) {
			int res = input_part(r, p + used, n - used, &used, ret);

			*ret_used = used;
			return res;
		}
		k = collect(r->json, r->n_json, r->n_json + r->left, p + used,
			    n - used);
		used += k;
		r->n_json += k;
		r->left -= (uint32_t)k;
		*ret_used = used;
		if (r->left == 0)
			return finish(r, ret);
	}
	return 0;
}
