/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws.h"

#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/ws_int.h"

uint64_t ws_ping_ms = 20000;
uint64_t ws_idle_ms = 60000;
uint64_t ws_close_ms = 5000;

#define REASON_MAX (WS_CONTROL_MAX - 2)
/* Of the stream's queue, kept free of messages for pongs and the close. */
#define CONTROL_ROOM 1024u
#define MASK_BLOCK   4096u

enum ws_state {
	WS_OPEN,
	WS_CLOSING, /* our close frame is queued, the peer's is awaited */
	WS_OVER,    /* nothing is read or sent; the stream's end is awaited */
};

struct ws {
	struct loop *loop;
	struct http_stream *s;
	const struct ws_handler *h;
	void *owner;
	struct ws_rx rx;
	struct loop_timer timer;
	struct loop_defer defer; /* read on after a hold */
	uint64_t heard_ms;	 /* the peer's last byte */
	uint64_t ping_ms;	 /* our last ping, or the opening */
	uint64_t deadline_ms;	 /* unless OPEN */
	size_t left;		 /* then: bytes queued when it was last moved */
	enum ws_state state;
	unsigned busy;
	bool is_server;
	bool hold;
	bool waiting; /* rx has a message for a user who holds */
	bool full;    /* a message was refused */
	bool pong_due;
	bool dead;
	uint8_t pong[WS_CONTROL_MAX];
	size_t n_pong;
	unsigned code;
	char reason[REASON_MAX + 1];
};

/* ---- the end ---- */

static void outcome(struct ws *w, unsigned code, const char *reason)
{
	w->code = code;
	(void)snprintf(w->reason, sizeof(w->reason), "%.*s", (int)REASON_MAX,
		       reason);
}

static void enter(struct ws *w)
{
	w->busy++;
}

static void free_dead(struct ws *w)
{
	if (!w->dead || w->busy)
		return;
	ws_rx_fini(&w->rx);
	free(w);
}

static void leave(struct ws *w)
{
	w->busy--;
	free_dead(w);
}

/* Everything but the memory: a message may be in the user's hands. */
static void release(struct ws *w)
{
	w->dead = true;
	w->state = WS_OVER;
	loop_timer_del(&w->timer);
	loop_defer_del(&w->defer);
}

static void cut(struct ws *w, const char *why)
{
	if (w->state == WS_OPEN || w->code == 0)
		outcome(w, WS_ABNORMAL, why);
	w->state = WS_OVER;
	http_stream_reset(w->s);
}

/* ---- output ---- */

/* Room was asked for before, so that no frame is queued in part. */
static bool put(struct ws *w, const void *p, size_t n)
{
	size_t took;

	w->s->out.max = 0;
	took = http_stream_write(w->s, p, n);
	w->s->out.max = HTTP_OUT_MAX;
	if (took == n)
		return true;
	cut(w, "no memory for a frame");
	return false;
}

static bool put_masked(struct ws *w, const uint8_t *p, size_t n,
		       const uint8_t mask[4])
{
	uint8_t block[MASK_BLOCK];

	for (size_t at = 0; at < n;) {
		size_t k = n - at < sizeof(block) ? n - at : sizeof(block);

		memcpy(block, p + at, k);
		ws_frame_mask(block, k, mask, at);
		if (!put(w, block, k))
			return false;
		at += k;
	}
	return true;
}

static bool put_frame(struct ws *w, enum ws_op op, const void *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX], mask[4];
	size_t len;

	if (!w->is_server)
		random_bytes(mask, sizeof(mask));
	len = ws_frame_head(head, op, n, w->is_server ? NULL : mask);
	if (!put(w, head, len))
		return false;
	if (n == 0)
		return true;
	return w->is_server ? put(w, p, n) : put_masked(w, p, n, mask);
}

/* Control frames never wait for more than a queue that is full of them. */
static bool put_control(struct ws *w, enum ws_op op, const void *p, size_t n)
{
	if (http_stream_room(w->s) < WS_HEAD_MAX + WS_CONTROL_MAX)
		return false;
	return put_frame(w, op, p, n);
}

static void answer_ping(struct ws *w)
{
	w->pong_due =
	    !put_control(w, WS_PONG, w->pong, w->n_pong) && w->state == WS_OPEN;
	if (w->pong_due)
		http_stream_want_room(w->s);
}

static void on_timer(struct loop_timer *t);

