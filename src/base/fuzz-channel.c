/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct channel_op table[] = {
	[1] = { 8, 8, 0, 0 },
	[2] = { 16, 24, 0, 0 },
	[3] = { 8, 64, 1, 2 },
	[5] = { 12, 12, 0, 16 },
};

static int n_msgs, n_closed;

static void on_msg(struct channel *c, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct channel_hdr h;

	(void)c;
	(void)fds;
	memcpy(&h, msg, sizeof(h));
	CHECK(h.op < ARRAY_SIZE(table));
	CHECK(n >= table[h.op].size_min && n <= table[h.op].size_max);
	CHECK(n_fds >= table[h.op].n_fds_min && n_fds <= table[h.op].n_fds_max);
	n_msgs++;
}

static void on_close(struct channel *c, const struct err *e)
{
	(void)c;
	CHECK(e->msg[0]);
	n_closed++;
}

/* Messages: one byte of length, one of descriptors, then the bytes. Each is
 * delivered as the table allows or ends the channel with words; what the pure
 * check says is what the channel does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct channel_ops ops = { on_msg, on_close };
	int pair[2], want = 0;
	bool ended = false;
	struct loop *l;
	struct channel *c;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	l = loop_new();
	c = channel_new_take(l, pair[0], table, ARRAY_SIZE(table), &ops, NULL);
	n_msgs = n_closed = 0;
	while (size >= 2 && !ended) {
		size_t n = data[0], n_fds = data[1] % (CHANNEL_FDS_MAX + 1);
		int fds[CHANNEL_FDS_MAX];

		data += 2;
		size -= 2;
		n = n < size ? n : size;
		if (n == 0) /* would be an end of file */
			break;
		for (size_t i = 0; i < n_fds; i++)
			fds[i] = pair[1];
		CHECK(channel_send_fd(pair[1], data, n, fds, n_fds) == 0);
		/* longer than any entry is cut, and so refused */
		ended = n > 64 || channel_check(table, ARRAY_SIZE(table), data,
						n, n_fds, NULL) < 0;
		want += !ended;
		loop_once(l, 0);
		data += n;
		size -= n;
	}
	loop_once(l, 0);
	CHECK(n_msgs == want && n_closed == ended);
	channel_free(c);
	loop_free(l);
	close(pair[1]);
	return 0;
}
