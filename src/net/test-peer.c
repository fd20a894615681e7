/* SPDX-License-Identifier: Apache-2.0 */
#include "net/test-peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

uint64_t peer_now(void)
{
	return now_mono_us() / 1000;
}

uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

static void fill(uint8_t *p, size_t n, uint64_t at)
{
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(at + i);
}

/* ---- the server's application ---- */

struct req {
	struct app *app;
	uint64_t left, sent;
	bool echo, sink;
};

static struct app *app_of(struct http_stream *s)
{
	struct peer *p = http_conn_owner(http_stream_conn(s));

	return &p->app;
}

static void big_pump(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);
	uint8_t block[16384];

	while (q->left) {
		size_t n = q->left < sizeof(block) ? q->left : sizeof(block);
		size_t k;

		fill(block, n, q->sent);
		q->app->in_call++;
		k = http_stream_write(s, block, n);
		q->app->in_call--;
		q->left -= k;
		q->sent += k;
		q->app->accepted += k;
		if (k < n)
			return;
	}
	q->app->in_call++;
	http_stream_end(s);
	q->app->in_call--;
}

static void echo_pump(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(s, &p)) > 0) {
		size_t k = http_stream_write(s, p, n);

		q->app->in_call++;
		http_stream_consume(s, k);
		q->app->in_call--;
		q->app->sunk += k;
		if (k < n)
			return;
	}
	if (http_stream_eof(s))
		http_stream_end(s);
}

static void sink(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);
	char text[32];

	q->app->sunk += n;
	http_stream_consume(s, n);
	if (!http_stream_eof(s))
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)q->app->sunk);
	http_stream_reply(s, 200, "text/plain", text, strlen(text));
}

static void app_on_body(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);

	q->app->bodies++;
	q->app->nested += q->app->in_call;
	if (q->echo)
		echo_pump(s);
	else if (q->sink)
		sink(s);
}

static void app_on_writable(struct http_stream *s)
{
	struct req *q = http_stream_owner(s);

	q->app->nested += q->app->in_call;
	if (q->echo)
		echo_pump(s);
	else
		big_pump(s);
}

static void app_on_close(struct http_stream *s, const struct err *e)
{
	struct req *q = http_stream_owner(s);

	q->app->nested += q->app->in_call;
	if (e)
		q->app->closed_err++;
	else
		q->app->closed_ok++;
	if (q->app->stuck == s)
		q->app->stuck = NULL;
	free(q);
}

static const struct http_handler app_handler = {
	.on_body = app_on_body,
	.on_writable = app_on_writable,
	.on_close = app_on_close,
};

static void on_collected(struct http_stream *s, void *owner, const void *body,
			 size_t n, const struct err *e)
{
	CHECK(owner == app_of(s));
	if (e && e->kind == ERR_EXHAUSTED)
		http_stream_reply(s, 413, NULL, NULL, 0);
	else if (!e)
		http_stream_reply(s, 200, NULL, body, n);
}

static void see(struct app *app, const struct http_head *h)
{
	http_head_fini(&app->seen);
	app->seen.method = xstrdup(h->method);
	app->seen.path = xstrdup(h->path);
	app->seen.authority = xstrdup(h->authority ? h->authority : "");
	for (size_t i = 0; i < h->n_fields; i++)
		http_head_add(&app->seen, h->fields[i].name,
			      h->fields[i].value);
	app->requests++;
}

static void reply_long(struct http_stream *s)
{
	size_t n = 3 * HTTP_OUT_MAX;
	uint8_t *mem = xcalloc(1, n);

	fill(mem, n, 0);
	http_stream_reply(s, 200, NULL, mem, n);
	free(mem);
}

static void respond_length(struct http_stream *s, const char *length,
			   const char *body)
{
	struct http_head h = { .status = 200 };

	http_head_add(&h, "content-length", length);
	http_stream_respond(s, &h, true);
	http_stream_write(s, body, strlen(body));
	http_stream_end(s);
	http_head_fini(&h);
}

