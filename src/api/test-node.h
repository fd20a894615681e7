/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node for tests of the API: caisson-sandboxd's two sockets and a guest
 * daemon's answers, in C, in the test's own loop. It keeps no state but what it
 * was asked, and misbehaves on request.
 */

#include "base/loop.h"
#include "net/http.h"

enum fake_mode {
	FAKE_GOOD,
	FAKE_FULL,	/* ensure: 503 capacity */
	FAKE_HANGS,	/* ensure is never answered */
	FAKE_RESTARTED, /* first command: 409 wrong_incarnation */
	FAKE_GARBAGE,	/* ensure: 418 and no JSON */
	FAKE_BUILD_FAILS,
};

enum fake_guest {
	GUEST_GOOD,
	GUEST_TEAPOT,	/* status 418 */
	GUEST_NOT_UTF8, /* 200 with bytes that are no text */
	GUEST_HTML,	/* 200 with text/html */
	GUEST_CUTS,	/* the stream ends in the middle */
	GUEST_LIES,	/* an exec's record names another sandbox */
	GUEST_ABSENT,	/* DATA_NO_SANDBOX */
	GUEST_CLOSED,	/* DATA_NOT_READY */
	GUEST_REFUSES,	/* attach: 409 exec_expired */
	GUEST_RUNS,	/* output does not end */
	GUEST_FULL,	/* uploads: 507 before their end */
};

struct fake {
	struct loop *loop;
	struct http_server *rpc;
	struct loop_io data;
	int data_fd;
	struct http_conn *conns[64]; /* data connections */
	unsigned n_conns;
	enum fake_mode mode;
	enum fake_guest guest;
	const char *isolation;
	int64_t slots;
	unsigned n_ensure, n_end, n_prepare, n_poll, n_node, n_data;
	char last_ensure[4096], last_exec[8192], last_path[512];
	char last_idem[160], last_traceparent[64];
	uint64_t flood;		/* bytes of output that an attach gives */
	uint64_t acked;		/* newest ACK of an attach */
	uint8_t control;	/* newest SIZE or SIGNAL */
	unsigned n_attached;	/* open attaches */
	struct http_conn *web;	/* the server behind port 80 */
	uint64_t uploaded;	/* bytes of the last upload */
	uint64_t download;	/* bytes that a file read gives */
	uint64_t download_sent; /* accepted by the stream so far */
};

/* The duplex streams of a guest (test-duplex.c): attach and tunnel. */
void fake_duplex(struct fake *f, struct http_stream *s);

void fake_start(struct fake *f, struct loop *l, const char *dir);
void fake_stop(struct fake *f);
