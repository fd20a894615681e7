/* SPDX-License-Identifier: Apache-2.0 */

/* A guest's duplex streams: an exec that echoes its stdin, a port 7 that echoes
 * bytes, a port 80 with a web server, and ports where nobody listens. */

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "api/bridge.h"
#include "api/frame.h"
#include "api/test-node.h"
#include "base/check.h"
#include "base/own.h"
#include "net/ws.h"

struct duplex_end {
	struct fake *f;
	struct http_stream *s;
	struct buf in, out;
	uint64_t offset; /* of output */
	uint64_t flood;	 /* still to send */
	struct bridge bridge;
	bool attach, web;
};

static void end_free(struct duplex_end *d)
{
	if (d->attach)
		d->f->n_attached--;
	bridge_end(&d->bridge);
	buf_fini(&d->in);
	buf_fini(&d->out);
	free(d);
}

/* ---- an exec ---- */

static void flush(struct duplex_end *d)
{
	size_t n = buf_len(&d->out);

	if (n)
		buf_consume(&d->out,
			    http_stream_write(d->s, buf_data(&d->out), n));
}

static void send_frame(struct duplex_end *d, uint8_t type, const void *p,
		       size_t n)
{
	struct frame f = { .type = type,
			   .offset = d->offset,
			   .n = (uint32_t)n };
	uint8_t head[EXEC_FRAME_HEADER];

	frame_head(&f, head);
	buf_put(&d->out, head, sizeof(head));
	buf_put(&d->out, p, n);
	flush(d);
	if (frame_is_output(type))
		d->offset += n;
}

static void send_flood(struct duplex_end *d)
{
	static const char bytes[EXEC_FRAME_MAX];

	flush(d);
	while (d->flood && buf_len(&d->out) == 0) {
		size_t n =
		    d->flood < sizeof(bytes) ? (size_t)d->flood : sizeof(bytes);

		send_frame(d, EXEC_STDOUT, bytes, n);
		d->flood -= n;
		d->f->download_sent += n;
	}
}

static uint64_t be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static void take_frame(struct duplex_end *d, uint8_t type, uint64_t offset,
		       const uint8_t *p, size_t n)
{
	static const char exited[] =
	    "{\"reason\":\"exited\",\"code\":0,\"signal\":null}";

	switch (type) {
	case EXEC_STDIN:
		send_frame(d, EXEC_STDOUT, p, n);
		break;
	case EXEC_STDIN_END:
		send_frame(d, EXEC_EXIT, exited, sizeof(exited) - 1);
		http_stream_end(d->s);
		break;
	case EXEC_ACK:
		d->f->acked = offset;
		break;
	default:
		d->f->control = type;
	}
}

static void take_frames(struct duplex_end *d)
{
	while (buf_len(&d->in) >= EXEC_FRAME_HEADER) {
		const uint8_t *p = buf_data(&d->in);
		size_t n = (size_t)be(p + 4, 4);

		CHECK(n <= EXEC_FRAME_MAX);
		if (buf_len(&d->in) < EXEC_FRAME_HEADER + n)
			return;
		take_frame(d, p[0], be(p + 8, 8), p + EXEC_FRAME_HEADER, n);
		buf_consume(&d->in, EXEC_FRAME_HEADER + n);
	}
}

static void begin(struct http_stream *s)
{
	struct http_head h;

	http_head_init(&h);
	h.status = 200;
	http_stream_respond(s, &h, true);
	http_head_fini(&h);
}

static void start_exec(struct duplex_end *d)
{
	static const char started[] = "{\"pid\":7,\"stdin_offset\":0}";

	begin(d->s);
	d->attach = true;
	d->f->n_attached++;
	d->flood = d->f->flood;
	send_frame(d, EXEC_STARTED, started, sizeof(started) - 1);
	if (d->f->guest == GUEST_CUTS) {
		send_frame(d, EXEC_STDOUT, "half", 4);
		http_stream_end(d->s);
	} else if (d->f->guest == GUEST_TEAPOT) {
		send_frame(d, 0x7f, "what", 4);
	}
	send_flood(d);
}

/* ---- a web server in the guest ---- */

/* What came, so that a test sees what did not. */
static void tell_head(struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	struct http_head head;
	struct buf b;

	buf_init(&b, 0);
	buf_printf(&b, "%s %s\nhost: %s\n", h->method, h->path, h->authority);
	for (size_t i = 0; i < h->n_fields; i++)
		buf_printf(&b, "%s: %s\n", h->fields[i].name,
			   h->fields[i].value);
	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "text/html");
	http_head_add(&head, "set-cookie", "a=b; Domain=localhost; Path=/");
	http_head_add(&head, "caisson-x", "y");
	http_stream_respond(s, &head, true);
	http_head_fini(&head);
	http_stream_write(s, buf_data(&b), buf_len(&b));
	http_stream_end(s);
	buf_fini(&b);
}

