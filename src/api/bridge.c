/* SPDX-License-Identifier: Apache-2.0 */
#include "api/bridge.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

#define STEP 65536u

static void want(struct bridge *b, unsigned events)
{
	if (b->io.loop)
		loop_io_set(&b->io, events);
}

static void close_fd(struct bridge *b)
{
	loop_io_del(&b->io);
	b->fd = fd_close(b->fd);
}

/* From the stream to the descriptor; true: it takes no more now. */
static bool write_fd(struct bridge *b)
{
	const uint8_t *p;
	ssize_t n;
	size_t have;

	while (b->s && b->fd >= 0 && (have = http_stream_peek(b->s, &p)) > 0) {
		n = send(b->fd, p, have, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return true;
		/* nobody reads any more: the rest is of no use */
		http_stream_consume(b->s, n < 0 ? have : (size_t)n);
	}
	if (b->s && !b->out_done && http_stream_eof(b->s)) {
		b->out_done = true;
		if (b->fd >= 0)
			shutdown(b->fd, SHUT_WR);
	}
	return false;
}

/* false: the stream takes no more now. */
static bool put(struct bridge *b, const uint8_t *p, size_t n)
{
	size_t took = http_stream_write(b->s, p, n);

	if (took < n)
		buf_put(&b->rest, p + took, n - took);
	return took == n;
}

static bool put_rest(struct bridge *b)
{
	size_t n = buf_len(&b->rest);

	if (n)
		buf_consume(&b->rest,
			    http_stream_write(b->s, buf_data(&b->rest), n));
	return buf_len(&b->rest) == 0;
}

/* From the descriptor to the stream; true: the stream takes no more now. */
static bool read_fd(struct bridge *b)
{
	uint8_t bytes[STEP];
	ssize_t n;

	if (b->s && !put_rest(b))
		return true;
	while (b->s && b->fd >= 0 && !b->in_done) {
		n = read(b->fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n > 0 && !put(b, bytes, (size_t)n))
			return true;
		if (n > 0)
			continue;
		b->in_done = true;
		http_stream_end(b->s);
	}
	return false;
}

static void pump(struct bridge *b)
{
	bool fd_full = write_fd(b);
	bool stream_full = read_fd(b);

	if (b->fd < 0)
		return;
	want(b, (fd_full ? LOOP_OUT : 0u) |
		    (stream_full || b->in_done ? 0u : LOOP_IN));
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct bridge *b = container_of(io, struct bridge, io);

	/* hung up and everything read: only the stream goes on */
	if ((events & LOOP_HUP) && b->in_done) {
		loop_io_del(&b->io);
		return;
	}
	pump(b);
}

void bridge_begin_take(struct bridge *b, struct loop *l, struct http_stream *s,
		       int fd)
{
	*b = (struct bridge){ .s = s, .fd = fd };
	buf_init(&b->rest, 0); /* one step */
	loop_io_add(l, &b->io, fd, LOOP_IN, on_io);
	pump(b);
}

void bridge_on_body(struct bridge *b)
{
	pump(b);
}

void bridge_on_writable(struct bridge *b)
{
	pump(b);
}

void bridge_end(struct bridge *b)
{
	if (!b->s)
		return;
	b->s = NULL;
	close_fd(b);
	buf_fini(&b->rest);
}

void bridge_lost(struct bridge *b)
{
	bridge_end(b);
}
