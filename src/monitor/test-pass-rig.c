/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/test-pass-rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

struct fake *fake;

/* ---- the guest ---- */

static void guest_writable(struct http_stream *s)
{
	struct fake *f = fake;
	size_t n = f->reply_n - f->reply_at;

	n = n ? http_stream_write(s, f->reply + f->reply_at, n) : 0;
	f->reply_at += n;
	if (f->reply_at < f->reply_n)
		return;
	if (f->guest_cuts)
		http_stream_reset(s);
	else if (!f->guest_holds)
		http_stream_end(s);
}

static void guest_answer(struct http_stream *s)
{
	struct http_head h;
	char length[24];

	http_head_init(&h);
	h.status = fake->status;
	http_head_add(&h, "content-type", fake->type);
	if (fake->extra_header)
		http_head_add(&h, fake->extra_header, "evil");
	for (size_t i = 0; fake->fields[i].name; i++)
		http_head_add(&h, fake->fields[i].name, fake->fields[i].value);
	if (fake->gives_length) {
		snprintf(length, sizeof(length), "%zu", fake->reply_n);
		http_head_add(&h, "content-length", length);
	}
	if (fake->is_duplex)
		http_stream_duplex(s);
	http_stream_respond(s, &h, fake->status != 304);
	http_head_fini(&h);
	fake->reply_at = 0;
	if (fake->status != 304)
		guest_writable(s);
}

static bool has_body(struct http_stream *s)
{
	return http_stream_head(s)->method[0] == 'P'; /* POST, PUT */
}

static void guest_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (fake->guest_holds && !fake->reply_n && !fake->answers_first) {
		fake->held = s;
		return; /* reads nothing */
	}
	if (n && fake->got_n + n <= sizeof(fake->got))
		memcpy(fake->got + fake->got_n, p, n);
	fake->got_n += n;
	http_stream_consume(s, n);
	if (!http_stream_eof(s))
		return;
	fake->got_end = true;
	if (has_body(s) && !fake->answers_first)
		guest_answer(s);
}

static void guest_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	fake->held = fake->guest = NULL;
	if (e)
		fake->n_cut++;
}

static const struct http_handler guest_handler = { NULL, guest_body,
						   guest_writable,
						   guest_close };

static void guest_request(struct http_conn *c, struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	size_t n;

	(void)c;
	fake->n_requests++;
	n = (size_t)snprintf(fake->seen, sizeof(fake->seen), "%s %s\n",
			     h->method, h->path);
	for (size_t i = 0; i < h->n_fields && n < sizeof(fake->seen); i++)
		n += (size_t)snprintf(fake->seen + n, sizeof(fake->seen) - n,
				      "%s: %s\n", h->fields[i].name,
				      h->fields[i].value);
	http_stream_handle(s, &guest_handler, fake);
	fake->guest = s;
	if (!has_body(s) || fake->answers_first)
		guest_answer(s);
}

/* Connections free themselves when the other end goes. */
static void conn_closed(struct http_conn *c, const struct err *e)
{
	(void)e;
	if (c == fake->guest_server)
		fake->guest_server = NULL;
	if (c == fake->to_guest)
		fake->to_guest = NULL;
	if (c == fake->client)
		fake->client = NULL;
}

static const struct http_conn_ops guest_ops = { guest_request, conn_closed };
static const struct http_conn_ops client_ops = { NULL, conn_closed };

/* ---- the client ---- */

static void client_head(struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	const char *type = http_head_get(h, "content-type");

	fake->got_status = h->status;
	snprintf(fake->got_type, sizeof(fake->got_type), "%s",
		 type ? type : "");
	fake->got_head[0] = '\0';
	for (size_t i = 0, n = 0; i < h->n_fields; i++)
		n += (size_t)snprintf(fake->got_head + n,
				      sizeof(fake->got_head) - n, "%s: %s\n",
				      h->fields[i].name, h->fields[i].value);
	T_TRUE(!http_head_get(h, "x-evil"));
	T_TRUE(!http_head_get(h, "set-cookie"));
}

static void client_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (fake->reads_nothing)
		return;
	T_TRUE(n <= BIG_MAX - 1 - fake->body_n);
	if (n)
		memcpy(fake->body + fake->body_n, p, n);
	fake->body_n += n;
	fake->body[fake->body_n] = '\0';
	http_stream_consume(s, n);
	fake->got_eof = http_stream_eof(s);
}

