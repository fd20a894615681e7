/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files behind net/http.h share: the connection, the stream, and the
 * table of what a protocol (http1_conn.c, http2.c) does for them.
 *
 * How a callback comes about: a protocol or a user's call only notes an event
 * on its stream (http_stream_event) and kicks the connection; events become
 * callbacks in http_conn_turn(), which runs from the loop. So nothing of the
 * user's ever runs inside nghttp2 or inside a call of his own. In a turn the
 * connection is `busy`: freeing it then only marks it dead, and the turn frees
 * the memory when it unwinds.
 *
 *	read -> proto->input -> events -> callbacks -> proto->pump -> write
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "net/http.h"

/* Serialised output held per connection: what is here already cannot be
 * overtaken by control frames or other streams, so it is little. */
#define HTTP_PUMP_MAX	 65536u
#define HTTP_READ_MAX	 65536u
#define HTTP_WINDOW_MAX	 (16u << 20)
#define HTTP_CLOSE_MS	 5000u /* to flush the last bytes */
#define HTTP_LINGER_MS	 1000u /* then for the peer to read them */
#define HTTP_SNIFF_MAX	 24u   /* the HTTP/2 preface */
#define HTTP_AUTHORITY	 "localhost"
#define HTTP_NEVER	 UINT64_MAX
#define HTTP_PING_MISSED 2u

enum http_event {
	HTTP_EV_REQUEST = 1,
	HTTP_EV_HEAD = 2,
	HTTP_EV_BODY = 4,
	HTTP_EV_WRITABLE = 8,
	HTTP_EV_CLOSE = 16,
	HTTP_EV_LATE = 32, /* server: the body comes too slowly */
};

/* Since when has what moved? See http_watch.c. */
struct http_watch {
	uint64_t since_ms;
	uint64_t bytes;
};

struct http_stream {
	struct http_conn *conn;
	struct list link;  /* in conn->streams */
	struct list ready; /* in conn->ready while events != 0 */
	unsigned events;
	unsigned busy; /* callbacks of this stream on the stack */
	struct http_collect *collect; /* takes the body in place of handler */
	const struct http_handler *handler;
	void *owner;
	struct http_head head; /* the peer's */
	struct buf in, out;
	struct err *err;    /* with cut */
	int64_t out_length; /* Content-Length we promised, or -1 */
	uint64_t out_bytes; /* taken by http_stream_write() */
	uint64_t in_bytes;  /* of body, received */
	struct http_watch in_watch, out_watch;
	size_t head_bytes; /* of the head being received */
	int32_t id;	   /* HTTP/2 */
	int refuse;	   /* status for a head that was too much */
	bool head_done;	   /* the peer's head is complete */
	bool in_end;	   /* the peer ended his side */
	bool eof_told;	   /* the user knows that */
	bool out_begun;	   /* our head is submitted */
	bool out_end;	   /* the user ended our side */
	bool out_done;	   /* and all of it is serialised */
	bool want_room;	   /* a write was short */
	bool no_body;	   /* our body is swallowed: HEAD, 204, 304 */
	bool head_request; /* the method is HEAD */
	bool cut;	   /* on_close(err) is due */
	bool complete;	   /* on_close(NULL) is due */
	bool closed;	   /* on_close was called */
	bool deferred;	   /* HTTP/2: nghttp2 waits for body bytes */
	bool own_reset;	   /* HTTP/2: RST_STREAM was our wish */
	bool duplex;	   /* server: lives on until the peer's end, too */
	bool patient;	   /* its body may come as slowly as it likes */
	bool proto_gone;   /* the protocol does not know it any more */
	char *upgrade;	   /* HTTP/1: protocol that the request asks for */
};

struct http_proto {
	/* Bytes from the peer, at most room(). A negative result ends the
	 * connection at once. */
	int (*input)(struct http_conn *c, const uint8_t *p, size_t n,
		     struct err *e);
	size_t (*room)(const struct http_conn *c);
	void (*eof)(struct http_conn *c);
	/* Serialise into c->out, up to HTTP_PUMP_MAX. */
	void (*pump)(struct http_conn *c);
	int (*request)(struct http_stream *s, const struct http_head *h,
		       bool body, struct err *e);
	void (*respond)(struct http_stream *s, const struct http_head *h);
	/* server: 101; NULL if the version has no such thing */
	void (*switch_over)(struct http_stream *s, const struct http_head *h);
	void (*wake)(struct http_stream *s); /* s->out or out_end changed */
	void (*consumed)(struct http_stream *s, size_t n);
	void (*reset)(struct http_stream *s);  /* tell the peer */
	void (*forget)(struct http_stream *s); /* s is about to be freed */
	void (*drain)(struct http_conn *c);
	void (*head_timeout)(struct http_conn *c);
	void (*ping)(struct http_conn *c); /* may be NULL */
	void (*free)(struct http_conn *c);
};

