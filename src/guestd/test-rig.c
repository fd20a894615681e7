/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/test-rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

static void rig_pump(struct rig *r);

static ssize_t transport_read(struct http_transport *t, void *to, size_t n)
{
	struct rig *r = container_of(t, struct rig, transport);
	size_t have = buf_len(&r->in);

	if (have == 0)
		return r->lost ? 0 : -EAGAIN;
	if (n > have)
		n = have;
	memcpy(to, buf_data(&r->in), n);
	buf_consume(&r->in, n);
	return (ssize_t)n;
}

static void on_again(struct loop_defer *d)
{
	rig_pump(container_of(d, struct rig, again));
}

static ssize_t transport_write(struct http_transport *t, const void *p,
			       size_t n)
{
	struct rig *r = container_of(t, struct rig, transport);
	size_t taken = record_send(r->record, p, n);

	if (taken == 0)
		return -EAGAIN;
	if (!r->again.loop)
		loop_defer_add(r->loop, &r->again, on_again);
	return (ssize_t)taken;
}

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	struct rig *r = http_conn_owner(c);

	(void)e;
	r->conn = NULL;
}

static void on_session(struct record *rec, uint64_t session)
{
	static const struct http_conn_ops ops = { .on_close = on_conn_close };
	static const struct http_limits limits = { .idle_timeout_ms =
						       UINT64_MAX };
	struct rig *r = record_owner(rec);

	(void)session;
	r->conn =
	    http_conn_client_over(r->loop, &r->transport, &limits, &ops, r);
}

static void on_data(struct record *rec, const uint8_t *p, size_t n)
{
	struct rig *r = record_owner(rec);

	CHECK(buf_put(&r->in, p, n) == 0);
	r->rx_bytes += n;
}

static void on_room(struct record *rec)
{
	struct rig *r = record_owner(rec);

	if (r->conn)
		http_conn_ready(r->conn);
}

static void rig_pump(struct rig *r)
{
	static uint8_t text[65536];
	struct buf *out = record_out(r->record);
	ssize_t n = 0;

	while (buf_len(out) > 0 && n >= 0) {
		n = send(r->fd, buf_data(out), buf_len(out), MSG_NOSIGNAL);
		if (n > 0)
			buf_consume(out, (size_t)n);
	}
	n = read(r->fd, text, sizeof(text));
	if (n > 0)
		record_feed(r->record, text, (size_t)n);
	else if (n == 0 || errno != EAGAIN) {
		r->lost = true;
		loop_io_del(&r->io);
	}
	if (r->conn)
		http_conn_ready(r->conn);
	if (r->io.loop)
		(void)loop_io_set(&r->io,
				  LOOP_IN | (buf_len(out) > 0 ? LOOP_OUT : 0u));
}

static void on_io(struct loop_io *io, unsigned events)
{
	(void)events;
	rig_pump(container_of(io, struct rig, io));
}

void rig_init_take(struct rig *r, struct loop *l, int fd)
{
	static const struct record_ops ops = {
		.on_session = on_session,
		.on_data = on_data,
		.on_room = on_room,
	};

	*r = (struct rig){ .loop = l, .fd = fd };
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	r->transport.read = transport_read;
	r->transport.write = transport_write;
	buf_init(&r->in, 0);
	r->record = record_new(RECORD_HOST, &ops, r);
	(void)loop_io_add(l, &r->io, fd, LOOP_IN, on_io);
	record_start(r->record, 0);
	rig_pump(r);
}

bool rig_wait_up(struct rig *r)
{
	for (int i = 0; i < RIG_WAIT_MS / 20 && !r->conn && !r->lost; i++) {
		rig_run(r, 20, NULL);
		if (!r->conn && i % 10 == 9) {
			record_hello(r->record);
			rig_pump(r);
		}
	}
	return r->conn != NULL;
}

bool rig_reconnect(struct rig *r)
{
	r->conn = http_conn_free(r->conn);
	buf_clear(&r->in);
	record_start(r->record, 0);
	rig_pump(r);
	return rig_wait_up(r);
}

void rig_spawn(struct rig *r)
{
	const char *program = getenv("CAISSON_GUESTD");
	int pair[2];
	pid_t pid;
	char number[16];

	CHECK(program);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)fcntl(pair[1], F_SETFD, 0);
		snprintf(number, sizeof(number), "%d", pair[1]);
		execl(program, program, "--root-less", "--socket-fd", number,
		      (char *)NULL);
		_exit(127);
	}
	fd_close(pair[1]);
	rig_init_take(r, loop_new(), pair[0]);
	r->pid = pid;
}

void rig_fini(struct rig *r)
{
	struct loop *own = r->pid ? r->loop : NULL;

	r->conn = http_conn_free(r->conn);
	loop_io_del(&r->io);
	loop_defer_del(&r->again);
	record_free(r->record);
	buf_fini(&r->in);
	fd_close(r->fd);
	if (r->pid) {
		int status = 0;

		/* it ends by itself when its channel does */
		(void)waitpid(r->pid, &status, 0);
		loop_free(own);
		CHECK(status == 0);
	}
}

