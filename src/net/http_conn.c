/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http_int.h"

#define DISPATCH_MAX                                                           \
	1024	      /* callbacks per turn, for the loop's other sources      \
		       */
#define READS_MAX  4  /* reads per turn */
#define WRITES_MAX 16 /* writes per turn */

static const char preface[HTTP_SNIFF_MAX + 1] =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* ---- the end of a connection ---- */

static void close_io(struct http_conn *c)
{
	loop_io_del(&c->io);
	c->fd = fd_close(c->fd);
	c->transport = NULL;
	c->state = HTTP_CLOSED;
	http_conn_kick(c);
}

static void keep_error(struct http_conn *c, const struct err *e)
{
	if (e && !c->err.code)
		c->err = *e;
}

/* A stream that has all that it needs from the connection stays. */
static void cut_streams(struct http_conn *c, const struct err *e)
{
	struct http_stream *s;
	struct err gone = { 0 };

	if (!e) {
		err_set(&gone, -ECONNRESET, ERR_UNAVAILABLE,
			"the HTTP connection is gone");
		e = &gone;
	}
	list_for_each (s, &c->streams, link) {
		s->proto_gone = true;
		if (!s->in_end || !s->out_done)
			http_stream_cut(s, e);
	}
}

void http_conn_fail(struct http_conn *c, const struct err *e)
{
	if (c->state == HTTP_CLOSED)
		return;
	keep_error(c, e);
	buf_clear(&c->out);
	close_io(c);
	cut_streams(c, e);
}

void http_conn_finish(struct http_conn *c, const struct err *e)
{
	if (c->state != HTTP_OPEN)
		return;
	keep_error(c, e);
	c->state = HTTP_CLOSING;
	c->deadline_ms = loop_now_ms(c->loop) + HTTP_CLOSE_MS;
	cut_streams(c, e);
	http_conn_kick(c);
}

/* Everything but the memory; the user may have asked for it in a callback. */
static void release(struct http_conn *c)
{
	c->dead = true;
	loop_io_del(&c->io);
	loop_timer_del(&c->timer);
	loop_defer_del(&c->defer);
	c->fd = fd_close(c->fd);
	c->transport = NULL;
	c->state = HTTP_CLOSED;
	if (c->proto)
		c->proto->free(c);
	buf_fini(&c->out);
	if (c->server)
		http_server_forget(c);
}

static void closed(struct http_conn *c)
{
	struct err e = c->err;

	release(c);
	if (c->ops->on_close)
		c->ops->on_close(c, e.code ? &e : NULL);
}

struct http_conn *http_conn_free(struct http_conn *c)
{
	struct http_stream *s;
	struct err e = { 0 };

	if (!c || c->dead)
		return NULL;
	c->dead = true;
	err_set(&e, -ECONNABORTED, ERR_UNAVAILABLE,
		"the HTTP connection was closed by this side");
	c->busy++;
	/* all of them first: a callback may touch its neighbours */
	list_for_each (s, &c->streams, link)
		http_stream_cut(s, &e);
	while (!list_empty(&c->streams)) {
		s = list_entry(list_first(&c->streams), struct http_stream,
			       link);
		s->busy++;
		http_stream_drop(s);
		if (s->collect)
			http_collect_close(s, s->cut ? s->err : NULL);
		if (s->handler)
			s->handler->on_close(s, s->cut ? s->err : NULL);
		s->busy--;
		if (!s->busy)
			http_stream_drop(s);
	}
	release(c);
	c->busy--;
	if (!c->busy)
		free(c);
	return NULL;
}

/* ---- input ---- */

static int start(struct http_conn *c, enum http_version v)
{
	c->version = v;
	c->head_ms = 0;
	if (v == HTTP_2)
		http2_start(c);
	else
		http1_start(c);
	return 0;
}

static int sniff(struct http_conn *c, const uint8_t *p, size_t n, struct err *e)
{
	size_t take = HTTP_SNIFF_MAX - c->n_sniff;
	int r = 0;

	if (take > n)
		take = n;
	memcpy(c->sniff + c->n_sniff, p, take);
	c->n_sniff += take;
	if (!c->head_ms)
		c->head_ms = loop_now_ms(c->loop);
	if (memcmp(c->sniff, preface, c->n_sniff) != 0)
		start(c, HTTP_1_1);
	else if (c->n_sniff == HTTP_SNIFF_MAX)
		start(c, HTTP_2);
	else
		return 0;
	r = c->proto->input(c, c->sniff, c->n_sniff, e);
	if (r == 0 && n > take && c->state == HTTP_OPEN)
		r = c->proto->input(c, p + take, n - take, e);
	return r;
}

