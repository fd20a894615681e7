/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/guest.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/channel.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "net/record.h"

/* The peer's window bounds what may be under way; what HTTP/2 leaves unread
 * beyond it is a fault of the guest. */
#define IN_MAX ((size_t)2 * RECORD_WINDOW)
/* A repeated HELLO is for the guest that lost the first one in a cut-off
 * record; the others pay for it, in a moment when their translation caches are
 * cold. */
#define HELLO_MIN_MS 100u
#define HELLO_MAX_MS 400u
#define RETRY_MS     50u

struct guest {
	struct loop *loop;
	const struct guest_ops *ops;
	void *owner;
	char path[108];
	int fd;
	struct loop_io io;
	struct loop_timer hello_timer, lost_timer;
	struct loop_defer defer;
	unsigned hello_ms;
	struct record *record;
	struct http_transport transport;
	struct http_conn *conn;
	struct buf in;
	bool is_corked, is_lost, must_restart, must_tell;
};

static void restart(struct guest *g);

static void on_defer(struct loop_defer *d)
{
	struct guest *g = container_of(d, struct guest, defer);

	if (g->is_corked || g->is_lost)
		return;
	if (g->must_restart) {
		g->must_restart = false;
		restart(g);
	}
	if (g->must_tell && g->conn) {
		g->must_tell = false;
		g->ops->on_up(g->owner); /* may free g */
	}
}

/* Sessions end and begin from the loop, not from inside a callback of what is
 * being freed. */
static void ask_restart(struct guest *g)
{
	g->must_restart = true;
	loop_defer_add(g->loop, &g->defer, on_defer);
}

static void on_lost_timer(struct loop_timer *t)
{
	struct guest *g = container_of(t, struct guest, lost_timer);
	struct err e = { 0 };

	g->is_lost = true;
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the guest's daemon did not answer for %u s",
		GUEST_LOST_MS / 1000);
	guest_cork(g);
	g->ops->on_lost(g->owner, &e);
}

/* ---- bytes out ---- */

static void flush(struct guest *g)
{
	struct buf *out = record_out(g->record);

	while (g->fd >= 0 && buf_len(out) > 0) {
		ssize_t n = send(g->fd, buf_data(out), buf_len(out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) /* the read side reports the end */
			return;
		buf_consume(out, (size_t)n);
	}
	if (g->fd >= 0)
		loop_io_set(&g->io, LOOP_IN | (buf_len(out) ? LOOP_OUT : 0u));
}

static ssize_t transport_write(struct http_transport *t, const void *p,
			       size_t n)
{
	struct guest *g = container_of(t, struct guest, transport);
	size_t w;

	if (g->is_corked || g->fd < 0)
		return -EPIPE;
	w = record_send(g->record, p, n);
	flush(g);
	return w ? (ssize_t)w : -EAGAIN;
}

static ssize_t transport_read(struct http_transport *t, void *p, size_t n)
{
	struct guest *g = container_of(t, struct guest, transport);

	if (buf_len(&g->in) == 0)
		return -EAGAIN;
	if (n > buf_len(&g->in))
		n = buf_len(&g->in);
	memcpy(p, buf_data(&g->in), n);
	buf_consume(&g->in, n);
	return (ssize_t)n;
}

/* ---- sessions ---- */

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	struct guest *g = http_conn_owner(c);

	log_warn("guest_session_ended", "why=%s", e ? e->msg : "closed");
	g->conn = NULL;
	ask_restart(g);
}

static const struct http_conn_ops conn_ops = { .on_close = on_conn_close };

static void drop_conn(struct guest *g)
{
	if (g->conn)
		g->conn = http_conn_free(g->conn);
	buf_clear(&g->in);
}

static void on_session(struct record *r, uint64_t session)
{
	static const struct http_limits lim = {
		.streams = 256,
		/* what the channel has under way anyhow */
		.window = RECORD_WINDOW,
		.idle_timeout_ms = UINT64_MAX,
		.ping = true,
	};
	struct guest *g = record_owner(r);

	(void)session;
	drop_conn(g);
	loop_timer_del(&g->hello_timer);
	loop_timer_del(&g->lost_timer);
	g->conn =
	    http_conn_client_over(g->loop, &g->transport, &lim, &conn_ops, g);
	g->must_tell = true;
	loop_defer_add(g->loop, &g->defer, on_defer);
}

