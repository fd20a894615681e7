/* SPDX-License-Identifier: Apache-2.0 */

/* GET …/output: the log of an exec as frames (proto/data.h), with as many
 * readers as want it, each at its own speed. */

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "guestd/exec_stream.h"
#include "guestd/reply.h"
#include "proto/data.h"

#define ALIVE_MS  15000u
#define PIECE_MAX 32768u

struct follower {
	struct list link;
	struct exec *exec;
	struct http_stream *stream;
	struct loop_timer alive;
	uint64_t at;
	struct buf rest; /* of a frame that the stream took in part */
	bool follow, told_start, told_end, over;
};

static void put_u32(uint8_t *to, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		to[i] = (uint8_t)v;
}

static void put_header(uint8_t to[EXEC_FRAME_HEADER], uint8_t type, size_t n,
		       uint64_t offset)
{
	memset(to, 0, EXEC_FRAME_HEADER);
	to[0] = type;
	put_u32(to + 4, (uint32_t)n);
	put_u32(to + 8, (uint32_t)(offset >> 32));
	put_u32(to + 12, (uint32_t)offset);
}

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
	put_header(header, type, strlen(text), f->at);
	put(f, header, sizeof(header));
	put(f, text, strlen(text));
}

static void send_start(struct follower *f)
{
	const struct exec *x = f->exec;
	json_t *v = json_object();
	char when[25];

	json_set_take(v, "pid", json_integer(x->pid));
	text_rfc3339(x->started_at_ms, when);
	json_set_take(v, "started_at", json_string(when));
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
}

static void send_piece(struct follower *f)
{
	struct execlog_piece p;
	uint8_t header[EXEC_FRAME_HEADER];

	if (!execlog_read(&f->exec->log, f->at, PIECE_MAX, &p))
		return;
	put_header(header, p.kind, p.n, p.offset);
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

/* Everything that fits now. */
static void follower_pump(struct follower *f)
{
	struct exec *x = f->exec;

	if (f->over || x->state == EXEC_ST_STARTING || !flush_rest(f))
		return;
	if (!f->told_start)
		send_start(f);
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
	if (buf_len(&f->rest) == 0 && (f->told_end || !f->follow))
		finish(f);
}

/* What may be dropped is decided by the slowest reader that is there, or, when
 * there is none, by how far any reader came. */
static void update_floor(struct exec *x)
{
	const struct follower *f;
	uint64_t slowest = UINT64_MAX;

	list_for_each (f, &x->followers, link) {
		execlog_mark_taken(&x->log, f->at);
		if (f->at < slowest)
			slowest = f->at;
	}
	if (!x->spec.block)
		return;
	execlog_set_floor(&x->log,
			  slowest == UINT64_MAX ? x->log.taken : slowest);
	exec_room(x);
}

static void on_alive(struct loop_timer *t)
{
	struct follower *f = container_of(t, struct follower, alive);

	if (buf_len(&f->rest) == 0 && f->told_start)
		send_json_take(f, EXEC_ALIVE, json_object());
	loop_timer_set(f->exec->g->loop, &f->alive, ALIVE_MS, on_alive);
}

static void on_wake(struct loop_defer *d)
{
	struct exec *x = container_of(d, struct exec, wake);
	struct follower *f;

	list_for_each (f, &x->followers, link)
		follower_pump(f);
	update_floor(x);
}

void exec_streams_wake(struct exec *x)
{
	if (!x->wake.loop && !list_empty(&x->followers))
		loop_defer_add(x->g->loop, &x->wake, on_wake);
}

static void on_body(struct http_stream *s)
{
	(void)s;
}

static void on_writable(struct http_stream *s)
{
	struct follower *f = http_stream_owner(s);

	follower_pump(f);
	update_floor(f->exec);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct follower *f = http_stream_owner(s);
	struct exec *x = f->exec;

	(void)e;
	loop_timer_del(&f->alive);
	execlog_mark_taken(&x->log, f->at);
	list_del(&f->link);
	buf_fini(&f->rest);
	free(f);
	update_floor(x);
	exec_unref(x);
}

void exec_follow(struct exec *x, struct http_stream *s, uint64_t from,
		 bool follow)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_writable = on_writable,
		.on_close = on_close,
	};
	struct follower *f;
	struct http_head head;

	if (from > x->log.end) {
		reply_error(s, 416, "offset_gone", NULL,
			    "start at output_end of the record, or before",
			    "the output does not reach that offset yet");
		return;
	}
	f = xnew(struct follower);
	f->exec = x;
	f->stream = s;
	f->at = from;
	f->follow = follow;
	buf_init(&f->rest, (size_t)4 * PIECE_MAX);
	exec_ref(x);
	list_add_tail(&x->followers, &f->link);
	http_stream_handle(s, &handler, f);
	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "application/vnd.caisson.frames");
	http_stream_respond(s, &head, true);
	http_head_fini(&head);
	if (follow)
		loop_timer_set(x->g->loop, &f->alive, ALIVE_MS, on_alive);
	follower_pump(f);
	update_floor(x);
}
