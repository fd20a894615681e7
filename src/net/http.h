/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request/response façade over HTTP/1.1 and HTTP/2, both roles.
 *
 * A connection (http_conn) runs over a descriptor or over any byte transport
 * and carries streams (http_stream), each one request and one response. Bodies
 * are pulled: bytes wait in the stream until http_stream_consume() takes them,
 * and only then does the peer get credit for more (HTTP/2 window, HTTP/1
 * socket). Writes are accepted up to HTTP_OUT_MAX per stream; a short write is
 * followed by on_writable when there is room again.
 *
 * HTTP/1.1 is strict: one Host, no obsolete folding, no whitespace before the
 * colon, Content-Length xor Transfer-Encoding: chunked, CRLF only, no bare CR,
 * no trailers passed up. Anything else is answered 400 and the connection ends.
 *
 * Callbacks run on the connection's loop, never from within a call made by
 * the user of the stream, and may free their owner. The one exception is
 * http_conn_free(), which calls on_close of every stream before it returns, so
 * that nothing is called after it.
 *
 * A client must take the whole response (http_stream_eof) or reset the stream;
 * on_close(NULL) waits for that. A server's stream is over with the last byte
 * of its response; what is left of the request is discarded.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

#define HTTP_OUT_MAX 262144u /* bytes queued per stream before short writes */
#define HTTP_IN_MAX  65536u  /* default window of a stream, see http_limits */

enum http_version { HTTP_AUTO, HTTP_1_1, HTTP_2 }; /* AUTO: servers only */

struct http_field {
	char *name; /* lower case */
	char *value;
};

/* Everything in it is its own (xstrdup) and freed by http_head_fini(). */
struct http_head {
	char *method;	 /* requests */
	char *path;	 /* requests: origin form, with query, not decoded */
	char *authority; /* requests: Host or :authority; may be NULL on h2 */
	int status;	 /* responses */
	struct http_field *fields;
	size_t n_fields;
};

void http_head_init(struct http_head *h);
void http_head_fini(struct http_head *h);
/* Copies. name must be lower case and, with value, free of CR, LF and NUL
 * (CHECKed: filter peers' bytes before). */
void http_head_add(struct http_head *h, const char *name, const char *value);
/* First value, or NULL. */
const char *http_head_get(const struct http_head *h, const char *name);
/* Content-Length as a number; -1 if absent. */
int64_t http_head_length(const struct http_head *h);

struct http_conn;
struct http_stream;

struct http_handler {
	/* Client: the final response's head is there. NULL on servers. */
	void (*on_head)(struct http_stream *s);
	/* Body bytes or its end are readable. */
	void (*on_body)(struct http_stream *s);
	/* Room again after a short write. May be NULL. */
	void (*on_writable)(struct http_stream *s);
	/* Over: both sides ended (e == NULL) or it was cut. Always called,
	 * exactly once, last; the stream is freed when it returns. */
	void (*on_close)(struct http_stream *s, const struct err *e);
};

struct http_limits {	   /* 0 = the default in brackets */
	size_t head_bytes; /* [32768] names + values */
	size_t fields;	   /* [100] */
	unsigned streams;  /* [256] at once, per connection */
	/* [HTTP_IN_MAX] body bytes held per stream. Over HTTP/2 a stream moves
	 * this much per round trip, so it is what limits an upload from afar or
	 * through a slow hop; a peer can make us hold it times `streams`. */
	size_t window;
	uint64_t head_timeout_ms; /* [10000] from first byte to end of head */
	uint64_t idle_timeout_ms; /* [75000] no stream open; UINT64_MAX = never;
				     clients and transports: 0 = never, too */
	/* [30000 on TCP, else never] a server reads a body: 4 KiB of it must
	 * come in this time, or its end; else 408 */
	uint64_t body_timeout_ms;
	/* [60000 for TCP servers, else never] a peer must take 4 KiB of what
	 * waits for it in this time, or all; else it is cut */
	uint64_t write_timeout_ms;
	unsigned conns;		 /* [1024] per http_server */
	unsigned conns_per_peer; /* [conns / 4] from one IP address (of IPv6:
				    one /64); more get 429 */
	bool ping; /* HTTP/2 client: keep alive by PING every 15 s */
};

struct http_conn_ops {
	/* Server: a request's head. Call http_stream_handle() in here; a stream
	 * without handler is answered 500. */
	void (*on_request)(struct http_conn *c, struct http_stream *s);
	/* Closed; called once; freed when it returns. May be NULL on servers.
	 */
	void (*on_close)(struct http_conn *c, const struct err *e);
};

/* ---- connections ---- */

/* Over a connected stream socket, which is taken over. */
struct http_conn *http_conn_server_take(struct loop *l, int fd,
					enum http_version v,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner);
struct http_conn *http_conn_client_take(struct loop *l, int fd,
					enum http_version v,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner);

/* A byte transport that is not a descriptor (the guest channel). The user
 * calls http_conn_ready() when read or write may succeed again. */
struct http_transport {
	ssize_t (*read)(struct http_transport *t, void *p, size_t n);
	ssize_t (*write)(struct http_transport *t, const void *p, size_t n);
	/* Both: bytes, 0 = end of stream (read), -EAGAIN, or -errno. */
};
/* HTTP/2 only. t is borrowed and must outlive the connection. */
struct http_conn *http_conn_server_over(struct loop *l,
					struct http_transport *t,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner);
struct http_conn *http_conn_client_over(struct loop *l,
					struct http_transport *t,
					const struct http_limits *lim,
					const struct http_conn_ops *ops,
					void *owner);
void http_conn_ready(struct http_conn *c);

