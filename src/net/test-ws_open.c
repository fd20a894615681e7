/* SPDX-License-Identifier: Apache-2.0 */

/* Opening WebSockets, both roles. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "net/test-ws-rig.h"

TEST(the_rfc_example_key)
{
	char accept[WS_ACCEPT_LEN + 1];

	ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
	T_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(the_answer_to_an_opening)
{
	duo_begin_raw(true);
	duo.subprotocol = "caisson.exec.v1";
	say(OPENING "\r\n", strlen(OPENING "\r\n"));
	listen_for_word("\r\n\r\n");
	T_TRUE(!strncmp(by_hand.text,
			"HTTP/1.1 101 Switching Protocols\r\n"
			"connection: Upgrade\r\nupgrade: WebSocket\r\n",
			70));
	T_HAS(by_hand.text,
	      "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
	T_HAS(by_hand.text, "sec-websocket-protocol: caisson.exec.v1\r\n");
	T_HAS(by_hand.text, "x-extra: yes\r\n");
	T_TRUE(!strstr(by_hand.text, "content-length"));
	T_TRUE(!strstr(by_hand.text, "chunked"));
	duo_end();
}

/* An opening that is refused: status 400, and the connection ends. */
static void refused(const char *text, int check)
{
	duo_begin_raw(true);
	say(text, strlen(text));
	listen_for_word("400 Bad Request");
	T_INT(duo.check, check);
	T_TRUE(!duo.s.w);
	duo_end();
}

