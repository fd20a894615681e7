/* SPDX-License-Identifier: Apache-2.0 */

/* POST …/attach: a follower of the output whose request carries input, sizes,
 * signals and acknowledgements. */

#include <errno.h>
#include <string.h>

#include "guestd/exec_stream.h"

#define TELL_STDIN_BYTES 32768u

static void discard(struct http_stream *s)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(s, &p)) > 0)
		http_stream_consume(s, n);
}

/* Every 32 KiB, and when the program has all that came. */
static void tell_stdin(struct follower *f)
{
	const struct exec *x = f->exec;
	uint64_t moved = x->in.taken - f->told_stdin;

	if (moved >= TELL_STDIN_BYTES ||
	    (moved > 0 && x->in.taken == exec_stdin_accepted(x)))
		f->alive_due = true;
}

/* ---- one frame; a reason to close the stream, or NULL ---- */

static const char *take_input(struct follower *f, const struct frame_event *ev)
{
	struct exec *x = f->exec;
	bool is_end = ev->type == EXEC_STDIN_END;
	int r;

	if (!x->spec.stdin_open)
		return is_end && ev->offset == 0 ? NULL : "protocol";
	if (!f->has_written)
		exec_stdin_rewrite(x, ev->offset);
	f->has_written = true;
	r = is_end ? exec_stdin_end(x, ev->offset)
		   : exec_stdin_put(x, ev->offset, ev->p, ev->n);
	if (r == -ERANGE)
		return "stdin_gap";
	if (r == -ENOMEM)
		return "capacity";
	return r < 0 ? "protocol" : NULL;
}

static const char *take_ack(struct follower *f, uint64_t offset)
{
	if (offset > f->at)
		return "protocol";
	if (offset > f->acked)
		f->acked = offset;
	return NULL;
}

static const char *take(struct follower *f, const struct frame_event *ev)
{
	struct exec *x = f->exec;

	if (ev->type == EXEC_ACK)
		return take_ack(f, ev->offset);
	if (f->role != FOLLOW_WRITER)
		return "protocol"; /* a watcher never writes */
	switch (ev->type) {
	case EXEC_SIZE:
		return exec_resize(x, ev->size) == -ENOTTY ? "protocol" : NULL;
	case EXEC_SIGNAL:
		/* one that comes too late is no fault */
		(void)exec_signal(x, ev->kill.signo, ev->kill.tree);
		return NULL;
	default:
		return take_input(f, ev);
	}
}

/* ---- the request's body ---- */

/* false: nothing more can be read now, or ever. */
static bool read_some(struct follower *f, const uint8_t *p, size_t n)
{
	struct exec *x = f->exec;
	struct frame_event ev;
	const char *fault = NULL;
	size_t used = 0, room = SIZE_MAX;
	int r;

	if (f->role == FOLLOW_WRITER && x->in.fd >= 0)
		room = exec_stdin_room(x);
	/* the program does not read: exec_attach_moved() goes on */
	if (room == 0)
		return false;
	r = frame_reader_feed(&f->frames, p, n < room ? n : room, &used, &ev);
	if (r < 0)
		fault = "protocol";
	else if (r > 0)
		fault = take(f, &ev);
	http_stream_consume(f->stream, used);
	if (fault)
		follower_close(f, fault, strcmp(fault, "protocol") != 0);
	return !fault;
}

static void read_frames(struct follower *f)
{
	struct exec *x = f->exec;
	struct http_stream *s = f->stream;
	const uint8_t *p;
	size_t n;

	while (!f->is_closing && !f->over && (n = http_stream_peek(s, &p)) > 0)
		if (!read_some(f, p, n))
			break;
	if (f->is_closing || f->over) {
		discard(s);
		return;
	}
	/* Nothing will be acknowledged any more: as one who only reads. */
	if (http_stream_eof(s) && x->writer == f) {
		x->writer = NULL;
		f->role = FOLLOW_READER;
	}
	tell_stdin(f);
}

static void on_body(struct http_stream *s)
{
	struct follower *f = http_stream_owner(s);

	read_frames(f);
	exec_streams_wake(f->exec);
}

void exec_attach_moved(struct follower *f)
{
	if (f->is_closing || f->over)
		tell_stdin(f);
	else
		read_frames(f);
}

void exec_attach(struct exec *x, struct http_stream *s, uint64_t from,
		 bool watch)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_writable = follower_on_writable,
		.on_close = follower_on_close,
	};
	struct follower *f = follower_new(
	    x, s, from, watch ? FOLLOW_WATCHER : FOLLOW_WRITER, &handler);

	if (!f)
		return;
	if (!watch) {
		if (x->writer)
			follower_close(x->writer, "replaced", false);
		x->writer = f;
	}
	follower_begin(f);
	on_body(s);
}
