/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_stdin.h"

#include <errno.h>
#include <unistd.h>

#include "base/own.h"
#include "guestd/exec.h"
#include "guestd/exec_pty.h"
#include "guestd/exec_stream.h"
#include "proto/data.h"

/* Each may hold that much when all together hold more than their share. */
#define HELD_MIN 65536u

void exec_stdin_init(struct exec *x)
{
	x->in = (struct exec_stdin){ .fd = -1, .total = UINT64_MAX };
	buf_init(&x->in.held, EXEC_STDIN_HELD);
}

static void forget_held(struct exec *x, size_t n)
{
	x->in.held.end -= n;
	x->g->execs->held_bytes -= n;
}

void exec_stdin_fini(struct exec *x)
{
	loop_io_del(&x->in.io);
	x->in.fd = fd_close(x->in.fd);
	x->in.is_gone = true;
	forget_held(x, buf_len(&x->in.held));
	buf_fini(&x->in.held);
}

void exec_stdin_open_take(struct exec *x, int fd)
{
	x->in.fd = fd;
}

uint64_t exec_stdin_accepted(const struct exec *x)
{
	return x->in.taken + buf_len(&x->in.held);
}

size_t exec_stdin_room(const struct exec *x)
{
	const struct execs *s = x->g->execs;
	size_t held = buf_len(&x->in.held), max = EXEC_STDIN_HELD;

	if (s->held_bytes >= s->log_budget / 4)
		max = HELD_MIN;
	return held < max ? max - held : 0;
}

static void on_room(struct loop_io *io, unsigned events);

static void close_input(struct exec *x)
{
	loop_io_del(&x->in.io);
	x->in.fd = fd_close(x->in.fd);
	exec_streams_wake(x);
}

/* The program closed its end: nothing will ever be taken again. */
static void gone(struct exec *x)
{
	x->in.is_gone = true;
	forget_held(x, buf_len(&x->in.held));
	close_input(x);
}

/* Everything was taken and its end is known. -EAGAIN: later. */
static int deliver_end(struct exec *x)
{
	int r = x->pty < 0 ? 0 : pty_write_end(x->in.fd, &x->in.in_line);

	if (r == -EAGAIN)
		return r;
	x->in.is_ended = true;
	close_input(x);
	return 0;
}

static void wait_for_room(struct exec *x)
{
	if (!x->in.io.loop)
		(void)loop_io_add(x->g->loop, &x->in.io, x->in.fd, LOOP_OUT,
				  on_room);
}

static void flush(struct exec *x)
{
	struct exec_stdin *in = &x->in;
	uint64_t before = in->taken;

	while (in->fd >= 0 && buf_len(&in->held) > 0) {
		const uint8_t *p = buf_data(&in->held);
		ssize_t r = write(in->fd, p, buf_len(&in->held));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			break;
		if (r <= 0) {
			gone(x);
			return;
		}
		in->in_line = p[r - 1] != '\n' && p[r - 1] != '\r';
		in->taken += (uint64_t)r;
		x->g->execs->held_bytes -= (size_t)r;
		buf_consume(&in->held, (size_t)r);
	}
	if (in->taken != before)
		exec_streams_wake(x);
	if (in->fd < 0)
		return;
	if (buf_len(&in->held) > 0 ||
	    (in->taken == in->total && deliver_end(x) < 0))
		wait_for_room(x);
	else
		loop_io_del(&in->io);
}

static void on_room(struct loop_io *io, unsigned events)
{
	struct exec_stdin *in = container_of(io, struct exec_stdin, io);

	(void)events;
	flush(container_of(in, struct exec, in));
}

void exec_stdin_rewrite(struct exec *x, uint64_t offset)
{
	uint64_t accepted = exec_stdin_accepted(x);

	if (offset < x->in.taken)
		offset = x->in.taken;
	if (offset < accepted)
		forget_held(x, (size_t)(accepted - offset));
	if (!x->in.is_ended)
		x->in.total = UINT64_MAX;
}

int exec_stdin_put(struct exec *x, uint64_t offset, const void *p, size_t n)
{
	struct exec_stdin *in = &x->in;
	uint64_t accepted = exec_stdin_accepted(x);
	const uint8_t *from = p;

	if (in->is_gone)
		return 0;
	if (offset > accepted)
		return -ERANGE;
	if (offset + n > in->total)
		return -EINVAL;
	if (offset + n <= accepted)
		return 0;
	from += accepted - offset;
	n -= (size_t)(accepted - offset);
	if (buf_put(&in->held, from, n) < 0)
		return -ENOMEM;
	x->g->execs->held_bytes += n;
	flush(x);
	return 0;
}

int exec_stdin_end(struct exec *x, uint64_t total)
{
	struct exec_stdin *in = &x->in;

	if (in->is_gone)
		return 0;
	if (total > exec_stdin_accepted(x))
		return -ERANGE;
	if (total < exec_stdin_accepted(x) ||
	    (in->total != UINT64_MAX && in->total != total))
		return -EINVAL;
	in->total = total;
	flush(x);
	return 0;
}
