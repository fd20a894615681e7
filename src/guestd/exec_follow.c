/* SPDX-License-Identifier: Apache-2.0 */

/* The log of an exec as frames (proto/data.h), with as many followers as want
 * it, each at its own speed. */

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "guestd/exec_stream.h"
#include "guestd/reply.h"

#define ALIVE_MS  15000u
#define PIECE_MAX 32768u

/* A frame is always taken whole: what the stream has no room for waits here,
 * and its short write is what brings on_writable. */
static void put(struct follower *f, const void *p, size_t n)
{
	size_t k = 0;

	if (buf_len(&f->rest) == 0)
		k = http_stream_write(f->stream, p, n);
	if (k < n && buf_put(&f->rest, (const uint8_t *)p + k, n - k) < 0)
		http_stream_reset(f->stream); /* out of memory */
}

/* false: the stream is full. */
static bool flush_rest(struct follower *f)
{
	while (buf_len(&f->rest) > 0) {
		size_t k = http_stream_write(f->stream, buf_data(&f->rest),
					     buf_len(&f->rest));

		buf_consume(&f->rest, k);
		if (buf_len(&f->rest) > 0)
			return false;
	}
	return true;
}

static void send_json_take(struct follower *f, uint8_t type, json_t *v)
{
	owned_str text = json_text(v);
	uint8_t header[EXEC_FRAME_HEADER];

	json_decref(v);
	frame_put_header(header, type, strlen(text), f->at);
	put(f, header, sizeof(header));
	put(f, text, strlen(text));
}

static void set_stdin_offset(struct follower *f, json_t *v)
{
	f->told_stdin = f->exec->in.taken;
	json_set_take(v, "stdin_offset",
		      json_integer((json_int_t)f->told_stdin));
}

static void send_alive(struct follower *f)
{
	json_t *v = json_object();

	set_stdin_offset(f, v);
	send_json_take(f, EXEC_ALIVE, v);
	f->alive_due = false;
}

static void send_start(struct follower *f)
{
	const struct exec *x = f->exec;
	json_t *v = json_object();
	char when[25];

	json_set_take(v, "pid", json_integer(x->pid));
	text_rfc3339(x->started_at_ms, when);
	json_set_take(v, "started_at", json_string(when));
	set_stdin_offset(f, v);
	send_json_take(f, EXEC_STARTED, v);
	f->told_start = true;
}

static void send_gap(struct follower *f)
{
	json_t *v = json_object();

	json_set_take(v, "from", json_integer((json_int_t)f->at));
	json_set_take(v, "to", json_integer((json_int_t)f->exec->log.begin));
	send_json_take(f, EXEC_GAP, v);
	f->at = f->exec->log.begin;
	/* nobody can acknowledge what was not sent */
	if (f->acked < f->at)
		f->acked = f->at;
}

static void send_piece(struct follower *f)
{
	struct execlog_piece p;
	uint8_t header[EXEC_FRAME_HEADER];

	if (!execlog_read(&f->exec->log, f->at, PIECE_MAX, &p))
		return;
	frame_put_header(header, p.kind, p.n, p.offset);
	put(f, header, sizeof(header));
	put(f, p.p, p.n);
	f->at += p.n;
}

static void finish(struct follower *f)
{
	f->over = true;
	loop_timer_del(&f->alive);
	http_stream_end(f->stream);
}

/* Output and then the end, until the stream is full. */
static void send_output(struct follower *f)
{
	struct exec *x = f->exec;

	while (buf_len(&f->rest) == 0 && f->at != x->log.end) {
		if (f->at < x->log.begin)
			send_gap(f);
		else
			send_piece(f);
	}
	if (buf_len(&f->rest) == 0 && !f->told_end &&
	    x->state == EXEC_ST_ENDED) {
		send_json_take(f, EXEC_EXIT, exec_fact_json(x));
		f->told_end = true;
	}
}

/* Everything that fits now. */
static void follower_pump(struct follower *f)
{
	struct exec *x = f->exec;

	if (f->over || !flush_rest(f))
		return;
	if (f->is_closing) {
		finish(f);
		return;
	}
	if (x->state < EXEC_ST_RUNNING) {
		/* nothing to tell so far, nor for one who does not wait */
		if (!f->follow && x->state != EXEC_ST_STARTING)
			finish(f);
		return;
	}
	if (!f->told_start)
		send_start(f);
	if (f->alive_due && buf_len(&f->rest) == 0)
		send_alive(f);
	send_output(f);
	if (buf_len(&f->rest) == 0 && (f->told_end || !f->follow))
		finish(f);
}