static void stream_big(struct http_stream *s, struct req *q, const char *path)
{
	static const struct http_head ok = { .status = 200 };
	owned_str n = http_query_get(path, "n");

	q->left = n ? strtoull(n, NULL, 10) : 0;
	http_stream_respond(s, &ok, true);
	big_pump(s);
}

static void route(struct http_stream *s, struct req *q, const char *path)
{
	static const struct http_head ok = { .status = 200 };

	if (!strcmp(path, "/echo")) {
		q->echo = true;
		http_stream_respond(s, &ok, true);
	} else if (!strncmp(path, "/big?", 5)) {
		stream_big(s, q, path);
	} else if (!strcmp(path, "/sink")) {
		q->sink = true;
	} else if (!strcmp(path, "/stuck")) {
		q->app->stuck = s;
	} else if (!strcmp(path, "/collect")) {
		http_stream_collect(s, q->app->collect_max, on_collected,
				    q->app);
	} else if (!strcmp(path, "/early")) {
		http_stream_reply(s, 413, NULL, NULL, 0);
	} else if (!strcmp(path, "/reset")) {
		http_stream_reset(s);
	} else if (!strcmp(path, "/free")) {
		http_conn_free(http_stream_conn(s));
	} else if (!strcmp(path, "/204")) {
		http_stream_reply(s, 204, NULL, NULL, 0);
	} else if (!strcmp(path, "/long")) {
		reply_long(s);
	} else if (!strcmp(path, "/short")) {
		respond_length(s, "10", "12345");
	} else if (!strcmp(path, "/over")) {
		respond_length(s, "10", "123451234512345");
	} else if (!strcmp(path, "/hello")) {
		http_stream_reply(s, 200, "text/plain", "hello", 5);
	} else {
		http_stream_reply(s, 404, NULL, NULL, 0);
	}
}

static void app_on_request(struct http_conn *c, struct http_stream *s)
{
	struct peer *p = http_conn_owner(c);
	const struct http_head *h = http_stream_head(s);
	struct req *q;

	CHECK(http_stream_conn(s) == c);
	see(&p->app, h);
	p->app.nested += p->app.in_call;
	if (!strcmp(h->path, "/none"))
		return;
	if (!strcmp(h->path, "/free"))
		p->server = NULL;
	q = xnew(struct req);
	q->app = &p->app;
	http_stream_handle(s, &app_handler, q);
	p->app.in_call++;
	route(s, q, h->path);
	/* /free calls back from within the call, as it says it does */
	p->app.in_call--;
}

void app_unstick(struct peer *p)
{
	p->app.in_call++;
	http_stream_reply(p->app.stuck, 200, "text/plain", "hello", 5);
	p->app.in_call--;
}

static void on_server_close(struct http_conn *c, const struct err *e)
{
	struct peer *p = http_conn_owner(c);

	p->server_closed++;
	p->server = NULL;
	if (e)
		p->server_err = *e;
}

const struct http_conn_ops peer_server_ops = {
	.on_request = app_on_request,
	.on_close = on_server_close,
};

/* ---- the client ---- */

static void ask_pump(struct http_stream *s)
{
	struct ask *a = http_stream_owner(s);
	uint8_t block[16384];

	while (a->sent < a->to_send) {
		uint64_t left = a->to_send - a->sent;
		size_t n = left < sizeof(block) ? left : sizeof(block), k;

		fill(block, n, a->sent);
		k = http_stream_write(s, block, n);
		a->sent += k;
		if (k < n)
			return;
	}
	http_stream_end(s);
}

static void ask_on_head(struct http_stream *s)
{
	struct ask *a = http_stream_owner(s);
	struct peer *p = http_conn_owner(http_stream_conn(s));

	a->heads++;
	a->status = http_stream_head(s)->status;
	if (a->free_on_head) {
		p->client = http_conn_free(p->client);
		T_INT(a->closes, 1);
	}
}

