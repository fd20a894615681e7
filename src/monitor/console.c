/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/console.h"

#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/own.h"
#include "base/text.h"
#include "monitor/pass.h"

#define CHUNK_MAX 12288u /* bytes per line */
#define LINE_MAX_ (CHUNK_MAX * 4 / 3 + 128)

struct console {
	struct loop *loop;
	struct loop_defer defer;
	struct loop_timer alive;
	uint8_t *ring; /* made with the first byte */
	uint64_t end;  /* bytes ever */
	struct list readers;
	unsigned n_readers;
};

struct reader {
	struct list link;
	struct console *console;
	struct http_stream *stream;
	uint64_t next;
	bool follow, has_ended;
	struct buf out; /* the line at work */
};

static uint64_t begin_of(const struct console *c)
{
	return c->end > CONSOLE_KEEP ? c->end - CONSOLE_KEEP : 0;
}

/* ---- readers ---- */

static bool flush(struct reader *r)
{
	size_t n = buf_len(&r->out);

	if (n)
		buf_consume(&r->out,
			    http_stream_write(r->stream, buf_data(&r->out), n));
	return buf_len(&r->out) == 0;
}

static void put_chunk(struct reader *r)
{
	const struct console *c = r->console;
	uint64_t left = c->end - r->next;
	size_t at = r->next % CONSOLE_KEEP;
	size_t n = left < CHUNK_MAX ? (size_t)left : CHUNK_MAX;
	size_t text_n;
	uint8_t *to;

	if (n > CONSOLE_KEEP - at)
		n = CONSOLE_KEEP - at;
	buf_printf(&r->out, "{\"o\":%llu,\"b64\":\"",
		   (unsigned long long)r->next);
	text_n = text_base64_len(n);
	to = buf_reserve(&r->out, text_n + 1);
	if (!to)
		return;
	text_base64(c->ring + at, n, (char *)to);
	buf_commit(&r->out, text_n);
	buf_puts(&r->out, "\"}\n");
	r->next += n;
}

static void put_gap(struct reader *r, uint64_t to)
{
	buf_printf(&r->out,
		   "{\"o\":%llu,\"gap\":{\"from\":%llu,\"to\":%llu}}\n",
		   (unsigned long long)r->next, (unsigned long long)r->next,
		   (unsigned long long)to);
	r->next = to;
}

static void pump(struct reader *r)
{
	while (!r->has_ended && flush(r)) {
		if (r->next < begin_of(r->console)) {
			put_gap(r, begin_of(r->console));
		} else if (r->next < r->console->end) {
			put_chunk(r);
		} else if (r->follow) {
			return;
		} else {
			r->has_ended = true;
			http_stream_end(r->stream);
		}
	}
}

static void on_body(struct http_stream *s)
{
	const uint8_t *b;

	http_stream_consume(s, http_stream_peek(s, &b));
}

static void on_writable(struct http_stream *s)
{
	pump(http_stream_owner(s));
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct reader *r = http_stream_owner(s);

	(void)e;
	if (r->console)
		r->console->n_readers--;
	list_del(&r->link);
	buf_fini(&r->out);
	free(r);
}

static const struct http_handler handler = { NULL, on_body, on_writable,
					     on_close };

/* ---- the ring ---- */

static void on_defer(struct loop_defer *d)
{
	struct console *c = container_of(d, struct console, defer);
	struct reader *r;

	list_for_each (r, &c->readers, link)
		pump(r);
}

static void on_alive(struct loop_timer *t)
{
	struct console *c = container_of(t, struct console, alive);
	struct reader *r;

	if (list_empty(&c->readers))
		return;
	list_for_each (r, &c->readers, link) {
		if (r->has_ended || buf_len(&r->out))
			continue;
		buf_printf(&r->out, "{\"o\":%llu,\"alive\":{}}\n",
			   (unsigned long long)r->next);
		pump(r);
	}
	loop_timer_set(c->loop, t, CONSOLE_ALIVE_MS, on_alive);
}

void console_put(struct console *c, const void *p, size_t n)
{
	const uint8_t *b = p;

	if (!c->ring)
		c->ring = xcalloc(1, CONSOLE_KEEP);
	while (n) {
		size_t at = c->end % CONSOLE_KEEP;
		size_t k = n < CONSOLE_KEEP - at ? n : CONSOLE_KEEP - at;

		memcpy(c->ring + at, b, k);
		c->end += k;
		b += k;
		n -= k;
	}
	if (!list_empty(&c->readers))
		loop_defer_add(c->loop, &c->defer, on_defer);
}

void console_tail(const struct console *c, char *ret, size_t n)
{
	uint64_t have = c->end - begin_of(c);
	uint64_t at = c->end - (have < n - 1 ? have : n - 1);

	for (; at < c->end; at++) {
		uint8_t b = c->ring[at % CONSOLE_KEEP];

		if (b == '\r')
			continue;
		*ret++ = (b >= 0x20 && b < 0x7f) || b == '\n' ? (char)b : '?';
	}
	*ret = '\0';
}

void console_serve(struct console *c, struct http_stream *s, uint64_t from,
		   bool follow)
{
	struct reader *r;
	struct http_head h;

	if (from > c->end) {
		pass_refuse(s, 416, "offset_gone",
			    "the console has not written so many bytes",
			    "request");
		return;
	}
	if (c->n_readers >= CONSOLE_READERS_MAX) {
		pass_refuse(s, 429, "rate_limited",
			    "too many readers of this console at once; close "
			    "another",
			    "node");
		return;
	}
	r = xnew(struct reader);
	r->console = c;
	r->stream = s;
	r->next = from;
	r->follow = follow;
	buf_init(&r->out, LINE_MAX_);
	list_add_tail(&c->readers, &r->link);
	c->n_readers++;
	http_stream_handle(s, &handler, r);
	http_head_init(&h);
	h.status = 200;
	http_head_add(&h, "content-type", PASS_LINES_TYPE);
	http_stream_respond(s, &h, true);
	http_head_fini(&h);
	if (!c->alive.loop)
		loop_timer_set(c->loop, &c->alive, CONSOLE_ALIVE_MS, on_alive);
	pump(r);
}

struct console *console_new(struct loop *l)
{
	struct console *c = xnew(struct console);

	c->loop = l;
	list_init(&c->readers);
	return c;
}

struct console *console_free(struct console *c)
{
	if (!c)
		return NULL;
	while (!list_empty(&c->readers)) {
		struct reader *r =
		    list_entry(list_first(&c->readers), struct reader, link);

		list_del(&r->link);
		r->console = NULL;
		r->has_ended = true;
		http_stream_reset(r->stream);
	}
	loop_timer_del(&c->alive);
	loop_defer_del(&c->defer);
	free(c->ring);
	free(c);
	return NULL;
}
