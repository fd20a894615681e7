/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests: a client, the data plane, and a guest that says what it is told
 * to, in one loop.
 */

#include "base/test.h"
#include "monitor/data.h"
#include "monitor/frames.h"

#define EX	"ex_0123456789abcdefghijklmnopqr"
#define OUTPUT	"/v1/execs/" EX "/output?from=0&follow=1"
#define ATTACH	"/v1/execs/" EX "/attach?from=0"
#define BIG_MAX (4u << 20)

struct pair {
	const char *name, *value;
};

struct fake {
	struct loop *loop;
	struct data *data;
	struct http_conn *guest_server, *to_guest, *client;
	/* the guest's script */
	int status;
	const char *type, *extra_header;
	struct pair fields[8];
	const uint8_t *reply;
	size_t reply_n, reply_at;
	bool gives_length;
	bool guest_cuts, guest_holds;
	bool answers_first; /* before the request's body has come */
	bool is_duplex;
	/* what the guest saw */
	unsigned n_requests, n_cut;
	char seen[1024];
	uint8_t got[4096]; /* the body's first bytes */
	size_t got_n;
	bool got_end;
	struct http_stream *held, *guest;
	/* what the client says */
	struct pair asks[8];
	size_t put_n;
	bool put_holds; /* and does not end its body */
	/* what the client got */
	bool over, was_cut, reads_nothing, got_eof;
	int got_status;
	char got_type[64], got_head[1024];
	char body[BIG_MAX];
	size_t body_n;
};

extern struct fake *fake;

void start(void);
void stop(void);
/* Another way to the guest, whose end the test holds. */
void fake_to_guest(int fd);
void spin(unsigned rounds);
struct http_stream *send_request(const char *method, const char *path,
				 const char *accept, bool body);
/* Until the client's stream is over. */
void finish(void);
/* A request without body, to its end. */
void ask(const char *method, const char *path);
/* What the guest answers. */
void say(const void *p, size_t n);
/* The client writes put_n zeros. */
void client_writable(struct http_stream *s);
/* Write a frame: its bytes. */
size_t frame(uint8_t *to, uint8_t type, uint64_t offset, const void *p,
	     uint32_t n);
/* Run until it holds, or fail. */
#define T_UNTIL(cond)                                                          \
	do {                                                                   \
		for (int i_ = 0; i_ < 3000 && !(cond); i_++)                   \
			loop_once(fake->loop, 10);                             \
		T_TRUE(cond);                                                  \
	} while (0)
