/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "net/http_int.h"
#include "net/test-peer.h"

/* A server on a socket; p.client is connected by hand. */
struct srv {
	struct peer p;
	struct http_server *s;
	char path[108];
	unsigned drained;
	bool free_in_drained;
};

/* on_drained gets the server's owner, which is the peer */
static struct srv *current;

static void on_client_close(struct http_conn *c, const struct err *e)
{
	struct peer *p = http_conn_owner(c);

	(void)e;
	p->client_closed++;
	if (p->client == c)
		p->client = NULL;
}

static const struct http_conn_ops client_ops = {
	.on_close = on_client_close,
};

static void srv_init(struct srv *t, const struct http_limits *lim)
{
	struct err e = { 0 };
	int fd;

	memset(t, 0, sizeof(*t));
	current = t;
	t->p.l = loop_new();
	snprintf(t->path, sizeof(t->path), "%s/s", test_tmpdir());
	fd = unix_listen(t->path, SOCK_STREAM, 0600, &e);
	T_TRUE(fd >= 0);
	t->s = http_server_new_take(t->p.l, fd, HTTP_AUTO, lim,
				    &peer_server_ops, &t->p);
}

static struct http_conn *srv_connect(struct srv *t, enum http_version v)
{
	struct err e = { 0 };
	int fd = unix_connect(t->path, SOCK_STREAM, &e);

	T_TRUE(fd >= 0);
	return http_conn_client_take(t->p.l, fd, v, NULL, &client_ops, &t->p);
}

static void srv_fini(struct srv *t)
{
	t->s = http_server_free(t->s);
	peer_fini(&t->p);
	current = NULL;
}

static void on_drained(void *owner)
{
	T_TRUE(owner == &current->p);
	current->drained++;
	if (current->free_in_drained)
		current->s = http_server_free(current->s);
}

BOTH(server_answers)
{
	struct srv t;
	struct ask a = { 0 };

	srv_init(&t, NULL);
	t.p.client = srv_connect(&t, v);
	ask_start(&t.p, &a, "GET", "/hello", 0);
	T_WAIT(&t.p, a.closes);
	T_STR(a.text, "hello");
	srv_fini(&t);
}

BOTH(freeing_a_server_frees_its_connections)
{
	struct srv t;
	struct ask a = { 0 };

	srv_init(&t, NULL);
	t.p.client = srv_connect(&t, v);
	ask_start(&t.p, &a, "GET", "/stuck", 0);
	T_WAIT(&t.p, t.p.app.stuck);
	t.s = http_server_free(t.s);
	T_INT(t.p.app.closed_err, 1);
	T_WAIT(&t.p, t.p.client_closed);
	T_INT(a.cut, 1);
	srv_fini(&t);
}

BOTH(stopping_a_server_drains_it)
{
	struct srv t;
	struct ask a = { 0 };

	srv_init(&t, NULL);
	t.p.client = srv_connect(&t, v);
	ask_start(&t.p, &a, "GET", "/stuck", 0);
	T_WAIT(&t.p, t.p.app.stuck);
	http_server_stop(t.s, on_drained);
	peer_spin(&t.p, 10);
	T_INT(t.drained, 0);
	app_unstick(&t.p);
	T_WAIT(&t.p, t.drained);
	T_STR(a.text, "hello");
	T_INT(a.cut, 0);
	peer_spin(&t.p, 5);
	T_INT(t.drained, 1);
	srv_fini(&t);
}

TEST(stopping_an_idle_server_tells_from_the_loop)
{
	struct srv t;

	srv_init(&t, NULL);
	http_server_stop(t.s, on_drained);
	T_INT(t.drained, 0);
	T_WAIT(&t.p, t.drained);
	srv_fini(&t);
}

TEST(a_server_may_be_freed_when_it_is_drained)
{
	struct srv t;
	struct ask a = { 0 };

	srv_init(&t, NULL);
	t.free_in_drained = true;
	t.p.client = srv_connect(&t, HTTP_2);
	ask_start(&t.p, &a, "GET", "/hello", 0);
	T_WAIT(&t.p, a.closes);
	http_server_stop(t.s, on_drained);
	T_WAIT(&t.p, t.drained);
	T_TRUE(!t.s);
	srv_fini(&t);
}

TEST(a_stopped_server_does_not_accept)
{
	struct err e = { 0 };
	struct srv t;

	srv_init(&t, NULL);
	http_server_stop(t.s, NULL);
	T_TRUE(unix_connect(t.path, SOCK_STREAM, &e) < 0);
	srv_fini(&t);
}

TEST(a_full_server_lets_others_wait)
{
	struct http_limits lim = { .conns = 1 };
	struct ask a = { 0 }, b = { 0 };
	struct http_conn *first;
	struct srv t;

	srv_init(&t, &lim);
	first = t.p.client = srv_connect(&t, HTTP_1_1);
	ask_start(&t.p, &a, "GET", "/hello", 0);
	T_WAIT(&t.p, a.closes);
	t.p.client = srv_connect(&t, HTTP_1_1);
	ask_start(&t.p, &b, "GET", "/hello", 0);
	peer_spin(&t.p, 20);
	T_INT(b.closes, 0);
	http_conn_free(first);
	T_WAIT(&t.p, b.closes);
	T_STR(b.text, "hello");
	srv_fini(&t);
}

TEST(tcp_connections_do_not_delay)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a), n_on = sizeof(int);
	struct http_conn *c;
	struct ask k = { 0 };
	struct peer p = { 0 };
	int lfd, fd, on = 0;
	struct http_server *s;

	lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	T_INT(bind(lfd, (struct sockaddr *)&a, sizeof(a)), 0);
	T_INT(listen(lfd, 8), 0);
	T_INT(getsockname(lfd, (struct sockaddr *)&a, &n), 0);
	p.l = loop_new();
	s = http_server_new_take(p.l, lfd, HTTP_AUTO, NULL, &peer_server_ops,
				 &p);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	T_INT(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	c = p.client =
	    http_conn_client_take(p.l, fd, HTTP_2, NULL, &client_ops, &p);
	T_INT(getsockopt(http_conn_fd(c), IPPROTO_TCP, TCP_NODELAY, &on, &n_on),
	      0);
	T_TRUE(on);
	ask_start(&p, &k, "POST", "/echo", 3000000);
	T_WAIT(&p, k.closes);
	T_INT(k.got, 3000000);
	T_INT(k.bad, 0);
	http_server_free(s);
	peer_fini(&p);
}

TEST(many_connections_come_and_go)
{
	struct srv t;

	srv_init(&t, NULL);
	for (int i = 0; i < 200; i++) {
		struct ask a = { 0 };

		t.p.client = srv_connect(&t, i % 2 ? HTTP_1_1 : HTTP_2);
		ask_start(&t.p, &a, "GET", "/hello", 0);
		T_WAIT(&t.p, a.closes);
		T_STR(a.text, "hello");
		t.p.client = http_conn_free(t.p.client);
	}
	T_INT(t.p.app.closed_ok, 200);
	srv_fini(&t);
}
