/* SPDX-License-Identifier: Apache-2.0 */

/* WebSockets, both roles against each other and against bytes by hand. */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "net/test-peer.h"
#include "net/ws_int.h"

#define MAX_MESSAGE 262144u

/* One side of a WebSocket and all that it was told. */
struct side {
	struct ws *w;
	unsigned messages, closes, writables, code;
	bool echo, hold_after, free_on_message, cut_on_message;
	bool is_text;
	size_t n;
	uint64_t bytes;
	char text[256], reason[128];
};

struct duo {
	struct loop *l;
	struct http_conn *server, *client;
	struct side s, c; /* server's, client's */
	const char *subprotocol;
	int refuse;
	int check; /* ws_server_check() said */
	unsigned opened;
	int status;
	char body[256];
	struct err e;
	int raw; /* the other end, when it is by hand */
};

static struct duo duo;

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct side *d = ws_owner(w);
	size_t k = n < sizeof(d->text) - 1 ? n : sizeof(d->text) - 1;

	d->messages++;
	d->is_text = is_text;
	d->n = n;
	d->bytes += n;
	memcpy(d->text, p, k);
	d->text[k] = 0;
	if (d->echo)
		(void)ws_send(w, is_text, p, n);
	if (d->hold_after)
		ws_hold(w, true);
	if (d->cut_on_message)
		ws_cut(w);
	if (d->free_on_message)
		d->w = ws_free(w);
}

static void on_writable(struct ws *w)
{
	struct side *d = ws_owner(w);

	d->writables++;
}

static void on_close(struct ws *w, unsigned code, const char *reason)
{
	struct side *d = ws_owner(w);

	d->closes++;
	d->code = code;
	snprintf(d->reason, sizeof(d->reason), "%.120s", reason);
	d->w = NULL;
}

static const struct ws_handler handler = {
	.on_message = on_message,
	.on_writable = on_writable,
	.on_close = on_close,
};

static void on_request(struct http_conn *c, struct http_stream *s)
{
	struct http_head extra = { .status = 0 };

	(void)c;
	duo.check = ws_server_check(s, &duo.e);
	if (duo.refuse || duo.check) {
		http_stream_reply(s, duo.refuse ? duo.refuse : 400, NULL,
				  "go away", 7);
		return;
	}
	http_head_add(&extra, "x-extra", "yes");
	duo.s.w = ws_server_open(duo.l, s, duo.subprotocol, &extra, MAX_MESSAGE,
				 &handler, &duo.s);
	http_head_fini(&extra);
}

static void server_closed(struct http_conn *c, const struct err *e)
{
	(void)c;
	(void)e;
	duo.server = NULL;
}

static void client_closed(struct http_conn *c, const struct err *e)
{
	(void)c;
	(void)e;
	duo.client = NULL;
}

static const struct http_conn_ops server_ops = {
	.on_request = on_request,
	.on_close = server_closed,
};
static const struct http_conn_ops client_ops = { .on_close = client_closed };

static void on_open(void *arg, struct ws *w, int status, const char *body,
		    size_t n, const struct err *e)
{
	T_TRUE(arg == &duo);
	duo.opened++;
	duo.c.w = w;
	duo.status = status;
	snprintf(duo.body, sizeof(duo.body), "%.*s", (int)n, body ? body : "");
	if (e)
		duo.e = *e;
}

static void sockets(int fd[2])
{
	memset(&duo, 0, sizeof(duo));
	duo.raw = -1;
	duo.l = loop_new();
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

static void ask_open(const char *subprotocols)
{
	struct http_head h = { .path = xstrdup("/ws?x=1"),
			       .authority = xstrdup("caisson.test") };

	T_INT(ws_client_open(duo.l, duo.client, &h, subprotocols, MAX_MESSAGE,
			     &handler, &duo.c, on_open, &duo, &duo.e),
	      0);
	http_head_fini(&h);
}

static void begin(void)
{
	int fd[2];

	sockets(fd);
	duo.server = http_conn_server_take(duo.l, fd[0], HTTP_AUTO, NULL,
					   &server_ops, &duo);
	duo.client = http_conn_client_take(duo.l, fd[1], HTTP_1_1, NULL,
					   &client_ops, &duo);
}

static void open_both(void)
{
	begin();
	ask_open(NULL);
	T_WAIT(&duo, duo.opened);
	T_TRUE(duo.c.w && duo.s.w);
	T_INT(duo.status, 101);
}

static void end(void)
{
	duo.client = http_conn_free(duo.client);
	duo.server = http_conn_free(duo.server);
	duo.raw = fd_close(duo.raw);
	duo.l = loop_free(duo.l);
}

/* ---- opening ---- */

TEST(the_rfc_example_key)
{
	char accept[WS_ACCEPT_LEN + 1];

	ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
	T_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(messages_go_both_ways)
{
	open_both();
	duo.s.echo = true;
	T_TRUE(ws_send(duo.c.w, true, "hello", 5));
	T_WAIT(&duo, duo.c.messages == 1);
	T_STR(duo.c.text, "hello");
	T_TRUE(duo.c.is_text && duo.s.is_text);
	T_TRUE(ws_send(duo.c.w, false, "", 0));
	T_WAIT(&duo, duo.c.messages == 2);
	T_INT(duo.c.n, 0);
	T_TRUE(!duo.c.is_text);
	end();
	T_INT(duo.s.closes, 1);
	T_INT(duo.c.code, WS_ABNORMAL);
}

TEST(both_see_the_close_and_connections_end)
{
	open_both();
	ws_close(duo.c.w, 4001, "enough");
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.s.code, 4001);
	T_STR(duo.s.reason, "enough");
	T_INT(duo.c.code, 4001);
	T_WAIT(&duo, !duo.client && !duo.server);
	end();
}

TEST(the_server_closes_after_what_is_queued)
{
	static char big[200000];

	open_both();
	memset(big, 'x', sizeof(big));
	T_TRUE(ws_send(duo.s.w, false, big, sizeof(big)));
	ws_close(duo.s.w, 1000, NULL);
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.c.bytes, sizeof(big));
	T_INT(duo.c.code, 1000);
	T_INT(duo.s.code, 1000);
	end();
}