void rig_run(struct rig *r, uint64_t ms, const bool *stop)
{
	uint64_t until = now_mono_us() / 1000 + ms;

	while (!(stop && *stop)) {
		uint64_t now = now_mono_us() / 1000;

		if (now >= until)
			return;
		(void)loop_once(r->loop, (int)(until - now));
		if (stop && *stop)
			return;
	}
}

/* ---- requests ---- */

static void take_body(struct rig_reply *p)
{
	const uint8_t *from;
	size_t n;

	while (p->stream && (n = http_stream_peek(p->stream, &from)) > 0) {
		size_t have = buf_len(&p->body);

		if (p->body_max && have + n > p->body_max)
			n = p->body_max - have;
		if (n == 0)
			return;
		CHECK(buf_put(&p->body, from, n) == 0);
		http_stream_consume(p->stream, n);
	}
}

static void copy_field(const struct http_head *head, const char *name,
		       char *ret, size_t size)
{
	const char *v = http_head_get(head, name);

	snprintf(ret, size, "%s", v ? v : "");
}

static void on_head(struct http_stream *s)
{
	struct rig_reply *p = http_stream_owner(s);

	const struct http_head *head = http_stream_head(s);

	p->status = head->status;
	p->length = http_head_length(head);
	copy_field(head, "etag", p->etag, sizeof(p->etag));
	copy_field(head, "content-range", p->content_range,
		   sizeof(p->content_range));
	copy_field(head, "last-modified", p->date, sizeof(p->date));
}

static void on_body(struct http_stream *s)
{
	take_body(http_stream_owner(s));
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct rig_reply *p = http_stream_owner(s);

	take_body(p);
	p->stream = NULL;
	p->closed = true;
	p->cut = e != NULL;
}

static const struct http_handler handler = {
	.on_head = on_head,
	.on_body = on_body,
	.on_close = on_close,
};

const struct http_handler *rig_handler(void)
{
	return &handler;
}

void rig_start(struct rig *r, struct rig_reply *p, const char *method,
	       const char *path, const char *const *fields, const void *body,
	       size_t n)
{
	struct http_head head;
	struct err e = { 0 };
	const uint8_t *from = body;

	*p = (struct rig_reply){ .rig = r };
	buf_init(&p->body, 0);
	http_head_init(&head);
	head.method = xstrdup(method);
	head.path = xstrdup(path);
	head.authority = xstrdup("guest");
	for (size_t i = 0; fields && fields[i]; i += 2)
		http_head_add(&head, fields[i], fields[i + 1]);
	if (r->conn)
		p->stream = http_conn_request(r->conn, &head, body != NULL,
					      &handler, p, &e);
	http_head_fini(&head);
	if (!p->stream) {
		p->closed = p->cut = true;
		return;
	}
	while (body && n > 0 && p->stream) {
		size_t k = http_stream_write(p->stream, from, n);

		from += k;
		n -= k;
		if (n > 0)
			rig_run(r, 5, &p->closed);
	}
	if (body && p->stream)
		http_stream_end(p->stream);
}

bool rig_finish(struct rig_reply *p)
{
	rig_run(p->rig, RIG_WAIT_MS, &p->closed);
	return p->closed;
}

void rig_take(struct rig_reply *p, size_t body_max)
{
	p->body_max = body_max;
	take_body(p);
}

void rig_reply_fini(struct rig_reply *p)
{
	if (p->stream) {
		http_stream_reset(p->stream);
		(void)rig_finish(p);
	}
	buf_fini(&p->body);
}

int rig_call(struct rig *r, struct rig_reply *p, const char *method,
	     const char *path, const char *body)
{
	rig_start(r, p, method, path, NULL, body, body ? strlen(body) : 0);
	if (!rig_finish(p) || p->cut)
		return 0;
	return p->status;
}

int rig_go(struct rig *r, const char *sandbox)
{
	struct rig_reply p;
	uint8_t raw[64];
	char b64[96], body[512];
	int status;

	random_bytes(raw, sizeof(raw));
	text_base64(raw, sizeof(raw), b64);
	snprintf(body, sizeof(body),
		 "{\"sandbox\":\"%s\",\"hostname\":\"%s\",\"machine_id\":"
		 "\"0123456789abcdef0123456789abcdef\",\"entropy\":\"%s\","
		 "\"realtime_ns\":%lld,\"port_low\":20000,\"port_high\":60000,"
		 "\"nonce\":\"n1\"}",
		 sandbox, sandbox, b64, (long long)now_unix_ms() * 1000000);
	status = rig_call(r, &p, "POST", "/g1/renew", body);
	rig_reply_fini(&p);
	if (status != 200)
		return status;
	status = rig_call(r, &p, "POST", "/g1/thaw", "{}");
	rig_reply_fini(&p);
	return status;
}
