/* SPDX-License-Identifier: Apache-2.0 */
#include "net/test-ws-rig.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

struct duo duo;

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

const struct ws_handler rig_handler = {
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
				 &rig_handler, &duo.s);
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

void duo_on_open(void *arg, struct ws *w, int status, const char *body,
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

void duo_sockets(int fd[2])
{
	memset(&duo, 0, sizeof(duo));
	duo.raw = -1;
	duo.l = loop_new();
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

void duo_ask_open(const char *subprotocols)
{
	struct http_head h = { .path = xstrdup("/ws?x=1"),
			       .authority = xstrdup("caisson.test") };

	T_INT(ws_client_open(duo.l, duo.client, &h, subprotocols, MAX_MESSAGE,
			     &rig_handler, &duo.c, duo_on_open, &duo, &duo.e),
	      0);
	http_head_fini(&h);
}

void duo_begin(void)
{
	int fd[2];

	duo_sockets(fd);
	duo.server = http_conn_server_take(duo.l, fd[0], HTTP_AUTO, NULL,
					   &server_ops, &duo);
	duo.client = http_conn_client_take(duo.l, fd[1], HTTP_1_1, NULL,
					   &client_ops, &duo);
}

void duo_open(void)
{
	duo_begin();
	duo_ask_open(NULL);
	T_WAIT(&duo, duo.opened);
	T_TRUE(duo.c.w && duo.s.w);
	T_INT(duo.status, 101);
}

void duo_end(void)
{
	duo.client = http_conn_free(duo.client);
	duo.server = http_conn_free(duo.server);
	duo.raw = fd_close(duo.raw);
	duo.l = loop_free(duo.l);
}

struct raw by_hand;

void say(const void *p, size_t n)
{
	T_INT(write(duo.raw, p, n), n);
}

void listen_for(size_t at_least)
{
	uint64_t end_ms = peer_now() + 20000;

	while (by_hand.n < at_least && !by_hand.eof && peer_now() < end_ms) {
		ssize_t n;

		loop_once(duo.l, 5);
		n = recv(duo.raw, by_hand.text + by_hand.n,
			 sizeof(by_hand.text) - 1 - by_hand.n, MSG_DONTWAIT);
		if (n > 0)
			by_hand.n += (size_t)n;
		else if (n == 0)
			by_hand.eof = true;
	}
	by_hand.text[by_hand.n] = 0;
}

void listen_for_word(const char *word)
{
	uint64_t end_ms = peer_now() + 20000;

	while (!strstr(by_hand.text, word) && !by_hand.eof &&
	       peer_now() < end_ms)
		listen_for(by_hand.n + 1);
	T_HAS(by_hand.text, word);
}

void duo_begin_raw(bool server)
{
	int fd[2];

	duo_sockets(fd);
	memset(&by_hand, 0, sizeof(by_hand));
	duo.raw = fd[1];
	if (server)
		duo.server = http_conn_server_take(duo.l, fd[0], HTTP_AUTO,
						   NULL, &server_ops, &duo);
	else
		duo.client = http_conn_client_take(duo.l, fd[0], HTTP_1_1, NULL,
						   &client_ops, &duo);
}

void duo_open_raw(void)
{
	duo_begin_raw(true);
	say(OPENING "\r\n", strlen(OPENING "\r\n"));
	listen_for_word("\r\n\r\n");
	T_TRUE(duo.s.w);
	by_hand.n = 0;
}

void say_frame(unsigned first, const void *p, size_t n)
{
	static const uint8_t mask[4];
	uint8_t head[WS_HEAD_MAX];
	size_t len = ws_frame_head(head, WS_CONT, n, mask);

	head[0] = (uint8_t)first;
	say(head, len);
	if (n)
		say(p, n);
}

void hear(const void *p, size_t n)
{
	listen_for(n);
	T_TRUE(by_hand.n >= n);
	T_TRUE(!memcmp(by_hand.text, p, n));
	by_hand.n -= n;
	memmove(by_hand.text, by_hand.text + n, by_hand.n);
}