static void web_echo(struct http_stream *s)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(s, &p)) > 0) {
		n = http_stream_write(s, p, n);
		if (!n)
			return;
		http_stream_consume(s, n);
	}
	if (http_stream_eof(s))
		http_stream_end(s);
}

static void web_closed(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
}

static void on_ws_message(struct ws *w, bool is_text, const uint8_t *p,
			  size_t n)
{
	CHECK(ws_send(w, is_text, p, n));
}

static void on_ws_close(struct ws *w, unsigned code, const char *reason)
{
	(void)w;
	(void)code;
	(void)reason;
}

static void start_ws(struct http_stream *s, struct loop *l)
{
	static const struct ws_handler h = { .on_message = on_ws_message,
					     .on_close = on_ws_close };
	struct err e = { 0 };

	CHECK(ws_server_check(s, &e) == 0);
	ws_server_open(l, s,
		       ws_offers(http_stream_head(s), "mine") ? "mine" : NULL,
		       NULL, 65536, &h, NULL);
}

static void on_web_request(struct http_conn *c, struct http_stream *s)
{
	static const struct http_handler echo = { .on_body = web_echo,
						  .on_writable = web_echo,
						  .on_close = web_closed };
	struct http_head h;

	if (http_stream_upgrade(s)) {
		start_ws(s, ((struct fake *)http_conn_owner(c))->loop);
		return;
	}
	http_stream_handle(s, &echo, NULL);
	http_head_init(&h);
	h.status = 200;
	if (strcmp(http_stream_head(s)->path, "/echo") == 0)
		http_stream_respond(s, &h, true);
	else
		tell_head(s);
	http_head_fini(&h);
}

static void on_web_close(struct http_conn *c, const struct err *e)
{
	struct fake *f = http_conn_owner(c);

	(void)e;
	if (f->web == c)
		f->web = NULL;
}

static void start_web(struct duplex_end *d)
{
	static const struct http_conn_ops ops = { .on_request = on_web_request,
						  .on_close = on_web_close };
	int fds[2];

	begin(d->s);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 fds) == 0);
	if (d->f->web)
		http_conn_free(d->f->web);
	d->f->web = http_conn_server_take(d->f->loop, fds[0], HTTP_1_1, NULL,
					  &ops, d->f);
	bridge_begin_take(&d->bridge, d->f->loop, d->s, fds[1]);
	d->web = true;
}

/* ---- all ---- */

static void echo_bytes(struct duplex_end *d)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(d->s, &p)) > 0) {
		n = http_stream_write(d->s, p, n);
		if (!n)
			return;
		http_stream_consume(d->s, n);
	}
	if (http_stream_eof(d->s))
		http_stream_end(d->s);
}

static void on_body(struct http_stream *s)
{
	struct duplex_end *d = http_stream_owner(s);
	const uint8_t *p;
	size_t n;

	if (!d->attach) {
		if (d->web)
			bridge_on_body(&d->bridge);
		else
			echo_bytes(d);
		return;
	}
	n = http_stream_peek(s, &p);
	buf_put(&d->in, p, n);
	http_stream_consume(s, n);
	take_frames(d);
}

static void on_writable(struct http_stream *s)
{
	struct duplex_end *d = http_stream_owner(s);

	if (d->web)
		bridge_on_writable(&d->bridge);
	else if (d->attach)
		send_flood(d);
	else
		echo_bytes(d);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)e;
	end_free(http_stream_owner(s));
}

static void refuse(struct http_stream *s, int status, const char *code)
{
	owned_str text = xasprintf("{\"error\":{\"code\":\"%s\",\"message\":"
				   "\"no\",\"cause\":\"guest\"}}",
				   code);

	http_stream_reply(s, status, "application/json", text, strlen(text));
}

void fake_duplex(struct fake *f, struct http_stream *s)
{
	static const struct http_handler h = { .on_body = on_body,
					       .on_writable = on_writable,
					       .on_close = on_close };
	const char *path = http_stream_head(s)->path;
	struct duplex_end *d = xnew(struct duplex_end);

	d->f = f;
	d->s = s;
	buf_init(&d->in, 0);
	buf_init(&d->out, 0);
	http_stream_handle(s, &h, d);
	if (f->guest == GUEST_REFUSES)
		refuse(s, 409, "exec_expired");
	else if (strstr(path, "/attach"))
		start_exec(d);
	else if (strstr(path, "port=80"))
		start_web(d);
	else if (strstr(path, "port=7"))
		begin(s);
	else
		refuse(s, 502, "port_closed");
}