void client_writable(struct http_stream *s)
{
	static uint8_t zeros[65536];

	while (fake->put_n) {
		size_t n =
		    fake->put_n < sizeof(zeros) ? fake->put_n : sizeof(zeros);
		size_t w = http_stream_write(s, zeros, n);

		fake->put_n -= w;
		if (w < n)
			return;
		if (!fake->put_n && !fake->put_holds)
			http_stream_end(s);
	}
}

static void client_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	fake->over = true;
	fake->was_cut = e != NULL;
}

static const struct http_handler client_handler = { client_head, client_body,
						    client_writable,
						    client_close };

static struct http_conn *way(void *owner)
{
	return ((struct fake *)owner)->to_guest;
}

void fake_to_guest(int fd)
{
	fake->to_guest = http_conn_client_take(fake->loop, fd, HTTP_2, NULL,
					       &client_ops, fake);
}

void start(void)
{
	static struct fake f;
	int p[2];

	memset(&f, 0, sizeof(f));
	fake = &f;
	f.status = 200;
	f.type = "application/json";
	f.reply = (const uint8_t *)"{ \"a\" : 1 }";
	f.reply_n = 11;
	f.loop = loop_new();
	f.data = data_new(f.loop, way, &f);
	data_open(f.data, true);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	f.guest_server =
	    http_conn_server_take(f.loop, p[0], HTTP_2, NULL, &guest_ops, &f);
	f.to_guest =
	    http_conn_client_take(f.loop, p[1], HTTP_2, NULL, &client_ops, &f);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	data_serve_take(f.data, p[0]);
	f.client =
	    http_conn_client_take(f.loop, p[1], HTTP_2, NULL, &client_ops, &f);
}

void stop(void)
{
	if (fake->client)
		http_conn_free(fake->client);
	data_free(fake->data);
	if (fake->to_guest)
		http_conn_free(fake->to_guest);
	if (fake->guest_server)
		http_conn_free(fake->guest_server);
	loop_free(fake->loop);
}

void spin(unsigned rounds)
{
	while (rounds--)
		loop_once(fake->loop, 1);
}

struct http_stream *send_request(const char *method, const char *path,
				 const char *accept, bool body)
{
	struct http_head h;
	struct http_stream *s;
	struct err e = { 0 };

	http_head_init(&h);
	h.method = xstrdup(method);
	h.path = xstrdup(path);
	h.authority = xstrdup("sandbox");
	http_head_add(&h, "authorization", "Bearer secret");
	http_head_add(&h, "cookie", "secret");
	http_head_add(&h, "idempotency-key", "k1");
	http_head_add(&h, "traceparent", "00-trace");
	if (accept)
		http_head_add(&h, "accept", accept);
	for (size_t i = 0; fake->asks[i].name; i++)
		http_head_add(&h, fake->asks[i].name, fake->asks[i].value);
	fake->over = fake->was_cut = fake->got_eof = false;
	fake->body_n = 0;
	fake->got_status = 0;
	s = http_conn_request(fake->client, &h, body, &client_handler, fake,
			      &e);
	T_TRUE(s != NULL);
	http_head_fini(&h);
	return s;
}

void finish(void)
{
	for (int i = 0; i < 3000 && !fake->over; i++)
		loop_once(fake->loop, 10);
	T_TRUE(fake->over);
}

void ask(const char *method, const char *path)
{
	send_request(method, path, NULL, false);
	finish();
}

void say(const void *p, size_t n)
{
	fake->reply = p;
	fake->reply_n = n;
}

size_t frame(uint8_t *to, uint8_t type, uint64_t offset, const void *p,
	     uint32_t n)
{
	memset(to, 0, EXEC_FRAME_HEADER);
	to[0] = type;
	for (int i = 0; i < 4; i++)
		to[4 + i] = (uint8_t)(n >> (24 - 8 * i));
	for (int i = 0; i < 8; i++)
		to[8 + i] = (uint8_t)(offset >> (56 - 8 * i));
	memcpy(to + EXEC_FRAME_HEADER, p, n);
	return EXEC_FRAME_HEADER + n;
}
