/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests of WebSockets: a client and a server on one socket pair (duo), or
 * one of them against bytes by hand (by_hand).
 */

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

extern struct duo duo;
extern const struct ws_handler rig_handler;

void duo_sockets(int fd[2]);
/* Both ends; the client has not asked yet. */
void duo_begin(void);
void duo_ask_open(const char *subprotocols);
void duo_on_open(void *arg, struct ws *w, int status, const char *body,
		 size_t n, const struct err *e);
/* Both ends, open. */
void duo_open(void);
void duo_end(void);

/* ---- one side by hand ---- */

#define OPENING                                                                \
	"GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade"  \
	"\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"              \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

extern struct raw by_hand;

/* Only the server, or only the client. */
void duo_begin_raw(bool server);
/* A server that was asked and has answered. */
void duo_open_raw(void);
void say(const void *p, size_t n);
/* Send a frame as a client would, with a mask of zeros. */
void say_frame(unsigned first, const void *p, size_t n);
/* Run the loop and read into by_hand, up to so many bytes or the end. */
void listen_for(size_t at_least);
void listen_for_word(const char *word);
/* The next bytes must be these. */
void hear(const void *p, size_t n);
