/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "net/record.h"

/* One read from the port; also what is held for HTTP before reading on. */
#define READ_BYTES 65536u
#define HELD_MAX   (RECORD_WINDOW + READ_BYTES)
/* The driver copies each write into one buffer of at most 32 KiB. */
#define WRITE_MAX    32768u
#define ROUND_READS  8
#define ROUND_WRITES 32

struct port {
	struct loop *loop;
	struct loop_io io;
	struct loop_defer again; /* more to do than one round should */
	struct loop_defer renew; /* a new session's connection is due */
	int fd;
	bool is_socket;
	struct record *record;
	struct http_conn *conn; /* NULL until the host says HELLO */
	struct http_transport transport;
	struct buf in; /* payload that HTTP has not read yet */
	void *owner;
	void (*on_gone)(void *owner);
	struct http_conn_ops conn_ops; /* ops with our on_close */
	uint8_t text[READ_BYTES];
};

static void port_pump(struct port *p);

/* ---- below HTTP ---- */

static void on_again(struct loop_defer *d)
{
	port_pump(container_of(d, struct port, again));
}

static void pump_later(struct port *p)
{
	if (!p->again.loop)
		loop_defer_add(p->loop, &p->again, on_again);
}

static ssize_t transport_read(struct http_transport *t, void *to, size_t n)
{
	struct port *p = container_of(t, struct port, transport);
	size_t have = buf_len(&p->in);

	if (have == 0)
		return -EAGAIN;
	if (n > have)
		n = have;
	memcpy(to, buf_data(&p->in), n);
	buf_consume(&p->in, n);
	if (have >= READ_BYTES && buf_len(&p->in) < READ_BYTES)
		pump_later(p);
	return (ssize_t)n;
}

static ssize_t transport_write(struct http_transport *t, const void *from,
			       size_t n)
{
	struct port *p = container_of(t, struct port, transport);
	size_t taken = record_send(p->record, from, n);

	if (taken == 0)
		return -EAGAIN;
	/* several writes of a round leave in one go */
	pump_later(p);
	return (ssize_t)taken;
}

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	struct port *p = http_conn_owner(c);

	p->conn = NULL;
	log_warn("connection", "closed=%s", e ? e->msg : "by host");
}

/* ---- sessions ---- */

static void on_renew(struct loop_defer *d)
{
	/* the record layer knows when the host is gone */
	static const struct http_limits limits = {
		.idle_timeout_ms = UINT64_MAX,
		.window = RECORD_WINDOW,
	};
	struct port *p = container_of(d, struct port, renew);

	p->conn = http_conn_server_over(p->loop, &p->transport, &limits,
					&p->conn_ops, p);
	http_conn_ready(p->conn);
}

static void on_session(struct record *r, uint64_t session)
{
	struct port *p = record_owner(r);

	(void)session;
	p->conn = http_conn_free(p->conn);
	buf_clear(&p->in);
	/* Payload of the new session may follow in the same bytes: it waits in
	 * p->in until the connection exists. */
	if (!p->renew.loop)
		loop_defer_add(p->loop, &p->renew, on_renew);
}

static void on_data(struct record *r, const uint8_t *from, size_t n)
{
	struct port *p = record_owner(r);

	/* After an error on the connection nobody reads what is left of its
	 * session; holding it would keep us from seeing the next HELLO. */
	if (!p->conn && !p->renew.loop)
		return;
	/* The host keeps within the window, which is less than this limit; one
	 * that does not loses its session when HTTP finds the hole. */
	if (buf_put(&p->in, from, n) < 0)
		log_warn("channel", "error=\"host overran the window\"");
}

static void on_room(struct record *r)
{
	struct port *p = record_owner(r);

	if (p->conn)
		http_conn_ready(p->conn);
}

/* ---- the descriptor ---- */

/* Bytes read; 0 = nothing now. */
static size_t port_read(struct port *p)
{
	ssize_t n;

	if (buf_len(&p->in) >= READ_BYTES)
		return 0; /* HTTP is behind */
	n = read(p->fd, p->text, sizeof(p->text));
	if (n > 0) {
		record_feed(p->record, p->text, (size_t)n);
		if (p->conn && buf_len(&p->in) > 0)
			http_conn_ready(p->conn);
		return (size_t)n;
	}
	/* A port without a host reads 0; a socket then is closed. */
	if (p->is_socket && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
		loop_io_del(&p->io);
		p->on_gone(p->owner);
	}
	return 0;
}

static bool port_write(struct port *p)
{
	struct buf *out = record_out(p->record);
	bool more = true;

	for (int i = 0; i < ROUND_WRITES && buf_len(out) > 0; i++) {
		size_t n = buf_len(out);
		ssize_t r =
		    write(p->fd, buf_data(out), n < WRITE_MAX ? n : WRITE_MAX);

		if (r <= 0) {
			more = false; /* an edge follows when there is room */
			break;
		}
		buf_consume(out, (size_t)r);
	}
	return more && buf_len(out) > 0;
}

static void port_pump(struct port *p)
{
	size_t n = 0;
	bool more;

	for (int i = 0; i < ROUND_READS && p->io.loop; i++) {
		n = port_read(p);
		if (n == 0)
			break;
	}
	more = port_write(p);
	/* Edge-triggered: nobody calls again for what was left. (When HTTP is
	 * behind, its next read does.) */
	if (more || n > 0)
		pump_later(p);
}

static void on_io(struct loop_io *io, unsigned events)
{
	(void)events;
	port_pump(container_of(io, struct port, io));
}

struct port *port_new_take(struct loop *l, int fd, bool is_socket,
			   const struct http_conn_ops *ops, void *owner,
			   void (*on_gone)(void *owner))
{
	static const struct record_ops record_ops = {
		.on_session = on_session,
		.on_data = on_data,
		.on_room = on_room,
	};
	struct port *p = xnew(struct port);

	p->loop = l;
	p->fd = fd;
	p->is_socket = is_socket;
	p->owner = owner;
	p->on_gone = on_gone;
	p->conn_ops = *ops;
	p->conn_ops.on_close = on_conn_close;
	p->transport.read = transport_read;
	p->transport.write = transport_write;
	buf_init(&p->in, HELD_MAX);
	p->record = record_new(RECORD_GUEST, &record_ops, p);
	(void)loop_io_add(l, &p->io, fd, LOOP_IN | LOOP_OUT | LOOP_EDGE, on_io);
	/* what came before we watched */
	pump_later(p);
	return p;
}

void *port_owner(const struct port *p)
{
	return p->owner;
}

struct port *port_free(struct port *p)
{
	if (!p)
		return NULL;
	loop_io_del(&p->io);
	loop_defer_del(&p->again);
	loop_defer_del(&p->renew);
	http_conn_free(p->conn);
	record_free(p->record);
	buf_fini(&p->in);
	fd_close(p->fd);
	free(p);
	return NULL;
}
