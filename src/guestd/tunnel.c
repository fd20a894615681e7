/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/life.h"
#include "guestd/reply.h"

#define CONNECT_MS 10000u
#define PIECE	   65536u

struct tunnel {
	struct guestd *g;
	struct http_stream *stream;
	struct loop_io io;
	struct loop_timer timer;
	int sock;
	uint16_t port;
	bool v6; /* the second try */
	bool connected;
	bool in_over;  /* the port has ended its side */
	bool out_over; /* the client has, and it was passed on */
	uint8_t in[PIECE];
	size_t in_at, in_n;
};

static void try_connect(struct tunnel *t);

static void drop_socket(struct tunnel *t)
{
	loop_io_del(&t->io);
	t->sock = fd_close(t->sock);
}

static void closed_port(struct tunnel *t, int errnum)
{
	char text[128];

	drop_socket(t);
	loop_timer_del(&t->timer);
	snprintf(text, sizeof(text),
		 "nobody listens on port %u of the sandbox's loopback (%s)",
		 t->port, strerror(errnum));
	reply_error(t->stream, 502, "port_closed", "port",
		    "start the server, and have it listen on 127.0.0.1, ::1 or "
		    "all addresses",
		    text);
}

static void next_family(struct tunnel *t, int errnum)
{
	drop_socket(t);
	if (t->v6) {
		closed_port(t, errnum);
		return;
	}
	t->v6 = true;
	try_connect(t);
}

/* Both sides ended, or one of them broke. */
static void cut(struct tunnel *t)
{
	drop_socket(t);
	http_stream_reset(t->stream);
}

/* ---- port -> client ---- */

/* false: no more now. */
static bool take(struct tunnel *t)
{
	ssize_t n;

	if (t->in_at < t->in_n) {
		t->in_at += http_stream_write(t->stream, t->in + t->in_at,
					      t->in_n - t->in_at);
		if (t->in_at < t->in_n)
			return false; /* on_writable follows */
	}
	n = recv(t->sock, t->in, sizeof(t->in), MSG_DONTWAIT);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0) {
		if (errno != EAGAIN)
			cut(t);
		return false;
	}
	if (n == 0) {
		t->in_over = true;
		http_stream_end(t->stream);
		return false;
	}
	t->in_at = 0;
	t->in_n = (size_t)n;
	return true;
}

/* ---- client -> port ---- */

/* true: the socket is full. */
static bool give(struct tunnel *t)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(t->stream, &p)) > 0) {
		ssize_t k = send(t->sock, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EAGAIN)
			return true;
		if (k < 0) {
			/* the port does not read any more: only the rest of
			 * what it says counts */
			http_stream_consume(t->stream, n);
			continue;
		}
		http_stream_consume(t->stream, (size_t)k);
	}
	if (http_stream_eof(t->stream) && !t->out_over) {
		t->out_over = true;
		(void)shutdown(t->sock, SHUT_WR);
	}
	return false;
}

static void run(struct tunnel *t)
{
	bool full = give(t), stopped;

	while (t->sock >= 0 && !t->in_over && take(t))
		;
	if (t->sock < 0)
		return;
	if (t->in_over && t->out_over) {
		drop_socket(t); /* the stream is over, too */
		return;
	}
	stopped = t->in_at < t->in_n || t->in_over;
	(void)loop_io_set(&t->io,
			  (stopped ? 0u : LOOP_IN) | (full ? LOOP_OUT : 0u));
}

/* ---- connecting ---- */

static void discard(struct http_stream *s)
{
	const uint8_t *b;
	size_t n;

	while ((n = http_stream_peek(s, &b)) > 0)
		http_stream_consume(s, n);
}

static void on_connected(struct tunnel *t)
{
	struct http_head head;

	t->connected = true;
	loop_timer_del(&t->timer);
	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "application/octet-stream");
	http_stream_respond(t->stream, &head, true);
	http_head_fini(&head);
	run(t);
}