enum http_state {
	HTTP_OPEN,
	HTTP_CLOSING, /* flushing c->out */
	HTTP_LINGER,  /* flushed and shut down; the peer may read it in peace */
	HTTP_CLOSED,
};

struct http_conn {
	struct loop *loop;
	struct loop_io io;
	struct loop_defer defer;
	struct loop_timer timer;
	int fd; /* or -1 and: */
	struct http_transport *transport;
	const struct http_proto *proto; /* NULL while sniffing */
	void *state_of_proto;
	const struct http_conn_ops *ops;
	void *owner;
	struct http_limits lim;
	struct http_server *server;
	struct list server_link;
	uint8_t peer[16]; /* whose it is, for http_server's count */
	struct list streams, ready;
	size_t n_streams;
	struct buf out;
	struct err err;
	enum http_state state;
	enum http_version version;
	unsigned busy;
	unsigned pings;	      /* without an answer */
	uint64_t deadline_ms; /* CLOSING, LINGER */
	uint64_t head_ms;     /* a head began to arrive, or 0 */
	uint64_t idle_ms;     /* last time a stream was open */
	uint64_t ping_ms;     /* last one */
	uint64_t watch_ms;    /* next look at slow peers, or 0 */
	uint64_t sent;	      /* bytes the peer's socket took */
	struct http_watch out_watch;
	uint8_t sniff[HTTP_SNIFF_MAX];
	size_t n_sniff;
	bool is_server;
	bool draining;
	bool eof;      /* the peer's last byte was read */
	bool blocked;  /* the last write got EAGAIN */
	bool try_read; /* transport: http_conn_ready() was called */
	bool dead;     /* freed by the user during a turn */
	bool switched; /* HTTP/1: raw bytes, until it closes */
	bool shut_due; /* then: half-close once c->out is flushed */
};

extern const struct http_proto http1_proto;
extern const struct http_proto http2_proto;
void http1_start(struct http_conn *c);
void http2_start(struct http_conn *c);

/* Milliseconds between PINGs; a variable for tests. */
extern uint64_t http_ping_interval_ms;

/* ---- heads ---- */

/* Without http_head_add()'s checks; name is lower case already. */
void http_head_put(struct http_head *h, struct view name, struct view value);
/* A response that has no body whatever its fields say. method may be NULL. */
bool http_no_body(const char *method, int status);

/* ---- streams ---- */

struct http_stream *http_stream_new(struct http_conn *c);
void http_stream_event(struct http_stream *s, unsigned ev);
/* Cut with an error unless it is over already. */
void http_stream_cut(struct http_stream *s, const struct err *e);
/* Did the last change complete it? */
void http_stream_check(struct http_stream *s);
void http_stream_end_in(struct http_stream *s);
/* From now on it carries raw bytes. */
void http_stream_begin_switched(struct http_stream *s);
/* After bytes left s->out. */
void http_stream_drained(struct http_stream *s);
void http_stream_dispatch(struct http_stream *s);
/* on_writable shall come when there is room, as after a short write. */
void http_stream_want_room(struct http_stream *s);
/* http_stream_write() without HTTP_OUT_MAX. */
void http_stream_write_all(struct http_stream *s, const void *p, size_t n);
/* The collector's turn at body bytes, and at the end. */
void http_collect_body(struct http_stream *s);
void http_collect_close(struct http_stream *s, const struct err *e);
/* Unlink, and free unless one of its callbacks is running. */
void http_stream_drop(struct http_stream *s);

/* ---- slow peers ---- */

/* Until the next look, or HTTP_NEVER. */
uint64_t http_watch_interval(const struct http_conn *c);
void http_watch_look(struct http_conn *c);
void http_watch_reset(struct http_watch *w, uint64_t now, uint64_t bytes);
void http_stream_late(struct http_stream *s);

/* ---- refusals ---- */

#define HTTP_REQUEST_ID_MAX 32u
void http_request_id(char ret[HTTP_REQUEST_ID_MAX]);
/* The body, allocated; why: words of our own, without quotes. */
char *http_refusal_text(int status, const char *why, const char *request_id);
void http_refusal_head(struct http_head *h, int status, size_t length,
		       char request_id[HTTP_REQUEST_ID_MAX]);

/* ---- connections ---- */

/* Any role and version over a transport (fuzzing). */
struct http_conn *http_conn_over(struct loop *l, struct http_transport *t,
				 bool is_server, enum http_version v,
				 const struct http_conn_ops *ops, void *owner);

/* Run a turn from the loop soon. */
void http_conn_kick(struct http_conn *c);
/* Gone: cut every stream that is not complete. e may be NULL. */
void http_conn_fail(struct http_conn *c, const struct err *e);
/* No more input or streams; flush, then close. */
void http_conn_finish(struct http_conn *c, const struct err *e);

/* ---- servers ---- */

void http_server_forget(struct http_conn *c);
