/* SPDX-License-Identifier: Apache-2.0 */

/*
 * POST …/stdin: a request's body into the program's standard input. One writer
 * at a time, of this kind or attached. It is answered when the program has it
 * all.
 */

#include <errno.h>
#include <stdlib.h>

#include "guestd/exec_stream.h"
#include "guestd/reply.h"

struct exec_input {
	struct exec *exec;
	struct http_stream *stream;
	uint64_t at; /* position of the body's next byte */
	bool end;
	bool is_whole; /* the body has come to its end */
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
	in->exec->input = NULL;
	exec_unref(in->exec);
	free(in);
}

static void answer(struct exec_input *in)
{
	const struct exec *x = in->exec;
	json_t *v = json_object();

	json_set_take(v, "stdin_offset", json_integer((json_int_t)x->in.taken));
	json_set_take(v, "ended", json_boolean(x->in.is_ended));
	reply_json_take(in->stream, 200, v);
	release(in);
}

static void refuse(struct exec_input *in, int r)
{
	if (r == -EPIPE)
		reply_wrong_state(in->stream,
				  "the program has closed its standard input",
				  NULL);
	else if (r == -EINVAL)
		reply_wrong_state(in->stream,
				  "the standard input has ended before these "
				  "bytes",
				  NULL);
	else
		reply_error(in->stream, 503, "capacity", NULL, NULL,
			    "no memory for the standard input");
	release(in);
}

/* Does the program have all that the request says? */
static bool is_taken(const struct exec_input *in)
{
	const struct exec *x = in->exec;

	return in->is_whole && x->in.taken >= in->at &&
	       (!in->end || x->in.is_ended);
}

/* 0: no room now; 1: some went; or an error. */
static int push(struct exec_input *in, const uint8_t *p, size_t n)
{
	struct exec *x = in->exec;
	size_t room = exec_stdin_room(x);
	int r;

	if (n > room)
		n = room;
	if (n == 0)
		return 0;
	r = exec_stdin_put(x, in->at, p, n);
	if (r < 0)
		return r;
	in->at += n;
	http_stream_consume(in->stream, n);
	return 1;
}

void exec_input_moved(struct exec_input *in)
{
	struct exec *x = in->exec;
	const uint8_t *p;
	size_t n;
	int r = 1;

	while (r > 0 && (n = http_stream_peek(in->stream, &p)) > 0)
		r = push(in, p, n);
	if (r > 0 && !in->is_whole && http_stream_eof(in->stream)) {
		in->is_whole = true;
		if (in->end && !x->in.is_ended)
			r = exec_stdin_end(x, in->at);
	}
	if (is_taken(in)) {
		answer(in);
		return;
	}
	/* over: nothing is taken any more */
	if (x->in.fd < 0 && r >= 0)
		r = x->in.is_ended ? -EINVAL : -EPIPE;
	if (r < 0)
		refuse(in, r);
}

static void on_body(struct http_stream *s)
{
	exec_input_moved(http_stream_owner(s));
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct exec_input *in = http_stream_owner(s);

	(void)e;
	/* the client went away: no EOF, no signal */
	in->exec->input = NULL;
	exec_unref(in->exec);
	free(in);
}

static bool may_write(const struct exec *x, struct http_stream *s)
{
	if (!x->spec.stdin_open)
		reply_wrong_state(s,
				  "this exec was started without a standard "
				  "input",
				  "start it with \"stdin\":true");
	else if (x->state < EXEC_ST_STARTING)
		reply_wrong_state(s, "the exec has not been started",
				  "attach to it; that starts it");
	else if (x->input || x->writer)
		reply_error(s, 409, "in_use", NULL,
			    "let the other one end, or attach: the newest "
			    "attach takes over",
			    x->writer ? "the standard input belongs to the "
					"client that is attached"
				      : "another request is writing to the "
					"standard input");
	else
		return true;
	return false;
}

void exec_input_start(struct exec *x, struct http_stream *s, uint64_t offset,
		      bool end)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_close = on_close,
	};
	struct exec_input *in;

	if (!may_write(x, s))
		return;
	if (offset > exec_stdin_accepted(x)) {
		reply_error(s, 416, "offset_gone", "offset",
			    "send from stdin_offset of the record on",
			    "the program has not got the bytes before this "
			    "offset");
		return;
	}
	exec_stdin_rewrite(x, offset);
	in = xnew(struct exec_input);
	in->exec = x;
	in->stream = s;
	in->at = offset;
	in->end = end;
	x->input = in;
	exec_ref(x);
	http_stream_handle(s, &handler, in);
	exec_input_moved(in);
}
