/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/wire.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/own.h"
#include "cli/client.h"

#define ROUND_MS  2u /* curl is asked so often while it connects */
#define PUMP_MAX  65536u
#define PUMP_TURN 16 /* pieces before others have their turn */

struct wire {
	struct loop *loop;
	CURLM *multi;
	CURL *easy;
	char problem[CURL_ERROR_SIZE];
	char *url;
	struct loop_timer round;
	void (*on_open)(void *arg, int fd, const struct err *e);
	void *arg;
	/* TLS only */
	struct loop_io near, far; /* socket pair, TLS connection */
	int near_fd;
	struct buf in, out; /* from the server, to it */
	bool in_ended;
	struct loop_defer again;
};

static void curl_end(struct wire *w)
{
	if (w->easy && w->multi)
		curl_multi_remove_handle(w->multi, w->easy);
	curl_easy_cleanup(w->easy);
	if (w->multi)
		curl_multi_cleanup(w->multi);
	w->easy = NULL;
	w->multi = NULL;
}

static void pump_end(struct wire *w)
{
	loop_io_del(&w->near);
	loop_io_del(&w->far);
	loop_defer_del(&w->again);
	w->near_fd = fd_close(w->near_fd);
	curl_end(w);
}

struct wire *wire_free(struct wire *w)
{
	if (!w)
		return NULL;
	loop_timer_del(&w->round);
	pump_end(w);
	buf_fini(&w->in);
	buf_fini(&w->out);
	free(w->url);
	free(w);
	return NULL;
}

/* ---- the pump ---- */

/* Bytes moved, 0 at the end, -EAGAIN or -EIO. */
static ssize_t tls_read(struct wire *w, void *p, size_t n)
{
	size_t got = 0;
	CURLcode res = curl_easy_recv(w->easy, p, n, &got);

	if (res == CURLE_AGAIN)
		return -EAGAIN;
	return res == CURLE_OK ? (ssize_t)got : -EIO;
}

static bool from_server(struct wire *w)
{
	bool moved = false;

	if (buf_len(&w->in) == 0 && !w->in_ended) {
		uint8_t *room = buf_reserve(&w->in, PUMP_MAX);
		ssize_t n = room ? tls_read(w, room, PUMP_MAX) : -EAGAIN;

		if (n > 0)
			buf_commit(&w->in, (size_t)n);
		if (n == 0 || n == -EIO) {
			w->in_ended = true;
			shutdown(w->near_fd, SHUT_WR);
		}
	}
	while (buf_len(&w->in) > 0) {
		ssize_t n = send(w->near_fd, buf_data(&w->in), buf_len(&w->in),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n <= 0)
			break;
		buf_consume(&w->in, (size_t)n);
		moved = true;
	}
	return moved;
}

/* False: our side has closed, or the server is gone. */
static bool to_server(struct wire *w, bool *moved)
{
	size_t sent;

	if (buf_len(&w->out) == 0) {
		uint8_t *room = buf_reserve(&w->out, PUMP_MAX);
		ssize_t n =
		    room ? recv(w->near_fd, room, PUMP_MAX, MSG_DONTWAIT) : -1;

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n > 0)
			buf_commit(&w->out, (size_t)n);
	}
	while (buf_len(&w->out) > 0) {
		CURLcode res = curl_easy_send(w->easy, buf_data(&w->out),
					      buf_len(&w->out), &sent);

		if (res == CURLE_AGAIN)
			break;
		if (res != CURLE_OK)
			return false;
		buf_consume(&w->out, sent);
		*moved = true;
	}
	return true;
}

static void on_again(struct loop_defer *d);

static void pump(struct wire *w)
{
	bool moved = true;

	for (int i = 0; i < PUMP_TURN && moved; i++) {
		moved = from_server(w);
		if (!to_server(w, &moved)) {
			pump_end(w);
			return;
		}
	}
	/* TLS may hold bytes that its descriptor does not show */
	if (moved)
		loop_defer_add(w->loop, &w->again, on_again);
	loop_io_set(&w->near, (buf_len(&w->in) ? LOOP_OUT : 0) |
				  (buf_len(&w->out) ? 0 : LOOP_IN));
	loop_io_set(&w->far, (buf_len(&w->in) || w->in_ended ? 0 : LOOP_IN) |
				 (buf_len(&w->out) ? LOOP_OUT : 0));
}

static void on_again(struct loop_defer *d)
{
	pump(container_of(d, struct wire, again));
}