static void arm(struct ws *w)
{
	uint64_t now = loop_now_ms(w->loop), at = w->deadline_ms;

	if (w->state == WS_OPEN) {
		at = w->ping_ms + ws_ping_ms;
		if (!w->waiting && w->heard_ms + ws_idle_ms < at)
			at = w->heard_ms + ws_idle_ms;
	}
	loop_timer_set(w->loop, &w->timer, at > now ? at - now : 0, on_timer);
}

static void start_close(struct ws *w, unsigned code, const char *reason)
{
	uint8_t body[WS_CONTROL_MAX];
	size_t n = reason ? strnlen(reason, REASON_MAX) : 0;

	n = reason ? text_utf8_prefix(reason, n) : 0;
	body[0] = (uint8_t)(code >> 8);
	body[1] = (uint8_t)code;
	if (n)
		memcpy(body + 2, reason, n);
	w->state = WS_CLOSING;
	w->pong_due = false;
	w->full = false;
	w->deadline_ms = loop_now_ms(w->loop) + ws_close_ms;
	w->left = SIZE_MAX;
	if (!put_control(w, WS_CLOSE, body, code == WS_NO_CODE ? 0 : n + 2))
		cut(w, "the queue is full");
	arm(w);
}

/* Our side is said; the stream ends when the peer's is, or at the deadline. */
static void finish(struct ws *w)
{
	if (w->state == WS_OVER)
		return;
	w->state = WS_OVER;
	http_stream_end(w->s);
	arm(w);
}

static void fail(struct ws *w)
{
	if (w->state == WS_OPEN)
		start_close(w, w->rx.code, w->rx.why);
	outcome(w, w->rx.code, w->rx.why);
	finish(w);
}

/* ---- input ---- */

static void on_peer_close(struct ws *w)
{
	const char *reason =
	    w->rx.n_control > 2 ? (const char *)w->rx.control + 2 : "";

	outcome(w, w->rx.code, reason);
	if (w->state == WS_OPEN)
		start_close(w, w->rx.code, NULL);
	finish(w);
}

static void give_message(struct ws *w)
{
	static const uint8_t none[1];
	size_t n = buf_len(&w->rx.msg);

	w->waiting = false;
	/* what comes after our close frame is for nobody */
	if (w->state == WS_OPEN)
		w->h->on_message(w, w->rx.is_text,
				 n ? buf_data(&w->rx.msg) : none, n);
}

static void on_event(struct ws *w, enum ws_event ev)
{
	switch (ev) {
	case WS_EV_MESSAGE:
		w->waiting = w->hold && w->state == WS_OPEN;
		if (!w->waiting)
			give_message(w);
		break;
	case WS_EV_PING:
		/* only the newest is answered if they come faster than pongs
		 * leave */
		memcpy(w->pong, w->rx.control, w->rx.n_control);
		w->n_pong = w->rx.n_control;
		if (w->state == WS_OPEN)
			answer_ping(w);
		break;
	case WS_EV_CLOSE:
		on_peer_close(w);
		break;
	case WS_EV_BAD:
		fail(w);
		break;
	case WS_EV_PONG:
	case WS_EV_MORE:
		break;
	}
}

static void discard(struct ws *w)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(w->s, &p)) > 0)
		http_stream_consume(w->s, n);
}

/* Read until there is nothing, or a message that the user does not want yet:
 * so the frames before it are answered while he holds. */
static void read_frames(struct ws *w)
{
	const uint8_t *p;
	size_t n, used;

	if (w->waiting && !w->hold) {
		w->heard_ms = loop_now_ms(w->loop);
		give_message(w);
	}
	while (!w->dead && w->state != WS_OVER && !w->waiting) {
		enum ws_event ev;

		n = http_stream_peek(w->s, &p);
		if (n == 0)
			break;
		w->heard_ms = loop_now_ms(w->loop);
		ev = ws_rx_next(&w->rx, p, n, &used);
		http_stream_consume(w->s, used);
		on_event(w, ev);
	}
	if (w->dead || w->waiting)
		return;
	if (w->state == WS_OVER)
		discard(w);
	else if (http_stream_eof(w->s))
		cut(w, "the peer left without a close frame");
}

static void on_defer(struct loop_defer *d)
{
	struct ws *w = container_of(d, struct ws, defer);

	enter(w);
	read_frames(w);
	if (!w->dead)
		arm(w);
	leave(w);
}

/* ---- the stream's callbacks ---- */

static void on_body(struct http_stream *s)
{
	struct ws *w = http_stream_owner(s);

	enter(w);
	read_frames(w);
	leave(w);
}