static void ask_read(struct http_stream *s, struct ask *a)
{
	const uint8_t *mem;
	size_t n = http_stream_peek(s, &mem);

	for (size_t i = 0; i < n; i++) {
		a->bad += mem[i] != pattern(a->got + i);
		if (a->got + i < sizeof(a->text) - 1)
			a->text[a->got + i] = (char)mem[i];
	}
	a->got += n;
	http_stream_consume(s, n);
}

void ask_resume(struct ask *a)
{
	a->stop_reading = false;
	ask_read(a->s, a);
	CHECK(a->closes == 0); /* never from within our call */
}

static void ask_on_body(struct http_stream *s)
{
	struct ask *a = http_stream_owner(s);
	struct peer *p = http_conn_owner(http_stream_conn(s));

	a->bodies++;
	if (a->reset_on_body) {
		http_stream_reset(s);
		T_INT(a->closes, 0); /* not from within our call */
		return;
	}
	if (a->free_on_body) {
		p->client = http_conn_free(p->client);
		return;
	}
	if (!a->stop_reading)
		ask_read(s, a);
}

static void ask_on_writable(struct http_stream *s)
{
	struct ask *a = http_stream_owner(s);

	a->writables++;
	ask_pump(s);
}

static void ask_on_close(struct http_stream *s, const struct err *e)
{
	struct ask *a = http_stream_owner(s);
	struct peer *p = http_conn_owner(http_stream_conn(s));

	a->closes++;
	a->cut = e != NULL;
	if (e)
		a->e = *e;
	a->s = NULL;
	if (a->free_on_close)
		p->client = http_conn_free(p->client);
}

static const struct http_handler ask_handler = {
	.on_head = ask_on_head,
	.on_body = ask_on_body,
	.on_writable = ask_on_writable,
	.on_close = ask_on_close,
};

void ask_start(struct peer *p, struct ask *a, const char *method,
	       const char *path, uint64_t to_send)
{
	struct http_head h = { .method = xstrdup(method),
			       .path = xstrdup(path),
			       .authority = xstrdup("caisson.test") };

	http_head_add(&h, "x-test", "a value");
	a->to_send = to_send;
	a->s = http_conn_request(p->client, &h, to_send > 0, &ask_handler, a,
				 &a->e);
	http_head_fini(&h);
	if (a->s && to_send)
		ask_pump(a->s);
}

static void on_client_close(struct http_conn *c, const struct err *e)
{
	struct peer *p = http_conn_owner(c);

	p->client_closed++;
	p->client = NULL;
	if (e)
		p->client_err = *e;
}

static const struct http_conn_ops client_ops = {
	.on_close = on_client_close,
};

/* ---- pairs ---- */

static void socket_pair(int fd[2])
{
	struct timeval tv = { .tv_sec = 20 };

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &tv,
				 sizeof(tv)) == 0);
}

void peer_init(struct peer *p, enum http_version v,
	       const struct http_limits *server,
	       const struct http_limits *client)
{
	int fd[2];

	memset(p, 0, sizeof(*p));
	p->l = loop_new();
	socket_pair(fd);
	p->server =
	    http_conn_server_take(p->l, fd[0], v, server, &peer_server_ops, p);
	p->client =
	    http_conn_client_take(p->l, fd[1], v, client, &client_ops, p);
}

int peer_init_raw(struct peer *p, enum http_version v,
		  const struct http_limits *server)
{
	int fd[2];

	memset(p, 0, sizeof(*p));
	p->l = loop_new();
	socket_pair(fd);
	p->server =
	    http_conn_server_take(p->l, fd[0], v, server, &peer_server_ops, p);
	return fd[1];
}

int peer_init_raw_server(struct peer *p, enum http_version v)
{
	int fd[2];

	memset(p, 0, sizeof(*p));
	p->l = loop_new();
	socket_pair(fd);
	p->client = http_conn_client_take(p->l, fd[1], v, NULL, &client_ops, p);
	return fd[0];
}

void peer_fini(struct peer *p)
{
	p->client = http_conn_free(p->client);
	p->server = http_conn_free(p->server);
	http_head_fini(&p->app.seen);
	p->l = loop_free(p->l);
}