static void on_near(struct loop_io *io, unsigned events)
{
	(void)events;
	pump(container_of(io, struct wire, near));
}

static void on_far(struct loop_io *io, unsigned events)
{
	struct wire *w = container_of(io, struct wire, far);

	/* a hang-up is reported for ever: read it to its end, then be deaf */
	if (events & LOOP_HUP && w->in_ended) {
		loop_io_del(io);
		return;
	}
	pump(w);
}

static int pump_start(struct wire *w, int tls_fd, int *ret_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       pair) < 0)
		return -errno;
	w->near_fd = pair[0];
	*ret_fd = pair[1];
	CHECK(loop_io_add(w->loop, &w->near, pair[0], LOOP_IN, on_near) == 0);
	CHECK(loop_io_add(w->loop, &w->far, tls_fd, LOOP_IN, on_far) == 0);
	loop_defer_add(w->loop, &w->again, on_again);
	return 0;
}

/* ---- connecting ---- */

static int fail(struct wire *w, CURLcode res, struct err *e)
{
	const char *why = w->problem[0] ? w->problem : curl_easy_strerror(res);

	if (res == CURLE_COULDNT_CONNECT)
		return err_set(e, -ECONNREFUSED, ERR_UNAVAILABLE,
			       "cannot reach %s: is it up? `caisson status`, "
			       "`sudo caisson up` (%s)",
			       w->url, why);
	if (res == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, -ETIMEDOUT, ERR_TIMEOUT,
			       "%s did not answer in time (%s)", w->url, why);
	return err_set(e, -EIO, ERR_UNAVAILABLE, "%s: %s", w->url, why);
}

static int opened(struct wire *w, struct err *e)
{
	curl_socket_t s = CURL_SOCKET_BAD;
	int fd = -1, r = 0;

	curl_easy_getinfo(w->easy, CURLINFO_ACTIVESOCKET, &s);
	if (s == CURL_SOCKET_BAD)
		return err_set(e, -EIO, ERR_UNAVAILABLE,
			       "%s: the connection was closed at once", w->url);
	if (!strncmp(w->url, "https:", 6))
		r = pump_start(w, (int)s, &fd);
	else if ((fd = fcntl((int)s, F_DUPFD_CLOEXEC, 0)) < 0)
		r = -errno;
	if (r < 0)
		return err_errno(e, -r, "%s", w->url);
	if (w->near_fd < 0)
		curl_end(w); /* the descriptor is all that is needed */
	return fd;
}

static void on_round(struct loop_timer *t)
{
	struct wire *w = container_of(t, struct wire, round);
	CURLcode res = CURLE_OK;
	struct err e = { 0 };
	bool done = false;
	int running = 0, left, fd;
	CURLMsg *m;

	if (curl_multi_perform(w->multi, &running) != CURLM_OK)
		res = CURLE_FAILED_INIT;
	while ((m = curl_multi_info_read(w->multi, &left))) {
		if (m->msg == CURLMSG_DONE) {
			done = true;
			res = m->data.result;
		}
	}
	if (!done && res == CURLE_OK) {
		loop_timer_set(w->loop, t, ROUND_MS, on_round);
		return;
	}
	fd = res == CURLE_OK ? opened(w, &e) : fail(w, res, &e);
	w->on_open(w->arg, fd < 0 ? -1 : fd, fd < 0 ? &e : NULL);
}

struct wire *wire_open(struct loop *l, const char *url, uint64_t timeout_ms,
		       void (*on_open)(void *arg, int fd, const struct err *e),
		       void *arg)
{
	struct wire *w = xnew(struct wire);
	CURL *h;

	CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	w->loop = l;
	w->url = xstrdup(url);
	w->on_open = on_open;
	w->arg = arg;
	w->near_fd = -1;
	buf_init(&w->in, 0);
	buf_init(&w->out, 0);
	w->multi = curl_multi_init();
	w->easy = h = curl_easy_init();
	CHECK(w->multi && h);
	curl_easy_setopt(h, CURLOPT_URL, url);
	curl_easy_setopt(h, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, w->problem);
	curl_easy_setopt(h, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	/* through a proxy by CONNECT: it shall not read what is inside */
	curl_easy_setopt(h, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(h, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
	client_trust(h);
	CHECK(curl_multi_add_handle(w->multi, h) == CURLM_OK);
	loop_timer_set(l, &w->round, 0, on_round);
	return w;
}
