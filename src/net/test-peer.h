/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests: a server and a client on the two ends of one byte stream, in one
 * loop. The server answers by path:
 *
 *	/hello		200 and "hello"
 *	/echo		the request's body, with back-pressure
 *	/big?n=N	N bytes of the pattern
 *	/sink		reads all, then 200 and the count
 *	/stuck		reads nothing, answers nothing, until app.unstick
 *	/collect	collects up to app.collect_max, 200 or 413
 *	/early		413 at once, whatever the body
 *	/reset		resets
 *	/free		frees its own connection
 *	/none		sets no handler and does not answer
 *	/204, /long	status 204; a reply larger than HTTP_OUT_MAX
 *	/short, /over	promises 10 bytes, sends 5 / 15
 */

#include "base/loop.h"
#include "base/test.h"
#include "net/http.h"

struct app {
	unsigned requests, closed_ok, closed_err, bodies, conn_closes;
	uint64_t accepted; /* bytes that /big could write */
	uint64_t sunk;	   /* bytes read by /sink and /echo */
	size_t collect_max;
	struct http_stream *stuck; /* the last one */
	struct http_head seen;	   /* of the last request */
	unsigned in_call;	   /* calls of ours on the stack */
	unsigned nested;	   /* callbacks that came within one */
};

struct ask {
	struct http_stream *s;
	unsigned heads, bodies, closes, writables;
	int status;
	uint64_t got, sent, to_send, bad; /* bad: bytes against the pattern */
	char text[256];			  /* the body's first bytes */
	bool stop_reading;
	bool reset_on_body, free_on_head, free_on_body, free_on_close;
	bool cut;
	struct err e;
};

struct peer {
	struct loop *l;
	struct http_conn *server, *client;
	struct app app;
	unsigned server_closed, client_closed;
	struct err server_err, client_err;
};

/* One byte of the endless test pattern. */
uint8_t pattern(uint64_t at);

void peer_init(struct peer *p, enum http_version v,
	       const struct http_limits *server,
	       const struct http_limits *client);
/* Only the server; returns the other end of its socket, blocking with a
 * receive timeout. */
int peer_init_raw(struct peer *p, enum http_version v,
		  const struct http_limits *server);
/* Only the client. */
int peer_init_raw_server(struct peer *p, enum http_version v);
/* Over memory, handing out at most step bytes per read or write; capacity
 * bytes are in flight at most. */
void peer_init_memory(struct peer *p, size_t capacity, size_t step,
		      const struct http_limits *client);
/* Stop carrying bytes over the memory transport. */
void peer_cut_memory(void);
void peer_fini(struct peer *p);

extern const struct http_conn_ops peer_server_ops;

/* ---- a peer that writes bytes by hand ---- */

struct raw {
	int fd;
	char text[131072]; /* everything received, ? for NUL bytes */
	size_t n;
	bool eof;
};

void raw_send(struct raw *r, const char *text);
void raw_send_n(struct raw *r, const void *p, size_t n);
/* Run the loop and read until text holds the word; false at the end of file or
 * after too long. */
bool raw_wait(struct peer *p, struct raw *r, const char *word);
/* Run the loop and read until the end of file. */
bool raw_wait_eof(struct peer *p, struct raw *r);
/* How often the word is in text. */
unsigned raw_count(const struct raw *r, const char *word);
void raw_close(struct raw *r);

/* Start a request whose body is to_send bytes of the pattern. */
void ask_start(struct peer *p, struct ask *a, const char *method,
	       const char *path, uint64_t to_send);
/* Read on after stop_reading. */
void ask_resume(struct ask *a);
/* Answer the request that hangs in /stuck. */
void app_unstick(struct peer *p);

/* Run the loop until the condition holds; fail after a busy machine's worst. */
#define T_WAIT(p, cond)                                                        \
	do {                                                                   \
		uint64_t t_end_ = peer_now() + 20000;                          \
		while (!(cond) && peer_now() < t_end_)                         \
			loop_once((p)->l, 10);                                 \
		T_TRUE(cond);                                                  \
	} while (0)
uint64_t peer_now(void);
/* Run the loop for so many rounds without waiting for anything. */
void peer_spin(struct peer *p, unsigned rounds);

/* One test for each version. */
#define BOTH(id)                                                               \
	static void both_##id(enum http_version v);                            \
	TEST(h1_##id)                                                          \
	{                                                                      \
		both_##id(HTTP_1_1);                                           \
	}                                                                      \
	TEST(h2_##id)                                                          \
	{                                                                      \
		both_##id(HTTP_2);                                             \
	}                                                                      \
	static void both_##id(enum http_version v)
