/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http_int.h"

#define ACCEPTS_MAX 32	/* per round, for the loop's other sources */
#define RETRY_MS    100 /* after a lack of descriptors or memory */

struct http_server {
	struct loop *loop;
	struct loop_io io;
	struct loop_timer retry;
	struct loop_defer defer;
	int fd;
	enum http_version version;
	struct http_limits lim;
	const struct http_conn_ops *ops;
	void *owner;
	struct list conns;
	unsigned n_conns, max_conns, max_per_peer;
	bool stopped;
	bool told;
	void (*on_drained)(void *owner);
};

static void on_accept(struct loop_io *io, unsigned events);

/* Listen while there is room; who comes meanwhile waits in the backlog. */
static void arm(struct http_server *s)
{
	bool want = !s->stopped && s->n_conns < s->max_conns && !s->retry.loop;

	if (want && !s->io.loop)
		(void)loop_io_add(s->loop, &s->io, s->fd, LOOP_IN, on_accept);
	else if (!want)
		loop_io_del(&s->io);
}

static void on_retry(struct loop_timer *t)
{
	arm(container_of(t, struct http_server, retry));
}

/* What one party surely holds: an IPv4 address, or a /64 of IPv6, which is what
 * a single subscriber gets. false if it is no IP socket. */
static bool party_of(const struct sockaddr_storage *a, uint8_t ret[16])
{
	const struct sockaddr_in6 *in6 = (const void *)a;
	const struct sockaddr_in *in = (const void *)a;

	memset(ret, 0, 16);
	if (a->ss_family == AF_INET)
		memcpy(ret + 12, &in->sin_addr, 4);
	else if (a->ss_family != AF_INET6)
		return false;
	else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		memcpy(ret + 12, in6->sin6_addr.s6_addr + 12, 4);
	else
		memcpy(ret, &in6->sin6_addr, 8);
	return true;
}

static unsigned count_of(const struct http_server *s, const uint8_t party[16])
{
	struct http_conn *c;
	unsigned n = 0;

	list_for_each (c, &s->conns, server_link)
		n += !memcmp(c->peer, party, 16);
	return n;
}

/* Nobody waits for him: what does not fit the empty socket is not said. */
static void turn_away(int fd)
{
	char id[HTTP_REQUEST_ID_MAX];
	struct http_head h;
	owned_str text = NULL;
	struct buf out;

	http_request_id(id);
	text = http_refusal_text(429, "too many connections from your address",
				 id);
	http_refusal_head(&h, 429, strlen(text), id);
	buf_init(&out, 0);
	if (http1_put_response(&out, &h, HTTP1_NONE, true) == 0 &&
	    buf_puts(&out, text) == 0)
		(void)send(fd, buf_data(&out), buf_len(&out),
			   MSG_DONTWAIT | MSG_NOSIGNAL);
	buf_fini(&out);
	http_head_fini(&h);
	(void)shutdown(fd, SHUT_WR);
	fd_close(fd);
}

static void take(struct http_server *s, int fd,
		 const struct sockaddr_storage *from)
{
	uint8_t party[16];
	struct http_conn *c;

	if (party_of(from, party) && count_of(s, party) >= s->max_per_peer) {
		turn_away(fd);
		return;
	}
	c = http_conn_server_take(s->loop, fd, s->version, &s->lim, s->ops,
				  s->owner);
	memcpy(c->peer, party, sizeof(c->peer));
	c->server = s;
	list_add_tail(&s->conns, &c->server_link);
	s->n_conns++;
}

static void on_accept(struct loop_io *io, unsigned events)
{
	struct http_server *s = container_of(io, struct http_server, io);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX && s->n_conns < s->max_conns; i++) {
		struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
		socklen_t n = sizeof(from);
		int fd = accept4(s->fd, (struct sockaddr *)&from, &n,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED ||
			       errno == EINTR))
			break;
		if (fd < 0) {
			/* level-triggered: it would fail again at once */
			loop_timer_set(s->loop, &s->retry, RETRY_MS, on_retry);
			break;
		}
		take(s, fd, &from);
	}
	arm(s);
}

static void on_defer(struct loop_defer *d)
{
	struct http_server *s = container_of(d, struct http_server, defer);

	if (s->told || s->n_conns)
		return;
	s->told = true;
	if (s->on_drained)
		s->on_drained(s->owner);
}

static void check_drained(struct http_server *s)
{
	if (s->stopped && !s->n_conns && !s->told && !s->defer.loop)
		loop_defer_add(s->loop, &s->defer, on_defer);
}

void http_server_forget(struct http_conn *c)
{
	struct http_server *s = TAKE(c->server);

	list_del(&c->server_link);
	s->n_conns--;
	arm(s);
	check_drained(s);
}

struct http_server *http_server_new_take(struct loop *l, int listen_fd,
					 enum http_version v,
					 const struct http_limits *lim,
					 const struct http_conn_ops *ops,
					 void *owner)
{
	struct http_server *s = xnew(struct http_server);

	s->loop = l;
	s->fd = listen_fd;
	s->version = v;
	if (lim)
		s->lim = *lim;
	s->max_conns = s->lim.conns ? s->lim.conns : 1024;
	s->max_per_peer = s->lim.conns_per_peer ? s->lim.conns_per_peer
						: s->max_conns / 4 + 1;
	s->ops = ops;
	s->owner = owner;
	list_init(&s->conns);
	(void)fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
	arm(s);
	return s;
}

void http_server_stop(struct http_server *s, void (*on_drained)(void *owner))
{
	struct http_conn *c;

	if (s->stopped)
		return;
	s->stopped = true;
	s->on_drained = on_drained;
	loop_timer_del(&s->retry);
	arm(s);
	s->fd = fd_close(s->fd);
	list_for_each (c, &s->conns, server_link)
		http_conn_drain(c);
	check_drained(s);
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	s->stopped = true;
	s->told = true;
	loop_timer_del(&s->retry);
	loop_io_del(&s->io);
	loop_defer_del(&s->defer);
	s->fd = fd_close(s->fd);
	while (!list_empty(&s->conns)) {
		struct http_conn *c = list_entry(list_first(&s->conns),
						 struct http_conn, server_link);

		/* out of the list first: it may be freeing itself already */
		list_del(&c->server_link);
		c->server = NULL;
		http_conn_free(c);
	}
	free(s);
	return NULL;
}
