/* SPDX-License-Identifier: Apache-2.0 */

/* Tunnels to a port of the loopback. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-files_rig.h"

static int listen_at(bool v6, int *ret_port)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *a = v6 ? (void *)&a6 : (void *)&a4;
	socklen_t n = v6 ? sizeof(a6) : sizeof(a4);
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, a, n) < 0)
		test_skip("no such loopback here");
	T_INT(listen(fd, 8), 0);
	T_INT(getsockname(fd, a, &n), 0);
	*ret_port = ntohs(v6 ? a6.sin6_port : a4.sin_port);
	return fd;
}

static struct http_stream *begin(int port)
{
	struct http_head head;
	struct err e = { 0 };

	http_head_init(&head);
	head.method = xstrdup("POST");
	head.path = xasprintf("/v1/tunnel?port=%d", port);
	head.authority = xstrdup("guest");
	p = (struct rig_reply){ .rig = &r };
	p.stream =
	    http_conn_request(r.conn, &head, true, rig_handler(), &p, &e);
	http_head_fini(&head);
	T_TRUE(p.stream != NULL);
	return p.stream;
}

static void until_status(void)
{
	for (int i = 0; i < 6000 && !p.status && !p.closed; i++)
		rig_run(&r, 10, NULL);
}

static int accept_one(int fd)
{
	for (int i = 0; i < 6000; i++) {
		struct pollfd poll_fd = { fd, POLLIN, 0 };

		rig_run(&r, 10, NULL);
		if (poll(&poll_fd, 1, 0) == 1)
			return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	}
	return -1;
}

static void get_bytes(int fd, char *to, size_t n)
{
	size_t have = 0;

	for (int i = 0; i < 6000 && have < n; i++) {
		ssize_t k;

		rig_run(&r, 5, NULL);
		k = recv(fd, to + have, n - have, MSG_DONTWAIT);
		if (k > 0)
			have += (size_t)k;
	}
	T_INT(have, n);
}

static void until_body(size_t n)
{
	for (int i = 0; i < 6000 && buf_len(&p.body) < n; i++)
		rig_run(&r, 10, &p.closed);
	T_TRUE(buf_len(&p.body) >= n);
}

TEST(bytes_go_both_ways_and_ends_apart)
{
	int port;
	owned_fd lis = listen_at(false, &port);
	owned_fd fd = -1;
	struct http_stream *s;
	char text[8] = "";

	guest_up(&r);
	s = begin(port);
	fd = accept_one(lis);
	until_status();
	T_INT(p.status, 200);
	T_INT(http_stream_write(s, "ping", 4), 4);
	get_bytes(fd, text, 4);
	T_STR(text, "ping");
	T_INT(send(fd, "pong", 4, 0), 4);
	until_body(4);
	T_STR(buf_cstr(&p.body), "pong");
	/* our end first: the port still speaks */
	http_stream_end(s);
	for (int i = 0; i < 1000; i++) {
		rig_run(&r, 10, NULL);
		if (recv(fd, text, 1, MSG_DONTWAIT) == 0)
			break;
		T_TRUE(i < 999);
	}
	T_INT(send(fd, "last", 4, 0), 4);
	until_body(8);
	fd = fd_close(fd);
	T_TRUE(rig_finish(&p));
	T_TRUE(!p.cut);
	T_STR(buf_cstr(&p.body), "ponglast");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(port_that_ends_first_still_hears)
{
	int port;
	owned_fd lis = listen_at(false, &port);
	owned_fd fd = -1;
	struct http_stream *s;
	char text[8] = "";

	guest_up(&r);
	s = begin(port);
	fd = accept_one(lis);
	until_status();
	T_INT(send(fd, "bye", 3, 0), 3);
	T_INT(shutdown(fd, SHUT_WR), 0);
	until_body(3);
	rig_run(&r, 50, NULL);
	T_INT(http_stream_write(s, "more", 4), 4);
	get_bytes(fd, text, 4);
	T_STR(text, "more");
	http_stream_end(s);
	T_TRUE(rig_finish(&p));
	T_TRUE(!p.cut);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(port_that_is_gone_lets_the_client_end)
{
	int port;
	owned_fd lis = listen_at(false, &port);
	owned_fd fd = -1;
	struct http_stream *s;
	static const char text[100000];
	size_t sent = 0;

	guest_up(&r);
	s = begin(port);
	fd = accept_one(lis);
	until_status();
	fd = fd_close(fd);
	rig_run(&r, 50, NULL);
	while (sent < sizeof(text) && !p.closed) {
		sent += http_stream_write(s, text + sent, sizeof(text) - sent);
		rig_run(&r, 20, &p.closed);
	}
	if (!p.closed)
		http_stream_end(s);
	T_TRUE(rig_finish(&p));
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(second_family)
{
	int port;
	owned_fd lis = listen_at(true, &port);
	owned_fd fd = -1;

	guest_up(&r);
	(void)begin(port);
	fd = accept_one(lis);
	T_TRUE(fd >= 0);
	until_status();
	T_INT(p.status, 200);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(nobody_listens)
{
	int port;
	owned_fd lis = listen_at(false, &port);

	guest_up(&r);
	lis = fd_close(lis);
	http_stream_end(begin(port));
	T_TRUE(rig_finish(&p));
	T_INT(p.status, 502);
	T_STR(error_code(&p), "port_closed");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(ports_that_are_none)
{
	static const char *const bad[] = {
		"", "?port=0", "?port=65536", "?port=-1", "?port=80x", "?port="
	};

	guest_up(&r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		owned_str path = xasprintf("/v1/tunnel%s", bad[i]);

		T_INT(rig_call(&r, &p, "POST", path, ""), 400);
		rig_reply_fini(&p);
	}
	T_INT(rig_call(&r, &p, "GET", "/v1/tunnel?port=80", NULL), 405);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(client_that_does_not_read_holds_the_port_back)
{
	int port;
	owned_fd lis = listen_at(false, &port);
	owned_fd fd = -1;
	static char text[65536];
	size_t sent = 0;
	ssize_t n;

	guest_up(&r);
	(void)begin(port);
	p.body_max = 1;
	fd = accept_one(lis);
	until_status();
	for (int i = 0; i < 400; i++) {
		rig_run(&r, 5, NULL);
		while ((n = send(fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
			sent += (size_t)n;
	}
	/* what sockets and one window hold, not what the port would give */
	T_TRUE(sent < 32u << 20);
	rig_take(&p, 0);
	until_body(sent);
	T_INT(buf_len(&p.body), sent);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(large_transfer_arrives_whole)
{
	int port;
	owned_fd lis = listen_at(false, &port);
	owned_fd fd = -1;
	size_t n = 4u << 20, put = 0, got = 0;
	owned_str text = malloc(n);
	owned_str back = malloc(n);
	struct http_stream *s;

	random_bytes(text, n);
	guest_up(&r);
	s = begin(port);
	fd = accept_one(lis);
	until_status();
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	while (got < n) {
		ssize_t k;

		if (put < n)
			put += http_stream_write(s, text + put, n - put);
		rig_run(&r, 1, NULL);
		while ((k = read(fd, back + got, n - got)) > 0)
			got += (size_t)k;
	}
	T_TRUE(memcmp(text, back, n) == 0);
	rig_reply_fini(&p);
	rig_fini(&r);
}
