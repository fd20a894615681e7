/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Law: however the bytes are cut, the same output is handed on, offsets never
 * go back, and nothing is handed on after the exit.
 */

#include "cli/ndjson.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t hash, last;
	bool over;
};

static int on_frame(void *arg, const struct ndjson_frame *f)
{
	struct sum *s = arg;

	CHECK(!s->over);
	s->hash = s->hash * 31 + (uint64_t)f->type;
	if (f->type == NDJSON_OUTPUT) {
		CHECK(f->n > 0 && f->stream >= 1 && f->stream <= 3);
		for (size_t i = 0; i < f->n; i++)
			s->hash = s->hash * 31 + f->p[i];
	}
	if (f->type == NDJSON_GAP)
		CHECK(f->to > f->from);
	if (f->type == NDJSON_EXIT)
		s->over = true;
	return 0;
}

static int feed(const uint8_t *data, size_t size, size_t cut, struct sum *s)
{
	struct ndjson d;
	struct err e = { 0 };
	int r;

	ndjson_init(&d, 0, on_frame, s);
	r = ndjson_feed(&d, data, cut, &e);
	s->last = d.next;
	if (r == 0)
		r = ndjson_feed(&d, data + cut, size - cut, &e);
	CHECK(d.next >= s->last);
	s->last = d.next;
	ndjson_fini(&d);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sum whole = { 0 }, parts = { 0 };
	int a = feed(data, size, size, &whole);
	int b = feed(data, size, size ? data[0] % size : 0, &parts);

	CHECK(a == b && whole.hash == parts.hash && whole.last == parts.last);
	return 0;
}
