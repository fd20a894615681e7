/* SPDX-License-Identifier: Apache-2.0 */

/*
 * POST …/stdin: a request's body into the program's standard input. One writer
 * at a time. Bytes are named by their position, so a client that lost the
 * answer repeats from anywhere and nothing is written twice.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "guestd/exec_stream.h"
#include "guestd/reply.h"

struct exec_input {
	struct exec *exec;
	struct http_stream *stream;
	struct loop_io io;
	uint64_t skip; /* bytes of the body that were taken before */
	bool end;
};

static void answer(struct exec_input *in, bool gone)
{
	struct exec *x = in->exec;
	json_t *v;

	if (gone) {
		reply_wrong_state(in->stream,
				  "the program has closed its standard input",
				  NULL);
		return;
	}
	v = json_object();
	json_set_take(v, "stdin_offset",
		      json_integer((json_int_t)x->stdin_bytes));
	json_set_take(v, "ended", json_boolean(x->stdin_ended));
	reply_json_take(in->stream, 200, v);
}

static void on_body(struct http_stream *s);
static void on_close(struct http_stream *s, const struct err *e);

static const struct http_handler input_handler = {
	.on_body = on_body,
	.on_close = on_close,
};

static void done_on_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	/* a body that comes after our refusal */
	http_stream_consume(s, n);
}

static void done_on_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
}

/* Let go of the stream; the answer may still be on its way. */
static void release(struct exec_input *in)
{
	static const struct http_handler done = {
		.on_body = done_on_body,
		.on_close = done_on_close,
	};

	http_stream_handle(in->stream, &done, NULL);
	loop_io_del(&in->io);
	in->exec->input = NULL;
	exec_unref(in->exec);
	free(in);
}

static void close_input(struct exec *x)
{
	x->stdin_fd = fd_close(x->stdin_fd);
	x->stdin_ended = true;
}

static void on_room(struct loop_io *io, unsigned events)
{
	(void)events;
	on_body(container_of(io, struct exec_input, io)->stream);
}

/* -1: the reader is gone; 0: no room now; 1: some went. */
static int push(struct exec_input *in, const uint8_t *p, size_t n)
{
	struct exec *x = in->exec;
	ssize_t r;

	if (in->skip > 0) {
		if (n > in->skip)
			n = (size_t)in->skip;
		in->skip -= n;
		http_stream_consume(in->stream, n);
		return 1;
	}
	if (x->stdin_fd < 0)
		return -1;
	r = write(x->stdin_fd, p, n);
	if (r < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	x->stdin_bytes += (uint64_t)r;
	http_stream_consume(in->stream, (size_t)r);
	return 1;
}

static void on_body(struct http_stream *s)
{
	struct exec_input *in = http_stream_owner(s);
	struct exec *x = in->exec;
	const uint8_t *p;
	size_t n;

	loop_io_del(&in->io);
	while ((n = http_stream_peek(s, &p)) > 0) {
		int r = push(in, p, n);

		if (r < 0) {
			loop_io_del(&in->io);
			close_input(x);
			answer(in, true);
			release(in);
			return;
		}
		if (r == 0) {
			(void)loop_io_add(x->g->loop, &in->io, x->stdin_fd,
					  LOOP_OUT, on_room);
			return;
		}
	}
	if (!http_stream_eof(s))
		return;
	if (in->end)
		close_input(x);
	answer(in, false);
	release(in);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct exec_input *in = http_stream_owner(s);

	(void)e;
	/* the client went away: no EOF, no signal */
	loop_io_del(&in->io);
	in->exec->input = NULL;
	exec_unref(in->exec);
	free(in);
}

void exec_input_start(struct exec *x, struct http_stream *s, uint64_t offset,
		      bool end)
{
	struct exec_input *in;

	if (!x->spec.stdin_open) {
		reply_wrong_state(s,
				  "this exec was started without a standard "
				  "input",
				  "start it with \"stdin\":true");
		return;
	}
	if (x->input) {
		reply_wrong_state(s,
				  "another request is writing to the "
				  "standard input",
				  NULL);
		return;
	}
	if (offset > x->stdin_bytes) {
		reply_error(s, 416, "offset_gone", "offset",
			    "send from stdin_offset of the record on",
			    "the program has not got the bytes before this "
			    "offset");
		return;
	}
	in = xnew(struct exec_input);
	in->exec = x;
	in->stream = s;
	in->skip = x->stdin_bytes - offset;
	in->end = end;
	x->input = in;
	exec_ref(x);
	http_stream_handle(s, &input_handler, in);
	on_body(s);
}
