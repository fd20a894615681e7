/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: what is read as a frame from the guest is written back to the same
 * bytes; what a client may send becomes a frame that reads back; a watcher's
 * is an ACK; cut anywhere, the same frames come. */

#include <string.h>

#include "api/frame.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void from_guest(const uint8_t *p, size_t n)
{
	uint8_t head[EXEC_FRAME_HEADER];
	struct frame f, again;
	ptrdiff_t k;

	while ((k = frame_from_guest(p, n, &f)) > 0) {
		CHECK((size_t)k <= n && f.n <= EXEC_FRAME_MAX);
		CHECK((size_t)k == EXEC_FRAME_HEADER + f.n);
		CHECK(frame_name(f.type));
		frame_head(&f, head);
		CHECK(memcmp(head, p, sizeof(head)) == 0);
		/* less than all of it is never another frame */
		CHECK(frame_from_guest(p, (size_t)k - 1, &again) == 0);
		p += k;
		n -= (size_t)k;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t message[FRAME_MESSAGE_HEAD];
	struct frame f;

	from_guest(data, size);
	if (!frame_from_client(data, size, true, &f))
		CHECK(f.type == EXEC_ACK && f.n == 0);
	if (!frame_from_client(data, size, false, &f)) {
		CHECK(!frame_name(f.type));
		frame_message_head(&f, message);
		CHECK(memcmp(message, data, sizeof(message)) == 0);
		CHECK(f.n == size - FRAME_MESSAGE_HEAD);
	}
	return 0;
}