static void on_data(struct record *r, const uint8_t *p, size_t n)
{
	struct guest *g = record_owner(r);

	if (!g->conn)
		return;
	if (buf_put(&g->in, p, n) < 0) {
		log_warn("guest_overrun", "bytes=%zu", buf_len(&g->in));
		ask_restart(g);
		return;
	}
	http_conn_ready(g->conn);
}

static void on_room(struct record *r)
{
	struct guest *g = record_owner(r);

	if (g->conn)
		http_conn_ready(g->conn);
}

static void on_record_lost(struct record *r)
{
	ask_restart(record_owner(r));
}

static const struct record_ops record_ops = { on_session, on_data, on_room,
					      on_record_lost };

static void on_hello_timer(struct loop_timer *t)
{
	struct guest *g = container_of(t, struct guest, hello_timer);

	if (g->fd < 0) {
		restart(g);
		return;
	}
	record_hello(g->record);
	flush(g);
	g->hello_ms *= 2;
	if (g->hello_ms > HELLO_MAX_MS)
		g->hello_ms = HELLO_MAX_MS;
	loop_timer_set(g->loop, &g->hello_timer, g->hello_ms, on_hello_timer);
}

static void hang_up(struct guest *g)
{
	loop_io_del(&g->io);
	g->fd = fd_close(g->fd);
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct guest *g = container_of(io, struct guest, io);
	uint8_t b[65536];
	ssize_t n;

	if (events & LOOP_OUT)
		flush(g);
	if (!(events & (LOOP_IN | LOOP_HUP)))
		return;
	n = recv(g->fd, b, sizeof(b), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hang_up(g);
		ask_restart(g);
		return;
	}
	record_feed(g->record, b, (size_t)n);
	flush(g); /* acknowledgements */
}

/* A new session: from the socket's connection on, if that is gone, too. */
static void restart(struct guest *g)
{
	struct err e = { 0 };

	drop_conn(g);
	if (!g->lost_timer.loop)
		loop_timer_set(g->loop, &g->lost_timer, GUEST_LOST_MS,
			       on_lost_timer);
	if (g->fd < 0) {
		g->fd = unix_connect(g->path, SOCK_STREAM, &e);
		if (g->fd < 0) {
			g->fd = -1;
			loop_timer_set(g->loop, &g->hello_timer, RETRY_MS,
				       on_hello_timer);
			return;
		}
		CHECK(loop_io_add(g->loop, &g->io, g->fd, LOOP_IN, on_io) == 0);
	}
	record_start(g->record, 0);
	flush(g);
	g->hello_ms = HELLO_MIN_MS;
	loop_timer_set(g->loop, &g->hello_timer, g->hello_ms, on_hello_timer);
}

void guest_connect(struct guest *g, const char *path)
{
	CHECK(strlen(path) < sizeof(g->path));
	memcpy(g->path, path, strlen(path) + 1);
	restart(g);
}

void guest_cork(struct guest *g)
{
	g->is_corked = true;
	loop_timer_del(&g->hello_timer);
	loop_timer_del(&g->lost_timer);
	loop_defer_del(&g->defer);
	loop_io_del(&g->io);
	drop_conn(g);
}

void guest_pause(struct guest *g)
{
	drop_conn(g);
	loop_timer_del(&g->hello_timer);
	loop_timer_del(&g->lost_timer);
	loop_defer_del(&g->defer);
	g->must_restart = g->must_tell = false;
	loop_io_del(&g->io);
}

void guest_resume(struct guest *g)
{
	if (g->fd >= 0)
		CHECK(loop_io_add(g->loop, &g->io, g->fd, LOOP_IN, on_io) == 0);
	restart(g);
}

struct http_conn *guest_conn(struct guest *g)
{
	return g->is_corked || g->is_lost ? NULL : g->conn;
}

struct guest *guest_new(struct loop *l, const struct guest_ops *ops,
			void *owner)
{
	struct guest *g = xnew(struct guest);

	g->loop = l;
	g->ops = ops;
	g->owner = owner;
	g->fd = -1;
	g->transport.read = transport_read;
	g->transport.write = transport_write;
	g->record = record_new(RECORD_HOST, &record_ops, g);
	buf_init(&g->in, IN_MAX);
	return g;
}

struct guest *guest_free(struct guest *g)
{
	if (!g)
		return NULL;
	guest_cork(g);
	fd_close(g->fd);
	record_free(g->record);
	buf_fini(&g->in);
	free(g);
	return NULL;
}
