/* SPDX-License-Identifier: Apache-2.0 */

/* GET …/output: the log of an exec as frames (proto/data.h), with as many
 * readers as want it, each at its own speed. */

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "guestd/exec_stream.h"
#include "guestd/reply.h"
#include "proto/data.h"

#define ALIVE_MS 15000u
/* Smaller frames when there is little room would cost more than waiting. */
#define PIECE_MAX 32768u
#define JSON_ROOM 2048u

struct follower {
	struct list link;
	struct exec *exec;
	struct http_stream *stream;
	struct loop_timer alive;
	uint64_t at;
	bool follow, told_start, over;
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

/* The caller looked for room. */
static void send_json_take(struct follower *f, uint8_t type, json_t *v)
{
	owned_str text = json_text(v);
	uint8_t header[EXEC_FRAME_HEADER];

	json_decref(v);
	put_header(header, type, strlen(text), f->at);
	(void)http_stream_write(f->stream, header, sizeof(header));
	(void)http_stream_write(f->stream, text, strlen(text));
}

static bool has_room(const struct follower *f, size_t n)
{
	return http_stream_room(f->stream) >= EXEC_FRAME_HEADER + n;
}

static bool send_start(struct follower *f)
{
	const struct exec *x = f->exec;
	json_t *v;
	char when[25];

	if (!has_room(f, JSON_ROOM))
		return false;
	v = json_object();
	json_set_take(v, "pid", json_integer(x->pid));
	text_rfc3339(x->started_at_ms, when);
	json_set_take(v, "started_at", json_string(when));
	send_json_take(f, EXEC_STARTED, v);
	f->told_start = true;
	return true;
}

static bool send_gap(struct follower *f)
{
	json_t *v;

	if (!has_room(f, JSON_ROOM))
		return false;
	v = json_object();
	json_set_take(v, "from", json_integer((json_int_t)f->at));
	json_set_take(v, "to", json_integer((json_int_t)f->exec->log.begin));
	send_json_take(f, EXEC_GAP, v);
	f->at = f->exec->log.begin;
	return true;
}

static bool send_piece(struct follower *f)
{
	struct execlog_piece p;
	uint8_t header[EXEC_FRAME_HEADER];
	size_t room = http_stream_room(f->stream);

	if (room < EXEC_FRAME_HEADER + PIECE_MAX)
		return false;
	if (!execlog_read(&f->exec->log, f->at, PIECE_MAX, &p))
		return false;
	put_header(header, p.kind, p.n, p.offset);
	(void)http_stream_write(f->stream, header, sizeof(header));
	(void)http_stream_write(f->stream, p.p, p.n);
	f->at += p.n;
	return true;
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

	if (f->over || x->state == EXEC_ST_STARTING)
		return;
	if (!f->told_start && !send_start(f))
		return;
	for (;;) {
		if (f->at < x->log.begin) {
			if (!send_gap(f))
				return;
			continue;
		}
		if (f->at == x->log.end)
			break;
		if (!send_piece(f))
			return;
	}
	if (x->state == EXEC_ST_ENDED) {
		if (!has_room(f, JSON_ROOM))
			return;
		send_json_take(f, EXEC_EXIT, exec_fact_json(x));
		finish(f);
	} else if (!f->follow) {
		finish(f);
	}
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

	if (has_room(f, JSON_ROOM) && f->told_start)
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
