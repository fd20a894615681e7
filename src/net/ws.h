/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * WebSocket, RFC 6455, both roles, on a stream that switched protocols.
 *
 * Strict: masked from clients, unmasked from servers, no reserved bits, no
 * extensions, minimal lengths, control frames whole and at most 125 bytes, text
 * valid UTF-8; messages up to the limit given, however they are fragmented,
 * with few empty fragments. Anything else closes with 1002, 1007, 1008 or 1009.
 * Ping every 20 s; a peer that sends nothing for 60 s is cut, unless it is we
 * who do not read (ws_hold). Of pings that come faster than pongs leave, the
 * newest is answered.
 *
 * Pressure goes both ways: ws_send() takes a whole message or none, and a
 * receiver that calls ws_hold() gets no more messages until it lets go: bytes
 * are read up to the end of the next message, so that pings and closes before
 * it are answered, and no further.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct ws;

struct ws_handler {
	/* A whole message; p is valid during the call. */
	void (*on_message)(struct ws *w, bool is_text, const uint8_t *p,
			   size_t n);
	/* Room again after ws_send() refused. May be NULL. */
	void (*on_writable)(struct ws *w);
	/* Over: code of the peer's close frame (1005: it had none), ours if it
	 * broke the protocol, 1006 if it was cut or did not answer our close
	 * frame. Called exactly once, last; freed when it returns. */
	void (*on_close)(struct ws *w, unsigned code, const char *reason);
};

/* ---- opening ---- */

/* Server: is this a well-formed opening (method, version 13, key)? 0 or a
 * negative errno with *e; -EPROTONOSUPPORT = wrong version (answer 426). */
int ws_server_check(const struct http_stream *s, struct err *e);
/* Does the client offer this subprotocol? */
bool ws_offers(const struct http_head *request, const char *subprotocol);
/* The first offered subprotocol that begins with prefix, without it, allocated;
 * NULL if none ("bearer." carries a browser's token). */
char *ws_offer_value(const struct http_head *request, const char *prefix);
/* Server: 101 on a stream that ws_server_check() accepted; takes the stream's
 * handler over. subprotocol NULL = none. extra may be NULL. max: bytes of a
 * message. */
struct ws *ws_server_open(struct loop *l, struct http_stream *s,
			  const char *subprotocol,
			  const struct http_head *extra, size_t max,
			  const struct ws_handler *h, void *owner);

/* Client: open over c (HTTP/1.1). head: path, authority, fields. on_open once
 * with w, or with w NULL and the refusal's status, body (at most 64 KiB) or *e.
 */
typedef void ws_opened(void *arg, struct ws *w, int status, const char *body,
		       size_t n, const struct err *e);
int ws_client_open(struct loop *l, struct http_conn *c,
		   const struct http_head *head, const char *subprotocols,
		   size_t max, const struct ws_handler *h, void *owner,
		   ws_opened *on_open, void *arg, struct err *e);

/* ---- open ---- */

void *ws_owner(const struct ws *w);
/* false: no room now, nothing taken; on_writable follows. A message larger than
 * ws_room() ever is goes alone, when nothing else is queued. Taken and dropped
 * once the WebSocket is closing. is_text: the caller vouches for UTF-8. */
bool ws_send(struct ws *w, bool is_text, const void *p, size_t n);
/* Bytes of payload that ws_send() would take now. */
size_t ws_room(const struct ws *w);
void ws_hold(struct ws *w, bool hold);
/* Send what is queued, then a close frame with up to 123 bytes of reason (may
 * be NULL); no message is given any more. on_close follows, at the latest 5 s
 * after the queue last moved. */
void ws_close(struct ws *w, unsigned code, const char *reason);
/* Cut. on_close(1006) follows from the loop. */
void ws_cut(struct ws *w);
/* No callback any more; cuts. Returns NULL. */
struct ws *ws_free(struct ws *w);