void *http_conn_owner(const struct http_conn *c);
int http_conn_fd(const struct http_conn *c); /* -1 over a transport */
size_t http_conn_streams(const struct http_conn *c);
/* No new streams; closes when the open ones are done. */
void http_conn_drain(struct http_conn *c);
/* Cuts all streams (on_close with ERR_UNAVAILABLE) and frees, without calling
 * the connection's own on_close. */
struct http_conn *http_conn_free(struct http_conn *c);

/* ---- servers ---- */

struct http_server;
/* Accepts on listen_fd (taken over); every connection uses ops and owner.
 * http_conn_owner() of such a connection is `owner`. */
struct http_server *http_server_new_take(struct loop *l, int listen_fd,
					 enum http_version v,
					 const struct http_limits *lim,
					 const struct http_conn_ops *ops,
					 void *owner);
/* Stop accepting, drain; on_drained (may be NULL) when none is left. */
void http_server_stop(struct http_server *s, void (*on_drained)(void *owner));
struct http_server *http_server_free(struct http_server *s);

/* ---- streams ---- */

/* Client: start a request. body: whether http_stream_write/_end will follow;
 * without it the request is complete. NULL with *e if the connection is gone,
 * draining or full (ERR_UNAVAILABLE). HTTP/1.1: one stream at a time. */
struct http_stream *http_conn_request(struct http_conn *c,
				      const struct http_head *head, bool body,
				      const struct http_handler *h, void *owner,
				      struct err *e);

void http_stream_handle(struct http_stream *s, const struct http_handler *h,
			void *owner);
void *http_stream_owner(const struct http_stream *s);
struct http_conn *http_stream_conn(const struct http_stream *s);
/* Server: the request's head. Client: the response's, NULL before on_head. */
const struct http_head *http_stream_head(const struct http_stream *s);

/* Readable body bytes; 0 if none now. Valid until consume or return to loop. */
size_t http_stream_peek(struct http_stream *s, const uint8_t **ret);
void http_stream_consume(struct http_stream *s, size_t n);
bool http_stream_eof(const struct http_stream *s); /* all consumed, ended */

/* Server: send the response's head; body false ends the stream. Content-Length
 * is the caller's to add if known, else HTTP/1.1 uses chunks. */
void http_stream_respond(struct http_stream *s, const struct http_head *head,
			 bool body);
/* Server: head + whole body in one go; text may be NULL. */
void http_stream_reply(struct http_stream *s, int status,
		       const char *content_type, const void *body, size_t n);
/* Accepts 0..n bytes; less than n means: wait for on_writable. On a stream that
 * is cut already everything is accepted and dropped. Bytes beyond the promised
 * Content-Length, or an end before it, reset the stream. */
size_t http_stream_write(struct http_stream *s, const void *p, size_t n);
size_t http_stream_room(const struct http_stream *s);
void http_stream_end(struct http_stream *s);
/* Server, before the response's head: the end of the response does not end the
 * stream (half-close); it is over when the request was read to its end, too. A
 * peer that never ends its side is the caller's to reset. HTTP/2 and streams
 * that switched only; HTTP/1.1 ends the stream with the response. */
void http_stream_duplex(struct http_stream *s);
/* Server: this request's body may come as slowly as its sender likes. */
void http_stream_patient(struct http_stream *s);
/* Server: reply with an error in the product's form {error:{code, message,
 * cause:"request", remedy, request_id}}, as the façade itself does for what
 * never reaches a handler (400, 408, 413, 414, 417, 426, 431, 501, 505). why is
 * a text of the caller's own, without quotes. */
void http_stream_refuse(struct http_stream *s, int status, const char *why);
/* Cut the stream (RST_STREAM, or the HTTP/1 connection). on_close follows
 * from the loop. */
void http_stream_reset(struct http_stream *s);

/* ---- switching protocols (HTTP/1.1 only; RFC 9110 §7.8) ---- */

/* Server: the one token of Upgrade if the request asks to switch (Connection
 * names it, no body), else NULL. On HTTP/2 always NULL: extended CONNECT is not
 * offered, so browsers open such connections over HTTP/1.1. */
const char *http_stream_upgrade(const struct http_stream *s);
/* Server: answer 101 with head's fields (Upgrade and Connection are added).
 * From then on the stream carries raw bytes both ways through peek, consume,
 * write, room and end (half-close); eof = the peer has half-closed. */
void http_stream_switch(struct http_stream *s, const struct http_head *head);
/* Client: ask to switch. on_head with 101: raw bytes as above. Any other
 * status: an ordinary answer. *head without Upgrade and Connection, they are
 * added. */
struct http_stream *http_conn_switch(struct http_conn *c,
				     const struct http_head *head,
				     const char *protocol,
				     const struct http_handler *h, void *owner,
				     struct err *e);

/* ---- helpers ---- */

/* Collect a body up to max bytes, then call done(owner of collect, body, n, e):
 * e set if cut, ERR_EXHAUSTED if larger. For requests and responses alike; it
 * is the stream's handler from then on until done is called. The head handler
 * of a client stream is called as on_head if given. */
struct http_collect;
void http_stream_collect(struct http_stream *s, size_t max,
			 void (*done)(struct http_stream *s, void *owner,
				      const void *body, size_t n,
				      const struct err *e),
			 void *owner);

/* One call of a client: request with an optional JSON body, whole answer.
 * status is 0 if e is set. body is valid during the call. */
int http_call(struct http_conn *c, const char *method, const char *path,
	      const char *body, size_t max, uint64_t timeout_ms,
	      void (*done)(void *arg, int status, const char *body, size_t n,
			   const struct err *e),
	      void *arg, struct err *e);

/* Value of a query parameter of a request path, decoded, allocated; NULL if
 * absent or malformed. */
char *http_query_get(const char *path, const char *name);
