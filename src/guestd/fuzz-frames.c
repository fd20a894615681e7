/* SPDX-License-Identifier: Apache-2.0 */

/* Client frames: cut anywhere, the same bytes give the same events. */

#include <string.h>

#include "base/check.h"
#include "guestd/exec_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t n_events, n_input, sum;
	int64_t end; /* no padding: it is compared as bytes */
};

static void note(struct seen *s, const struct frame_event *ev)
{
	if (ev->type == EXEC_STDIN) {
		CHECK(ev->n > 0 && ev->n <= EXEC_FRAME_MAX);
		for (size_t i = 0; i < ev->n; i++)
			s->sum = s->sum * 31 + ev->p[i] + ev->offset + i;
		s->n_input += ev->n;
		return;
	}
	CHECK(ev->offset <= INT64_MAX);
	if (ev->type == EXEC_SIZE)
		CHECK(ev->size.cols > 0 && ev->size.rows > 0);
	else if (ev->type == EXEC_SIGNAL)
		CHECK(ev->kill.signo > 0 && ev->kill.signo < 64);
	else
		CHECK(ev->type == EXEC_STDIN_END || ev->type == EXEC_ACK);
	s->n_events++;
	s->sum = s->sum * 31 + ev->type + ev->offset;
}

static struct seen feed(const uint8_t *p, size_t n, size_t step)
{
	struct frame_reader r;
	struct frame_event ev;
	struct seen s = { 0 };

	frame_reader_init(&r);
	while (n > 0 && s.end == 0) {
		size_t part = n < step ? n : step, used = 0;
		int res = frame_reader_feed(&r, p, part, &used, &ev);

		CHECK(used <= part && (used == part || res != 0));
		CHECK(used > 0);
		if (res > 0)
			note(&s, &ev);
		if (res < 0)
			s.end = res;
		p += used;
		n -= used;
	}
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = feed(data, size, SIZE_MAX);
	struct seen bytes = feed(data, size, 1);
	struct seen parts = feed(data, size, 7);

	CHECK(memcmp(&whole, &bytes, sizeof(whole)) == 0);
	CHECK(memcmp(&whole, &parts, sizeof(whole)) == 0);
	return 0;
}