static void on_writable(struct http_stream *s)
{
	struct ws *w = http_stream_owner(s);

	enter(w);
	if (w->pong_due)
		answer_ping(w);
	if (w->full && w->state == WS_OPEN) {
		w->full = false;
		if (w->h->on_writable)
			w->h->on_writable(w);
	}
	leave(w);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct ws *w = http_stream_owner(s);

	if (!w->code)
		outcome(w, WS_ABNORMAL, e ? e->msg : "the peer left");
	enter(w);
	release(w);
	w->s = NULL;
	w->h->on_close(w, w->code, w->reason);
	leave(w);
}

static const struct http_handler stream_handler = {
	.on_body = on_body,
	.on_writable = on_writable,
	.on_close = on_close,
};

static void nobody(struct http_stream *s)
{
	(void)s;
}

static void nobody_closes(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
}

/* Of a stream whose WebSocket was freed. */
static const struct http_handler no_handler = {
	.on_body = nobody,
	.on_close = nobody_closes,
};

/* A slow peer takes its time to read what was said before the close. */
static bool still_moves(struct ws *w)
{
	size_t left = buf_len(&w->s->out) + buf_len(&w->s->conn->out);

	if (!left || left >= w->left)
		return false;
	w->left = left;
	w->deadline_ms = loop_now_ms(w->loop) + ws_close_ms;
	return true;
}

static void on_timer(struct loop_timer *t)
{
	struct ws *w = container_of(t, struct ws, timer);
	uint64_t now = loop_now_ms(w->loop);

	if (w->state != WS_OPEN) {
		if (now >= w->deadline_ms && !still_moves(w)) {
			cut(w, "the peer did not answer the close frame");
			return;
		}
	} else if (!w->waiting && now >= w->heard_ms + ws_idle_ms) {
		cut(w, "the peer is silent");
		return;
	} else if (now >= w->ping_ms + ws_ping_ms) {
		w->ping_ms = now;
		(void)put_control(w, WS_PING, NULL, 0);
	}
	arm(w);
}

/* ---- the public side ---- */

struct ws *ws_new(struct loop *l, struct http_stream *s, bool is_server,
		  size_t max, const struct ws_handler *h, void *owner)
{
	struct ws *w = xnew(struct ws);

	w->loop = l;
	w->s = s;
	w->is_server = is_server;
	w->h = h;
	w->owner = owner;
	w->heard_ms = w->ping_ms = loop_now_ms(l);
	ws_rx_init(&w->rx, is_server, max);
	http_stream_handle(s, &stream_handler, w);
	arm(w);
	return w;
}

void *ws_owner(const struct ws *w)
{
	return w->owner;
}

size_t ws_room(const struct ws *w)
{
	size_t room;

	if (w->state != WS_OPEN)
		return HTTP_OUT_MAX;
	room = http_stream_room(w->s);
	return room > CONTROL_ROOM ? room - CONTROL_ROOM : 0;
}

bool ws_send(struct ws *w, bool is_text, const void *p, size_t n)
{
	if (w->state != WS_OPEN)
		return true; /* taken and dropped; on_close will tell */
	/* a message that never finds room goes alone */
	if (n > ws_room(w) && http_stream_room(w->s) < HTTP_OUT_MAX) {
		w->full = true;
		http_stream_want_room(w->s);
		return false;
	}
	put_frame(w, is_text ? WS_TEXT : WS_BINARY, p, n);
	return true;
}

void ws_hold(struct ws *w, bool hold)
{
	if (w->hold == hold || w->dead)
		return;
	w->hold = hold;
	if (!hold && !w->defer.loop)
		loop_defer_add(w->loop, &w->defer, on_defer);
}

void ws_close(struct ws *w, unsigned code, const char *reason)
{
	CHECK(ws_code_valid(code));
	if (w->state != WS_OPEN)
		return;
	start_close(w, code, reason);
	/* the peer's close frame may be behind a message that is held */
	w->waiting = false;
	if (!w->defer.loop)
		loop_defer_add(w->loop, &w->defer, on_defer);
}

void ws_cut(struct ws *w)
{
	if (!w->dead)
		cut(w, "cut by this side");
}

struct ws *ws_free(struct ws *w)
{
	if (!w || w->dead)
		return NULL;
	release(w);
	http_stream_handle(w->s, &no_handler, NULL);
	http_stream_reset(w->s);
	w->s = NULL;
	free_dead(w);
	return NULL;
}
