/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The input is a life: records of one length byte and that many bytes, each a
 * message of the server; length 0 cuts the line, 255 lets the user type and
 * everything due be sent. Law: offsets never go back, input stays within its
 * window, what is sent is well-formed, nothing is handed on after the exit.
 */

#include "cli/attach.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void send_all(struct attach *a, struct buf *m)
{
	size_t room = attach_stdin_room(a);

	if (room > 100)
		attach_stdin(a, "0123456789", 10);
	attach_done(a, a->next);
	attach_ack(a);
	for (int i = 0; i < 100; i++) {
		buf_clear(m);
		if (!attach_next(a, m))
			break;
		CHECK(a->up && a->started && !a->watch);
		CHECK(buf_len(m) >= ATTACH_HEADER &&
		      buf_len(m) <= ATTACH_MESSAGE_MAX);
	}
	CHECK(buf_len(&a->in) <= EXEC_STDIN_WINDOW);
	CHECK(a->sent >= a->taken && a->sent - a->taken <= buf_len(&a->in));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct attach a;
	struct buf m;
	bool bad = false;

	if (size < 1)
		return 0;
	buf_init(&m, 0);
	attach_init(&a, data[0] >> 4, data[0] & 1, data[0] & 2);
	attach_up(&a);
	data++;
	size--;
	while (size > 0 && !bad) {
		struct attach_event ev;
		struct err e = { 0 };
		uint64_t before = a.next;
		bool was_over = a.over;
		size_t n = data[0];

		data++;
		size--;
		if (n == 0) {
			attach_down(&a);
			attach_up(&a);
			continue;
		}
		if (n == 255) {
			send_all(&a, &m);
			continue;
		}
		n = n > size ? size : n;
		bad = attach_take(&a, data, n, &ev, &e) < 0;
		CHECK(a.next >= before);
		CHECK(!was_over || ev.type == ATTACH_NOTHING);
		CHECK(!bad || !ev.body);
		CHECK(ev.n <= n);
		json_decref(ev.body);
		data += n;
		size -= n;
	}
	attach_fini(&a);
	buf_fini(&m);
	return 0;
}