void peer_spin(struct peer *p, unsigned rounds)
{
	while (rounds--)
		loop_once(p->l, 1);
}

/* ---- by hand ---- */

void raw_send_n(struct raw *r, const void *p, size_t n)
{
	CHECK(write_all(r->fd, p, n) == 0);
}

void raw_send(struct raw *r, const char *text)
{
	raw_send_n(r, text, strlen(text));
}

static void raw_read(struct raw *r)
{
	ssize_t n;

	while (!r->eof && r->n < sizeof(r->text) - 1) {
		n = recv(r->fd, r->text + r->n, sizeof(r->text) - 1 - r->n,
			 MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			r->eof = true;
		else
			r->n += (size_t)n;
	}
	for (size_t i = 0; i < r->n; i++) {
		if (!r->text[i])
			r->text[i] = '?'; /* else it would end the text */
	}
	r->text[r->n] = 0;
}

bool raw_wait(struct peer *p, struct raw *r, const char *word)
{
	uint64_t end = peer_now() + 20000;

	for (;;) {
		raw_read(r);
		if (strstr(r->text, word))
			return true;
		if (r->eof || peer_now() > end)
			return false;
		loop_once(p->l, 5);
	}
}

bool raw_wait_eof(struct peer *p, struct raw *r)
{
	uint64_t end = peer_now() + 20000;

	while (!r->eof && peer_now() < end) {
		loop_once(p->l, 5);
		raw_read(r);
	}
	return r->eof;
}

unsigned raw_count(const struct raw *r, const char *word)
{
	unsigned n = 0;

	for (const char *s = r->text; (s = strstr(s, word)); s++)
		n++;
	return n;
}

void raw_close(struct raw *r)
{
	r->fd = fd_close(r->fd);
}

/* ---- memory ---- */

struct end {
	struct http_transport t;
	struct peer *peer;
	struct end *other;
	struct buf *in, *out;
	size_t capacity, step;
	bool is_server;
};

static struct end ends[2];
static struct buf pipes[2];
static bool pipes_cut;

static void tell_other(struct end *end)
{
	struct http_conn *c =
	    end->is_server ? end->peer->client : end->peer->server;

	if (c)
		http_conn_ready(c);
}

static ssize_t memory_read(struct http_transport *t, void *p, size_t n)
{
	struct end *end = container_of(t, struct end, t);

	if (n > end->step)
		n = end->step;
	if (n > buf_len(end->in))
		n = buf_len(end->in);
	if (n == 0 || pipes_cut)
		return -EAGAIN;
	memcpy(p, buf_data(end->in), n);
	buf_consume(end->in, n);
	tell_other(end); /* there is room again */
	return (ssize_t)n;
}

static ssize_t memory_write(struct http_transport *t, const void *p, size_t n)
{
	struct end *end = container_of(t, struct end, t);
	size_t room = end->capacity - buf_len(end->out);

	if (n > end->step)
		n = end->step;
	if (n > room)
		n = room;
	if (n == 0 || pipes_cut)
		return -EAGAIN;
	CHECK(buf_put(end->out, p, n) == 0);
	tell_other(end);
	return (ssize_t)n;
}

void peer_init_memory(struct peer *p, size_t capacity, size_t step,
		      const struct http_limits *client)
{
	memset(p, 0, sizeof(*p));
	p->l = loop_new();
	pipes_cut = false;
	for (int i = 0; i < 2; i++) {
		buf_fini(&pipes[i]);
		ends[i] = (struct end){ .t = { memory_read, memory_write },
					.peer = p,
					.in = &pipes[i],
					.out = &pipes[1 - i],
					.capacity = capacity,
					.step = step,
					.is_server = i == 0 };
	}
	p->server =
	    http_conn_server_over(p->l, &ends[0].t, NULL, &peer_server_ops, p);
	p->client =
	    http_conn_client_over(p->l, &ends[1].t, client, &client_ops, p);
}

void peer_cut_memory(void)
{
	pipes_cut = true;
}