static size_t room(const struct http_conn *c)
{
	if (c->state == HTTP_LINGER)
		return HTTP_READ_MAX;
	if (c->state != HTTP_OPEN || c->eof)
		return 0;
	/* HTTP/1 must be able to take what was read while sniffing */
	return c->proto ? c->proto->room(c) : HTTP_READ_MAX / 2;
}

static void on_eof(struct http_conn *c)
{
	c->eof = true;
	if (c->state == HTTP_LINGER)
		close_io(c);
	else if (c->proto)
		c->proto->eof(c);
	else
		http_conn_fail(c, NULL);
}

/* A socket's error. One that nothing was waiting for is how a peer leaves. */
static void io_failed(struct http_conn *c, int errnum, const char *doing)
{
	struct err e = { 0 };

	err_errno(&e, errnum, "%s the HTTP peer", doing);
	if (!c->n_streams && (errnum == ECONNRESET || errnum == EPIPE))
		http_conn_fail(c, NULL);
	else
		http_conn_fail(c, &e);
}

static ssize_t read_some(struct http_conn *c, uint8_t *p, size_t n)
{
	ssize_t r;

	if (c->transport)
		return c->transport->read(c->transport, p, n);
	do {
		r = recv(c->fd, p, n, MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* One read; false when there is no use in another. */
static bool read_once(struct http_conn *c)
{
	/* Used between a read and the protocol's input only, so that one per
	 * thread is enough. */
	static _Thread_local uint8_t scratch[HTTP_READ_MAX];
	struct err e = { 0 };
	size_t want = room(c), got;
	ssize_t n;

	if (want > sizeof(scratch))
		want = sizeof(scratch);
	if (want == 0)
		return false;
	n = read_some(c, scratch, want);
	if (n == -EAGAIN) {
		c->try_read = false;
		return false;
	}
	if (n < 0) {
		io_failed(c, (int)-n, "read from");
		return false;
	}
	if (n == 0) {
		on_eof(c);
		return false;
	}
	got = (size_t)n;
	if (c->state == HTTP_LINGER)
		return true;
	if (c->proto)
		n = c->proto->input(c, scratch, (size_t)n, &e);
	else
		n = sniff(c, scratch, (size_t)n, &e);
	if (n < 0)
		http_conn_fail(c, &e);
	/* a short read emptied the socket: epoll tells of the next bytes */
	return n >= 0 && (got == want || c->transport);
}

/* ---- output ---- */

static ssize_t write_some(struct http_conn *c)
{
	ssize_t r;

	if (c->transport)
		return c->transport->write(c->transport, buf_data(&c->out),
					   buf_len(&c->out));
	do {
		r = send(c->fd, buf_data(&c->out), buf_len(&c->out),
			 MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static void flush(struct http_conn *c)
{
	for (int i = 0; i < WRITES_MAX; i++) {
		ssize_t n;

		if (c->state == HTTP_CLOSED || c->state == HTTP_LINGER)
			return;
		if (c->proto)
			c->proto->pump(c);
		if (c->state == HTTP_CLOSED || c->blocked || !buf_len(&c->out))
			return;
		n = write_some(c);
		if (n == -EAGAIN || n == 0) {
			c->blocked = true;
			return;
		}
		if (n < 0) {
			io_failed(c, (int)-n, "write to");
			return;
		}
		buf_consume(&c->out, (size_t)n);
		c->sent += (uint64_t)n;
	}
	http_conn_kick(c);
}

/* ---- timers ---- */

static void on_timer(struct loop_timer *t);

static uint64_t later(uint64_t at_ms, uint64_t delay_ms)
{
	return delay_ms > HTTP_NEVER - at_ms ? HTTP_NEVER : at_ms + delay_ms;
}

static uint64_t idle_deadline(const struct http_conn *c)
{
	if (c->n_streams || c->draining)
		return HTTP_NEVER;
	return later(c->idle_ms, c->lim.idle_timeout_ms);
}

static uint64_t head_deadline(const struct http_conn *c)
{
	return c->head_ms ? later(c->head_ms, c->lim.head_timeout_ms)
			  : HTTP_NEVER;
}

static uint64_t ping_deadline(const struct http_conn *c)
{
	if (!c->lim.ping || !c->proto || !c->proto->ping)
		return HTTP_NEVER;
	return later(c->ping_ms, http_ping_interval_ms);
}

/* Deadlines move away all the time, so the timer is only ever brought forward,
 * and looks again when it fires early. */
static void arm_timer(struct http_conn *c)
{
	uint64_t at = c->deadline_ms, now = loop_now_ms(c->loop);

	if (c->state == HTTP_OPEN) {
		if (!c->watch_ms)
			c->watch_ms = later(now, http_watch_interval(c));
		at = idle_deadline(c);
		if (c->watch_ms == HTTP_NEVER)
			c->watch_ms = 0;
		else if (c->watch_ms < at)
			at = c->watch_ms;
		if (head_deadline(c) < at)
			at = head_deadline(c);
		if (ping_deadline(c) < at)
			at = ping_deadline(c);
	}
	if (c->state == HTTP_CLOSED || at == HTTP_NEVER)
		loop_timer_del(&c->timer);
	else if (!c->timer.loop || c->timer.at_ms > at)
		loop_timer_set(c->loop, &c->timer, at > now ? at - now : 0,
			       on_timer);
}

static void on_ping_due(struct http_conn *c, uint64_t now)
{
	struct err e = { 0 };

	if (c->pings >= HTTP_PING_MISSED) {
		err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
			"the HTTP peer did not answer %u pings", c->pings);
		http_conn_fail(c, &e);
		return;
	}
	c->pings++;
	c->ping_ms = now;
	c->proto->ping(c);
}

static void on_head_late(struct http_conn *c)
{
	struct err e = { 0 };

	c->head_ms = 0;
	if (c->proto) {
		c->proto->head_timeout(c);
		return;
	}
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT, "no request in time");
	http_conn_fail(c, &e);
}

/* ---- turns ---- */

static void on_io(struct loop_io *io, unsigned events);

static void arm_io(struct http_conn *c)
{
	unsigned events = 0;

	if (c->fd < 0)
		return;
	if (room(c))
		events |= LOOP_IN;
	if (c->blocked && buf_len(&c->out))
		events |= LOOP_OUT;
	if (c->io.loop)
		loop_io_set(&c->io, events);
	else if (events && loop_io_add(c->loop, &c->io, c->fd, events, on_io))
		http_conn_fail(c, NULL); /* no socket, or no memory */
}

static void settle(struct http_conn *c)
{
	if (c->shut_due && c->state == HTTP_OPEN && !buf_len(&c->out)) {
		c->shut_due = false;
		if (c->fd >= 0)
			(void)shutdown(c->fd, SHUT_WR);
	}
	if (c->state == HTTP_OPEN && c->draining && !c->n_streams)
		http_conn_finish(c, NULL);
	else if (c->state == HTTP_CLOSING && !buf_len(&c->out)) {
		if (c->is_server && c->fd >= 0 && !c->eof &&
		    shutdown(c->fd, SHUT_WR) == 0) {
			c->state = HTTP_LINGER;
			c->deadline_ms = loop_now_ms(c->loop) + HTTP_LINGER_MS;
		} else {
			close_io(c);
		}
	}
	if (c->state == HTTP_CLOSED && !c->n_streams) {
		closed(c);
		return;
	}
	arm_io(c);
	arm_timer(c);
	if (!list_empty(&c->ready))
		http_conn_kick(c);
}

static void turn(struct http_conn *c, bool readable)
{
	c->busy++;
	for (int i = 0; readable && i < READS_MAX; i++)
		readable = read_once(c);
	if (readable && c->transport)
		http_conn_kick(c); /* nobody else would tell us of the rest */
	for (int i = 0; !c->dead && !list_empty(&c->ready) && i < DISPATCH_MAX;
	     i++)
		http_stream_dispatch(list_entry(list_first(&c->ready),
						struct http_stream, ready));
	if (!c->dead)
		flush(c);
	if (!c->dead)
		settle(c);
	c->busy--;
	if (c->dead && !c->busy)
		free(c);
}

/* Switched, the peer left, and nothing that he sent is left to be read. */
static bool hopeless(const struct http_conn *c)
{
	struct http_stream *s;

	list_for_each (s, &c->streams, link) {
		if (!s->in_end || s->out_done)
			return false;
	}
	return true;
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct http_conn *c = container_of(io, struct http_conn, io);
	bool paused = !(io->events & LOOP_IN);

	if (events & (LOOP_OUT | LOOP_HUP))
		c->blocked = false;
	if ((events & LOOP_HUP) && paused) {
		/* A server has nobody left to answer. A client, or either after
		 * a switch, may still have bytes in the socket or unread here,
		 * but must not be told again; who writes gets EPIPE. */
		if (c->switched ? hopeless(c) : c->is_server || c->eof)
			http_conn_fail(c, NULL);
		else
			loop_io_del(io);
	}
	turn(c, events & (LOOP_IN | LOOP_HUP));
}

static void on_defer(struct loop_defer *d)
{
	struct http_conn *c = container_of(d, struct http_conn, defer);

	turn(c, c->try_read);
}

static void on_timer(struct loop_timer *t)
{
	struct http_conn *c = container_of(t, struct http_conn, timer);
	uint64_t now = loop_now_ms(c->loop);

	if (c->state == HTTP_CLOSING || c->state == HTTP_LINGER) {
		if (now >= c->deadline_ms)
			http_conn_fail(c, NULL);
	} else if (c->state == HTTP_CLOSED) {
		return;
	} else if (c->watch_ms && now >= c->watch_ms) {
		c->watch_ms = 0;
		http_watch_look(c);
	} else if (now >= head_deadline(c)) {
		on_head_late(c);
	} else if (now >= ping_deadline(c)) {
		on_ping_due(c, now);
	} else if (now >= idle_deadline(c)) {
		http_conn_drain(c);
	}
	turn(c, false);
}

void http_conn_kick(struct http_conn *c)
{
	if (!c->dead && !c->defer.loop)
		loop_defer_add(c->loop, &c->defer, on_defer);
}

/* ---- the public side ---- */

/* strangers: whoever may connect, not only our own programs */
static void set_limits(struct http_conn *c, const struct http_limits *lim,
		       bool strangers)
{
	struct http_limits *l = &c->lim;

	if (lim)
		*l = *lim;
	if (!l->head_bytes)
		l->head_bytes = 32768;
	if (!l->fields)
		l->fields = 100;
	if (!l->streams)
		l->streams = 256;
	if (!l->window)
		l->window = HTTP_IN_MAX;
	/* a peer may send HTTP_IN_MAX before it knows our window */
	CHECK(l->window >= HTTP_IN_MAX && l->window <= HTTP_WINDOW_MAX);
	if (!l->head_timeout_ms)
		l->head_timeout_ms = 10000;
	if (!l->idle_timeout_ms)
		l->idle_timeout_ms =
		    c->is_server && c->fd >= 0 ? 75000 : HTTP_NEVER;
	if (!l->body_timeout_ms)
		l->body_timeout_ms = strangers ? 30000 : HTTP_NEVER;
	if (!l->write_timeout_ms)
		l->write_timeout_ms = strangers ? 60000 : HTTP_NEVER;
}

/* Is it a TCP socket? */
static bool set_options(int fd)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	socklen_t n = sizeof(a);
	int one = 1, flags = fcntl(fd, F_GETFL);

	(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 ||
	    (a.ss_family != AF_INET && a.ss_family != AF_INET6))
		return false;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	return true;
}

static struct http_conn *conn_new(struct loop *l, int fd,
				  struct http_transport *t, bool is_server,
				  enum http_version v,
				  const struct http_limits *lim,
				  const struct http_conn_ops *ops, void *owner)
{
	struct http_conn *c = xnew(struct http_conn);
	bool tcp = fd >= 0 && set_options(fd);

	CHECK(is_server ? ops->on_request != NULL : v != HTTP_AUTO);
	c->loop = l;
	c->fd = fd;
	c->transport = t;
	c->is_server = is_server;
	c->ops = ops;
	c->owner = owner;
	list_init(&c->streams);
	list_init(&c->ready);
	list_init(&c->server_link);
	buf_init(&c->out, 0);
	set_limits(c, lim, tcp && is_server);
	c->idle_ms = c->ping_ms = loop_now_ms(l);
	c->try_read = t != NULL;
	if (v != HTTP_AUTO)
		start(c, v);
	http_conn_kick(c);
	return c;
}

struct http_conn *http_conn_server_take(struct loop *l, int fd,
					enum http_version v,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner)
{
	return conn_new(l, fd, NULL, true, v, lim, ops, owner);
}

struct http_conn *http_conn_client_take(struct loop *l, int fd,
					enum http_version v,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner)
{
	return conn_new(l, fd, NULL, false, v, lim, ops, owner);
}

struct http_conn *http_conn_server_over(struct loop *l,
					struct http_transport *t,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner)
{
	return conn_new(l, -1, t, true, HTTP_2, lim, ops, owner);
}

struct http_conn *http_conn_client_over(struct loop *l,
					struct http_transport *t,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner)
{
	return conn_new(l, -1, t, false, HTTP_2, lim, ops, owner);
}

struct http_conn *http_conn_over(struct loop *l, struct http_transport *t,
				 bool is_server, enum http_version v,
				 const struct http_conn_ops *ops, void *owner)
{
	return conn_new(l, -1, t, is_server, v, NULL, ops, owner);
}

void http_conn_ready(struct http_conn *c)
{
	c->try_read = c->transport != NULL;
	c->blocked = false;
	http_conn_kick(c);
}

void *http_conn_owner(const struct http_conn *c)
{
	return c->owner;
}

int http_conn_fd(const struct http_conn *c)
{
	return c->fd;
}

size_t http_conn_streams(const struct http_conn *c)
{
	return c->n_streams;
}

void http_conn_drain(struct http_conn *c)
{
	if (c->draining || c->dead)
		return;
	c->draining = true;
	if (c->proto && c->state == HTTP_OPEN)
		c->proto->drain(c);
	http_conn_kick(c);
}

static int unavailable(struct err *e, const char *why)
{
	return err_set(e, -EAGAIN, ERR_UNAVAILABLE, "HTTP connection: %s", why);
}

static struct http_stream *request(struct http_conn *c,
				   const struct http_head *head, bool body,
				   const char *upgrade,
				   const struct http_handler *h, void *owner,
				   struct err *e)
{
	struct http_stream *s;

	CHECK(!c->is_server && head->method && head->path);
	if (c->dead || c->state != HTTP_OPEN || c->draining || c->eof) {
		unavailable(e, "it is closed or closing; connect again");
		return NULL;
	}
	if (c->n_streams >= c->lim.streams) {
		unavailable(e, "all its streams are in use; try later");
		return NULL;
	}
	s = http_stream_new(c);
	s->handler = h;
	s->owner = owner;
	s->head_request = !strcmp(head->method, "HEAD");
	s->out_begun = true;
	s->out_end = !body;
	s->upgrade = upgrade ? xstrdup(upgrade) : NULL;
	s->out_length = body ? http_head_length(head) : -1;
	if (c->proto->request(s, head, body, e) < 0) {
		http_stream_drop(s);
		return NULL;
	}
	http_conn_kick(c);
	return s;
}

struct http_stream *http_conn_request(struct http_conn *c,
				      const struct http_head *head, bool body,
				      const struct http_handler *h, void *owner,
				      struct err *e)
{
	return request(c, head, body, NULL, h, owner, e);
}

struct http_stream *http_conn_switch(struct http_conn *c,
				     const struct http_head *head,
				     const char *protocol,
				     const struct http_handler *h, void *owner,
				     struct err *e)
{
	CHECK(strlen(protocol) <= HTTP1_UPGRADE_MAX &&
	      http1_is_token(protocol, strlen(protocol)));
	if (c->proto && !c->proto->switch_over) {
		unavailable(e, "HTTP/2 cannot switch protocols; connect with "
			       "HTTP/1.1");
		return NULL;
	}
	return request(c, head, false, protocol, h, owner, e);
}