static void on_sock(struct loop_io *io, unsigned events)
{
	struct tunnel *t = container_of(io, struct tunnel, io);
	int errnum = 0;
	socklen_t n = sizeof(errnum);

	if (!t->connected) {
		(void)getsockopt(t->sock, SOL_SOCKET, SO_ERROR, &errnum, &n);
		if (errnum)
			next_family(t, errnum);
		else if (events & LOOP_OUT)
			on_connected(t);
		return;
	}
	/* Broken, while nothing was asked of it: it would be told for ever. */
	if ((events & LOOP_HUP) && !(io->events & (LOOP_IN | LOOP_OUT))) {
		if (t->in_at < t->in_n) {
			loop_io_del(&t->io); /* the client's turn */
			return;
		}
		if (t->in_over) {
			drop_socket(t);
			discard(t->stream);
			return;
		}
	}
	run(t);
}

static void on_timeout(struct loop_timer *timer)
{
	struct tunnel *t = container_of(timer, struct tunnel, timer);

	next_family(t, ETIMEDOUT);
}

static int begin(struct tunnel *t)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(t->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(t->port),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const struct sockaddr *to = t->v6 ? (void *)&v6 : (void *)&v4;
	int one = 1, r;

	t->sock = socket(t->v6 ? AF_INET6 : AF_INET,
			 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->sock < 0)
		return errno;
	/* keys pressed in a terminal must not wait for each other */
	(void)setsockopt(t->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = connect(t->sock, to, t->v6 ? sizeof(v6) : sizeof(v4));
	if (r < 0 && errno != EINPROGRESS)
		return errno;
	r = loop_io_add(t->g->loop, &t->io, t->sock, LOOP_OUT, on_sock);
	return r < 0 ? -r : 0;
}

static void try_connect(struct tunnel *t)
{
	int errnum = begin(t);

	if (errnum)
		next_family(t, errnum);
	else
		loop_timer_set(t->g->loop, &t->timer, CONNECT_MS, on_timeout);
}

/* ---- the stream ---- */

static void pump(struct http_stream *s)
{
	struct tunnel *t = http_stream_owner(s);

	if (!t->connected)
		return;
	if (t->sock < 0) {
		discard(s); /* nobody is left to hear it */
		return;
	}
	if (!t->io.loop)
		(void)loop_io_add(t->g->loop, &t->io, t->sock, LOOP_IN,
				  on_sock);
	run(t);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct tunnel *t = http_stream_owner(s);

	(void)s;
	(void)e;
	drop_socket(t);
	loop_timer_del(&t->timer);
	t->g->n_tunnels--;
	free(t);
}

void tunnel_request(struct guestd *g, struct http_stream *s)
{
	static const struct http_handler handler = {
		.on_body = pump,
		.on_writable = pump,
		.on_close = on_close,
	};
	owned_str port = http_query_get(http_stream_head(s)->path, "port");
	int64_t number;
	struct tunnel *t;

	if (!port || !text_int(port, 1, 65535, &number)) {
		reply_error(s, 400, port ? "invalid_field" : "missing_field",
			    "port", NULL, "expected a port from 1 to 65535");
		return;
	}
	if (!life_is_running(g->life)) {
		reply_wrong_state(s, "the guest is frozen; nobody listens now",
				  "wait until the sandbox runs");
		return;
	}
	if (g->n_tunnels >= TUNNELS_MAX) {
		reply_error(s, 503, "capacity", NULL, "close some of them",
			    "128 tunnels are open already");
		return;
	}
	t = xnew(struct tunnel);
	t->g = g;
	t->stream = s;
	t->sock = -1;
	t->port = (uint16_t)number;
	g->n_tunnels++;
	http_stream_duplex(s);
	http_stream_patient(s);
	http_stream_handle(s, &handler, t);
	try_connect(t);
}