void exec_update_floor(struct exec *x)
{
	const struct follower *f;
	uint64_t slowest = UINT64_MAX, floor = UINT64_MAX;

	list_for_each (f, &x->followers, link) {
		execlog_mark_taken(&x->log,
				   f->role == FOLLOW_WRITER ? f->acked : f->at);
		if (f->role == FOLLOW_READER && !f->is_closing &&
		    f->at < slowest)
			slowest = f->at;
	}
	if (x->writer)
		floor = x->writer->acked;
	else if (x->spec.block)
		floor = slowest != UINT64_MAX ? slowest : x->log.taken;
	if (floor == UINT64_MAX && x->log.floor == UINT64_MAX)
		return;
	execlog_set_floor(&x->log, floor);
	exec_room(x);
}

static void on_alive(struct loop_timer *t)
{
	struct follower *f = container_of(t, struct follower, alive);

	/* a stream that is full needs no sign of life */
	if (buf_len(&f->rest) == 0 && f->told_start && !f->is_closing)
		send_alive(f);
	loop_timer_set(f->exec->g->loop, &f->alive, ALIVE_MS, on_alive);
}

void follower_close(struct follower *f, const char *reason, bool retry)
{
	json_t *v;

	if (f->exec->writer == f)
		f->exec->writer = NULL;
	if (f->over || f->is_closing)
		return;
	v = json_object();
	json_set_take(v, "reason", json_string(reason));
	json_set_take(v, "retry", json_boolean(retry));
	send_json_take(f, EXEC_CLOSING, v);
	f->is_closing = true;
	follower_pump(f);
	exec_streams_wake(f->exec);
}

void exec_streams_close(struct exec *x, const char *reason, bool retry)
{
	struct follower *f;

	list_for_each (f, &x->followers, link)
		follower_close(f, reason, retry);
}

size_t exec_n_watchers(const struct exec *x)
{
	const struct follower *f;
	size_t n = 0;

	list_for_each (f, &x->followers, link)
		n += f->role == FOLLOW_WATCHER && !f->is_closing && !f->over;
	return n;
}

static void on_wake(struct loop_defer *d)
{
	struct exec *x = container_of(d, struct exec, wake);
	struct follower *f;

	/* an input that is answered may have been the last that held it */
	exec_ref(x);
	/* streams are freed by the loop alone, so the list stays as it is */
	if (x->writer)
		exec_attach_moved(x->writer);
	if (x->input)
		exec_input_moved(x->input);
	list_for_each (f, &x->followers, link)
		follower_pump(f);
	exec_update_floor(x);
	exec_unref(x);
}

void exec_streams_wake(struct exec *x)
{
	if (!x->wake.loop && (!list_empty(&x->followers) || x->input))
		loop_defer_add(x->g->loop, &x->wake, on_wake);
}

void follower_on_writable(struct http_stream *s)
{
	struct follower *f = http_stream_owner(s);

	follower_pump(f);
	exec_update_floor(f->exec);
}

void follower_on_close(struct http_stream *s, const struct err *e)
{
	struct follower *f = http_stream_owner(s);
	struct exec *x = f->exec;

	(void)e;
	loop_timer_del(&f->alive);
	execlog_mark_taken(&x->log,
			   f->role == FOLLOW_WRITER ? f->acked : f->at);
	if (x->writer == f)
		x->writer = NULL;
	list_del(&f->link);
	buf_fini(&f->rest);
	free(f);
	exec_update_floor(x);
	exec_unref(x);
}

struct follower *follower_new(struct exec *x, struct http_stream *s,
			      uint64_t from, enum follower_role role,
			      const struct http_handler *h)
{
	struct follower *f;

	if (from > x->log.end) {
		reply_error(s, 416, "offset_gone", "from",
			    "start at output.end of the record, or before",
			    "the output does not reach that offset yet");
		return NULL;
	}
	f = xnew(struct follower);
	f->exec = x;
	f->stream = s;
	f->at = f->acked = from;
	f->role = role;
	f->follow = true;
	frame_reader_init(&f->frames);
	buf_init(&f->rest, (size_t)4 * PIECE_MAX);
	exec_ref(x);
	list_add_tail(&x->followers, &f->link);
	http_stream_handle(s, h, f);
	return f;
}

void follower_begin(struct follower *f)
{
	struct exec *x = f->exec;
	struct http_head head;

	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "application/vnd.caisson.frames");
	http_stream_respond(f->stream, &head, true);
	http_head_fini(&head);
	if (f->follow)
		loop_timer_set(x->g->loop, &f->alive, ALIVE_MS, on_alive);
	follower_pump(f);
	exec_update_floor(x);
}

static void on_body(struct http_stream *s)
{
	const uint8_t *p;

	http_stream_consume(s, http_stream_peek(s, &p));
}

void exec_follow(struct exec *x, struct http_stream *s, uint64_t from,
		 bool follow)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_writable = follower_on_writable,
		.on_close = follower_on_close,
	};
	struct follower *f = follower_new(x, s, from, FOLLOW_READER, &handler);

	if (!f)
		return;
	f->follow = follow;
	follower_begin(f);
	if (x->state == EXEC_ST_EXPIRED)
		follower_close(f, x->refused ? "not_started" : "expired",
			       false);
}