TEST(openings_that_are_refused)
{
	refused("GET /ws HTTP/1.1\r\nHost: a\r\n\r\n", -EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
		-EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\r\n",
		-EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: h2c, websocket\r\n\r\n",
		-EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nUpgrade: websocket\r\n\r\n",
		-EINVAL);
	refused("POST /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		-EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		-EPROTONOSUPPORT);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n\r\n",
		-EINVAL);
	refused("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
		-EINVAL);
	refused(OPENING "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		-EINVAL);
	refused(OPENING "Content-Length: 1\r\n\r\nx", -EINVAL);
}

TEST(a_refused_opening_ends_the_connection)
{
	/* else a proxy that believes in it would pass requests of others */
	duo_begin_raw(true);
	duo.refuse = 403;
	say(OPENING "\r\n" OPENING "\r\n", 2 * strlen(OPENING "\r\n"));
	listen_for(100000);
	T_TRUE(by_hand.eof);
	T_INT(raw_count(&by_hand, "HTTP/1.1 403"), 1);
	T_HAS(by_hand.text, "connection: close\r\n");
	duo_end();
}

TEST(bytes_behind_the_opening_are_frames)
{
	static const char early[] = OPENING "\r\n\x81\x80\0\0\0\0";

	duo_begin_raw(true);
	duo.s.echo = true;
	say(early, sizeof(early) - 1);
	T_WAIT(&duo, duo.s.messages == 1);
	duo_end();
}

TEST(offers)
{
	struct http_head h = { .status = 0 };
	char *v;

	http_head_add(&h, "sec-websocket-protocol", "a, caisson.exec.v1 ,b");
	http_head_add(&h, "sec-websocket-protocol", "bearer.tok-1,bearer.2");
	T_TRUE(ws_offers(&h, "a") && ws_offers(&h, "caisson.exec.v1"));
	T_TRUE(ws_offers(&h, "b") && ws_offers(&h, "bearer.2"));
	T_TRUE(!ws_offers(&h, "caisson.exec") && !ws_offers(&h, "c"));
	v = ws_offer_value(&h, "bearer.");
	T_STR(v, "tok-1");
	free(v);
	T_TRUE(!ws_offer_value(&h, "nobody."));
	http_head_fini(&h);
}

/* ---- clients ---- */

static const char *key_of_request(void)
{
	static char key[WS_KEY_LEN + 1];
	const char *p;

	listen_for_word("\r\n\r\n");
	p = strstr(by_hand.text, "sec-websocket-key: ");
	T_TRUE(p);
	snprintf(key, sizeof(key), "%.24s", p + 19);
	return key;
}

/* The client asked; answer with these fields behind the status line. */
static void answer_101(const char *fields, bool right_key)
{
	char accept[WS_ACCEPT_LEN + 1], text[512];

	duo_begin_raw(false);
	duo_ask_open("one, two");
	ws_accept_key(key_of_request(), accept);
	if (!right_key)
		accept[0] ^= 1;
	snprintf(text, sizeof(text),
		 "HTTP/1.1 101 x\r\nConnection: upgrade\r\n"
		 "Upgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
		 accept, fields);
	say(text, strlen(text));
	T_WAIT(&duo, duo.opened);
}

TEST(what_a_client_asks)
{
	duo_begin_raw(false);
	duo_ask_open("one, two");
	listen_for_word("\r\n\r\n");
	T_TRUE(!strncmp(by_hand.text, "GET /ws?x=1 HTTP/1.1\r\n", 22));
	T_HAS(by_hand.text, "connection: Upgrade\r\nupgrade: websocket\r\n");
	T_HAS(by_hand.text, "sec-websocket-version: 13\r\n");
	T_HAS(by_hand.text, "sec-websocket-protocol: one, two\r\n");
	duo_end();
	T_INT(duo.opened, 1);
	T_TRUE(!duo.c.w && duo.e.code);
	T_INT(duo.c.closes, 0);
}

TEST(a_client_takes_an_offered_subprotocol)
{
	answer_101("Sec-WebSocket-Protocol: two\r\n", true);
	T_TRUE(duo.c.w);
	say("\x81\x02hi", 4);
	T_WAIT(&duo, duo.c.messages == 1);
	say("\x81\x80\0\0\0\0", 6); /* masked */
	T_WAIT(&duo, duo.c.code == 0 || duo.c.closes);
	duo.raw = fd_close(duo.raw);
	T_WAIT(&duo, duo.c.closes);
	T_INT(duo.c.code, WS_PROTOCOL);
	duo_end();
}

TEST(a_client_refuses_a_wrong_answer)
{
	static const char *const fields[] = {
		"", "Sec-WebSocket-Protocol: three\r\n",
		"Sec-WebSocket-Extensions: permessage-deflate\r\n"
	};

	for (size_t i = 0; i < 3; i++) {
		answer_101(fields[i], i > 0);
		T_TRUE(!duo.c.w);
		T_INT(duo.status, 0);
		T_HAS(duo.e.msg, "does not speak WebSocket");
		T_INT(duo.c.closes, 0);
		duo_end();
	}
}

TEST(a_switch_to_something_else)
{
	duo_begin_raw(false);
	duo_ask_open(NULL);
	listen_for_word("\r\n\r\n");
	say("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	    54);
	T_WAIT(&duo, duo.opened);
	T_TRUE(!duo.c.w && duo.e.code);
	duo_end();
}

TEST(a_refusal_has_its_status_and_body)
{
	duo_begin();
	duo.refuse = 403;
	duo_ask_open(NULL);
	T_WAIT(&duo, duo.opened);
	T_INT(duo.status, 403);
	T_STR(duo.body, "go away");
	T_TRUE(!duo.c.w && !duo.e.code);
	duo_end();
}

TEST(an_opening_that_is_not_answered)
{
	ws_open_ms = 50;
	duo_begin_raw(false);
	duo_ask_open(NULL);
	T_WAIT(&duo, duo.opened);
	T_INT(duo.e.kind, ERR_TIMEOUT);
	ws_open_ms = 30000;
	duo_end();
}

TEST(a_client_cannot_open_over_http2)
{
	static const struct http_conn_ops ops = { .on_close = NULL };
	struct http_head h = { .path = xstrdup("/ws") };
	struct err e = { 0 };
	int fd[2];

	duo_sockets(fd);
	duo.raw = fd[1];
	duo.client =
	    http_conn_client_take(duo.l, fd[0], HTTP_2, NULL, &ops, &duo);
	T_TRUE(ws_client_open(duo.l, duo.client, &h, NULL, 100, &rig_handler,
			      &duo, duo_on_open, &duo, &e) < 0);
	T_HAS(e.msg, "HTTP/1.1");
	T_INT(duo.opened, 0);
	http_head_fini(&h);
	duo_end();
}
