/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP/2: many streams, flow control, and peers who play by other rules. */

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/http_int.h"
#include "net/test-peer.h"

/* ---- many streams ---- */

TEST(two_hundred_streams_at_once)
{
	static struct ask a[200];
	struct peer p;
	unsigned closed = 0;

	memset(a, 0, sizeof(a));
	peer_init(&p, HTTP_2, NULL, NULL);
	for (int i = 0; i < 200; i++)
		ask_start(&p, &a[i], "POST", "/echo", 100000);
	T_INT(http_conn_streams(p.client), 200);
	while (closed < 200) {
		closed = 0;
		T_WAIT(&p, true);
		loop_once(p.l, 10);
		for (int i = 0; i < 200; i++)
			closed += a[i].closes;
	}
	for (int i = 0; i < 200; i++) {
		T_INT(a[i].got, 100000);
		T_INT(a[i].bad, 0);
		T_INT(a[i].cut, 0);
	}
	T_INT(p.app.requests, 200);
	peer_fini(&p);
}

TEST(a_full_client_says_so)
{
	struct http_limits lim = { .streams = 2 };
	struct ask a[3] = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, &lim);
	for (int i = 0; i < 3; i++)
		ask_start(&p, &a[i], "GET", "/stuck", 0);
	T_TRUE(a[0].s && a[1].s);
	T_TRUE(!a[2].s);
	T_INT(a[2].e.kind, ERR_UNAVAILABLE);
	peer_fini(&p);
}

TEST(requests_above_the_servers_limit_wait)
{
	struct http_limits lim = { .streams = 2 };
	struct ask a[6] = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, &lim, NULL);
	ask_start(&p, &a[0], "GET", "/hello", 0);
	T_WAIT(&p, a[0].closes); /* now the limit is known */
	for (int i = 1; i < 6; i++)
		ask_start(&p, &a[i], "GET", "/hello", 0);
	for (int i = 1; i < 6; i++) {
		T_WAIT(&p, a[i].closes);
		T_STR(a[i].text, "hello");
	}
	peer_fini(&p);
}

TEST(a_stopped_reader_does_not_stop_the_others)
{
	struct ask slow[20] = { 0 }, fast = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	for (int i = 0; i < 20; i++) {
		slow[i].stop_reading = true;
		ask_start(&p, &slow[i], "GET", "/big?n=50000000", 0);
	}
	for (int i = 0; i < 20; i++)
		T_WAIT(&p, slow[i].bodies);
	peer_spin(&p, 50);
	/* 20 full windows exceed the connection's: its credit came back */
	ask_start(&p, &fast, "POST", "/echo", 3000000);
	T_WAIT(&p, fast.closes);
	T_INT(fast.got, 3000000);
	T_INT(fast.bad, 0);
	peer_fini(&p);
}

TEST(a_stopped_server_stream_does_not_stop_the_others)
{
	struct ask slow[20] = { 0 }, fast = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	for (int i = 0; i < 20; i++)
		ask_start(&p, &slow[i], "POST", "/stuck", 50000000);
	T_WAIT(&p, p.app.requests == 20);
	peer_spin(&p, 50);
	ask_start(&p, &fast, "POST", "/echo", 3000000);
	T_WAIT(&p, fast.closes);
	T_INT(fast.bad, 0);
	for (int i = 0; i < 20; i++)
		T_TRUE(slow[i].sent <= HTTP_OUT_MAX + 2 * HTTP_IN_MAX);
	peer_fini(&p);
}

TEST(a_reset_stream_leaves_the_others_alone)
{
	struct ask a = { .reset_on_body = true }, b = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=5000000", 0);
	ask_start(&p, &b, "GET", "/big?n=5000000", 0);
	T_WAIT(&p, a.closes && b.closes && p.app.closed_err);
	T_INT(b.got, 5000000);
	T_INT(b.bad, 0);
	T_INT(p.app.closed_ok, 1);
	peer_fini(&p);
}

TEST(a_request_reset_before_it_left_never_leaves)
{
	struct ask a = { 0 }, b = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	http_stream_reset(a.s);
	T_WAIT(&p, a.closes);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, b.closes);
	T_INT(p.app.requests, 1);
	peer_fini(&p);
}

TEST(draining_server_refuses_what_comes_later)
{
	struct ask a = { 0 }, b = { 0 };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	http_conn_drain(p.server);
	/* sent before the GOAWAY is seen, processed after */
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, b.closes);
	T_INT(b.cut, 1);
	T_INT(b.e.kind, ERR_UNAVAILABLE);
	T_INT(p.app.requests, 1);
	app_unstick(&p);
	T_WAIT(&p, a.closes && p.client_closed);
	T_STR(a.text, "hello");
	peer_fini(&p);
}

/* ---- over memory ---- */

static void over_memory(size_t capacity, size_t step, uint64_t n)
{
	struct ask a = { 0 }, b = { 0 };
	struct peer p;

	peer_init_memory(&p, capacity, step, NULL);
	ask_start(&p, &a, "POST", "/echo", n);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, a.closes && b.closes);
	T_INT(a.got, n);
	T_INT(a.bad, 0);
	T_STR(b.text, "hello");
	T_INT(http_conn_fd(p.client), -1);
	peer_fini(&p);
}

TEST(a_wider_window_holds_more_and_no_more)
{
	struct http_limits lim = { .window = 1u << 20 };
	struct ask a = { .stop_reading = true };
	struct peer p;

	peer_init(&p, HTTP_2, NULL, &lim);
	ask_start(&p, &a, "GET", "/big?n=10000000", 0);
	T_WAIT(&p, p.app.accepted > (1u << 20));
	peer_spin(&p, 50);
	T_TRUE(p.app.accepted <= HTTP_OUT_MAX + 2 * lim.window);
	ask_resume(&a);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 10000000);
	T_INT(a.bad, 0);
	peer_fini(&p);
}

TEST(a_transport_carries_streams)
{
	over_memory(65536, 65536, 1000000);
}

TEST(a_tiny_transport_carries_streams)
{
	over_memory(100, 100, 100000);
}

TEST(a_transport_of_single_bytes_carries_streams)
{
	over_memory(3, 1, 2000);
}

TEST(a_transport_stops_with_its_reader)
{
	struct ask a = { .stop_reading = true };
	struct peer p;

	peer_init_memory(&p, 65536, 65536, NULL);
	ask_start(&p, &a, "GET", "/big?n=10000000", 0);
	T_WAIT(&p, a.bodies);
	peer_spin(&p, 50);
	T_TRUE(p.app.accepted <= HTTP_OUT_MAX + 2 * HTTP_IN_MAX);
	ask_resume(&a);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 10000000);
	peer_fini(&p);
}

/* ---- keep-alive ---- */

TEST(pings_find_a_dead_peer)
{
	struct http_limits lim = { .ping = true };
	struct ask a = { 0 };
	struct peer p;

	http_ping_interval_ms = 20;
	peer_init_memory(&p, 65536, 65536, &lim);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	peer_cut_memory();
	T_WAIT(&p, p.client_closed);
	http_ping_interval_ms = 15000;
	T_INT(a.closes, 1);
	T_INT(a.cut, 1);
	T_INT(p.client_err.kind, ERR_TIMEOUT);
	peer_fini(&p);
}

TEST(pings_keep_a_quiet_connection)
{
	struct http_limits lim = { .ping = true };
	struct ask a = { 0 };
	struct peer p;
	uint64_t end;

	http_ping_interval_ms = 20;
	peer_init_memory(&p, 65536, 65536, &lim);
	end = peer_now() + 300;
	T_WAIT(&p, peer_now() > end);
	http_ping_interval_ms = 15000;
	T_INT(p.client_closed, 0);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "hello");
	peer_fini(&p);
}

/* ---- a client with nghttp2 and bad manners ---- */

struct rude {
	struct peer p;
	int fd;
	nghttp2_session *session;
	int status;	      /* of the last response */
	uint32_t goaway, rst; /* last codes + 1 */
	unsigned closed;
	size_t body;
	bool eof;
};

static int rude_header(nghttp2_session *session, const nghttp2_frame *f,
		       const uint8_t *name, size_t n, const uint8_t *value,
		       size_t n_value, uint8_t flags, void *user)
{
	struct rude *r = user;

	(void)session;
	(void)f;
	(void)flags;
	if (n == 7 && !memcmp(name, ":status", 7) && n_value == 3)
		r->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 +
			    (value[2] - '0');
	return 0;
}

static int rude_frame(nghttp2_session *session, const nghttp2_frame *f,
		      void *user)
{
	struct rude *r = user;

	(void)session;
	if (f->hd.type == NGHTTP2_GOAWAY)
		r->goaway = f->goaway.error_code + 1;
	else if (f->hd.type == NGHTTP2_RST_STREAM)
		r->rst = f->rst_stream.error_code + 1;
	return 0;
}

static int rude_data(nghttp2_session *session, uint8_t flags, int32_t id,
		     const uint8_t *p, size_t n, void *user)
{
	struct rude *r = user;

	(void)session;
	(void)flags;
	(void)id;
	(void)p;
	r->body += n;
	return 0;
}

static int rude_close(nghttp2_session *session, int32_t id, uint32_t code,
		      void *user)
{
	struct rude *r = user;

	(void)session;
	(void)id;
	(void)code;
	r->closed++;
	return 0;
}

static void rude_init(struct rude *r, const struct http_limits *lim)
{
	nghttp2_session_callbacks *cbs;
	nghttp2_option *o;

	memset(r, 0, sizeof(*r));
	r->fd = peer_init_raw(&r->p, HTTP_2, lim);
	CHECK(nghttp2_session_callbacks_new(&cbs) == 0);
	CHECK(nghttp2_option_new(&o) == 0);
	nghttp2_option_set_no_http_messaging(o, 1);
	nghttp2_option_set_max_send_header_block_length(o, 1000000);
	nghttp2_session_callbacks_set_on_header_callback(cbs, rude_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, rude_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs,
								  rude_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cbs, rude_close);
	CHECK(nghttp2_session_client_new2(&r->session, cbs, r, o) == 0);
	nghttp2_session_callbacks_del(cbs);
	nghttp2_option_del(o);
	CHECK(nghttp2_submit_settings(r->session, 0, NULL, 0) == 0);
}

static void rude_fini(struct rude *r)
{
	nghttp2_session_del(r->session);
	fd_close(r->fd);
	peer_fini(&r->p);
}

static void rude_step(struct rude *r)
{
	uint8_t block[16384];
	const uint8_t *p;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(r->session, &p)) > 0) {
		/* the server may have had enough of us */
		if (send(r->fd, p, (size_t)n, MSG_NOSIGNAL) < 0)
			break;
		loop_once(r->p.l, 0);
	}
	loop_once(r->p.l, 1);
	while ((n = recv(r->fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
		(void)nghttp2_session_mem_recv(r->session, block, (size_t)n);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		r->eof = true;
}

#define R_WAIT(r, cond)                                                        \
	do {                                                                   \
		uint64_t r_end_ = peer_now() + 20000;                          \
		while (!(cond) && peer_now() < r_end_)                         \
			rude_step(r);                                          \
		T_TRUE(cond);                                                  \
	} while (0)

static void rude_ask_n(struct rude *r, const char *const *nv, size_t n)
{
	nghttp2_nv v[210];

	CHECK(n / 2 <= ARRAY_SIZE(v));
	for (size_t i = 0; i < n / 2; i++) {
		v[i] = (nghttp2_nv){
			.name = (uint8_t *)(uintptr_t)nv[2 * i],
			.namelen = strlen(nv[2 * i]),
			.value = (uint8_t *)(uintptr_t)nv[2 * i + 1],
			.valuelen = strlen(nv[2 * i + 1]),
		};
	}
	CHECK(nghttp2_submit_request(r->session, NULL, v, n / 2, NULL, NULL) >
	      0);
}

/*
 * The error code + 1 of the first RST_STREAM or GOAWAY that the server sends,
 * past the session: it knows nothing of streams that were written by hand.
 */
static uint32_t raw_code(struct rude *r)
{
	uint64_t end = peer_now() + 20000;
	uint8_t in[8192];
	size_t n = 0, at = 0;

	while (peer_now() < end && n < sizeof(in)) {
		ssize_t k = recv(r->fd, in + n, sizeof(in) - n, MSG_DONTWAIT);

		n += k > 0 ? (size_t)k : 0;
		while (n - at >= 9 &&
		       n - at >= 9 + (size_t)in[at + 1] * 256 + in[at + 2]) {
			if (in[at + 3] == NGHTTP2_RST_STREAM)
				return in[at + 12] + 1u;
			if (in[at + 3] == NGHTTP2_GOAWAY)
				return in[at + 16] + 1u;
			at += 9 + (size_t)in[at + 1] * 256 + in[at + 2];
		}
		loop_once(r->p.l, 5);
	}
	return 0;
}

#define RUDE_ASK(r, ...)                                                       \
	rude_ask_n((r), (const char *const[]){ __VA_ARGS__ },                  \
		   sizeof((const char *const[]){ __VA_ARGS__ }) /              \
		       sizeof(char *))

TEST(a_rude_client_can_be_polite)
{
	struct rude r;

	rude_init(&r, NULL);
	RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path", "/hello",
		 ":authority", "x");
	R_WAIT(&r, r.closed);
	T_INT(r.status, 200);
	T_INT(r.body, 5);
	rude_fini(&r);
}

static void expect_status(int status, const char *const *nv, size_t n)
{
	struct rude r;

	rude_init(&r, NULL);
	rude_ask_n(&r, nv, n);
	R_WAIT(&r, r.closed);
	T_INT(r.status, status);
	T_INT(r.p.app.requests, 0);
	/* the connection is fine */
	RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path", "/hello",
		 ":authority", "x");
	R_WAIT(&r, r.body >= 5 && r.closed == 2);
	T_INT(r.status, 200);
	rude_fini(&r);
}

#define REFUSES(id, status, ...)                                               \
	TEST(refuses_##id)                                                     \
	{                                                                      \
		const char *const nv[] = { __VA_ARGS__ };                      \
		expect_status((status), nv, ARRAY_SIZE(nv));                   \
	}

REFUSES(connect, 501, ":method", "CONNECT", ":authority", "a:80")
REFUSES(the_asterisk, 400, ":method", "OPTIONS", ":scheme", "http", ":path",
	"*", ":authority", "x")
REFUSES(a_fragment, 400, ":method", "GET", ":scheme", "http", ":path", "/a#b",
	":authority", "x")
REFUSES(two_hosts, 400, ":method", "GET", ":scheme", "http", ":path", "/",
	":authority", "x", "host", "y")
REFUSES(a_user_in_the_authority, 400, ":method", "GET", ":scheme", "http",
	":path", "/", ":authority", "a@b")
REFUSES(an_endless_method, 400, ":method",
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", ":scheme", "http", ":path",
	"/", ":authority", "x")

/* nghttp2 refuses these itself, by a reset. */
static void expect_reset(const char *const *nv, size_t n)
{
	struct rude r;

	rude_init(&r, NULL);
	rude_ask_n(&r, nv, n);
	R_WAIT(&r, r.rst);
	T_INT(r.rst, NGHTTP2_PROTOCOL_ERROR + 1);
	T_INT(r.p.app.requests, 0);
	rude_fini(&r);
}

#define RESETS(id, ...)                                                        \
	TEST(resets_##id)                                                      \
	{                                                                      \
		const char *const nv[] = { __VA_ARGS__ };                      \
		expect_reset(nv, ARRAY_SIZE(nv));                              \
	}

RESETS(a_missing_path, ":method", "GET", ":scheme", "http", ":authority", "x")
RESETS(a_missing_method, ":scheme", "http", ":path", "/", ":authority", "x")
RESETS(a_relative_path, ":method", "GET", ":scheme", "http", ":path", "a",
       ":authority", "x")
RESETS(connection_fields, ":method", "GET", ":scheme", "http", ":path", "/",
       ":authority", "x", "connection", "close")
RESETS(transfer_encoding, ":method", "GET", ":scheme", "http", ":path", "/",
       ":authority", "x", "transfer-encoding", "chunked")
RESETS(two_paths, ":method", "GET", ":scheme", "http", ":path", "/", ":path",
       "/b", ":authority", "x")
RESETS(pseudo_fields_after_others, ":method", "GET", ":scheme", "http", "a",
       "b", ":path", "/", ":authority", "x")
RESETS(bad_lengths, ":method", "GET", ":scheme", "http", ":path", "/",
       ":authority", "x", "content-length", "5,5")

TEST(resets_upper_case_names)
{
	struct rude r;

	rude_init(&r, NULL);
	rude_step(&r);
	/* GET http /, and X-A: b */
	T_INT(write_all(r.fd, "\0\0\15\1\5\0\0\0\1\x82\x86\x84\1\1x\0\3X-A\1b",
			22),
	      0);
	T_INT(raw_code(&r), NGHTTP2_PROTOCOL_ERROR + 1);
	T_INT(r.p.app.requests, 0);
	rude_fini(&r);
}

TEST(host_stands_in_for_the_authority)
{
	struct rude r;

	rude_init(&r, NULL);
	RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path", "/hello",
		 "host", "y.test");
	R_WAIT(&r, r.closed);
	T_INT(r.status, 200);
	T_STR(r.p.app.seen.authority, "y.test");
	T_TRUE(!http_head_get(&r.p.app.seen, "host"));
	rude_fini(&r);
}

TEST(large_heads_get_431)
{
	struct rude r;
	static char value[40001];

	memset(value, 'a', sizeof(value) - 1);
	rude_init(&r, NULL);
	RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path", "/hello",
		 ":authority", "x", "a", value);
	R_WAIT(&r, r.closed);
	T_INT(r.status, 431);
	T_INT(r.p.app.requests, 0);
	rude_fini(&r);
}

TEST(many_fields_get_431)
{
	const char *nv[8 + 2 * 200] = { ":method",    "GET",   ":scheme",
					"http",	      ":path", "/hello",
					":authority", "x" };
	struct rude r;

	for (size_t i = 8; i < ARRAY_SIZE(nv); i += 2) {
		nv[i] = "a";
		nv[i + 1] = "b";
	}
	rude_init(&r, NULL);
	rude_ask_n(&r, nv, ARRAY_SIZE(nv));
	R_WAIT(&r, r.closed);
	T_INT(r.status, 431);
	T_INT(r.p.app.requests, 0);
	rude_fini(&r);
}

TEST(a_bad_preface_ends_the_connection)
{
	struct rude r;

	rude_init(&r, NULL);
	T_INT(write_all(r.fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27), 0);
	T_WAIT(&r.p, r.p.server_closed);
	T_INT(r.p.server_err.kind, ERR_INVALID);
	rude_fini(&r);
}

TEST(garbage_frames_end_the_connection)
{
	struct rude r;

	rude_init(&r, NULL);
	rude_step(&r);
	/* DATA on stream 0 */
	T_INT(write_all(r.fd, "\0\0\1\0\0\0\0\0\0x", 10), 0);
	R_WAIT(&r, r.goaway && r.p.server_closed);
	T_INT(r.goaway, NGHTTP2_PROTOCOL_ERROR + 1);
	rude_fini(&r);
}

TEST(an_oversized_frame_ends_the_connection)
{
	struct rude r;

	rude_init(&r, NULL);
	rude_step(&r);
	/* 1 MiB of HEADERS announced */
	T_INT(write_all(r.fd, "\x10\0\0\1\4\0\0\0\1", 9), 0);
	R_WAIT(&r, r.goaway);
	T_INT(r.goaway, NGHTTP2_FRAME_SIZE_ERROR + 1);
	rude_fini(&r);
}

TEST(rapid_resets_end_the_connection)
{
	struct rude r;

	rude_init(&r, NULL);
	for (int i = 0; i < 3000 && !r.goaway && !r.eof; i++) {
		RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path",
			 "/stuck", ":authority", "x");
		rude_step(&r);
		nghttp2_submit_rst_stream(r.session, 0, 2 * i + 1,
					  NGHTTP2_CANCEL);
		rude_step(&r);
	}
	T_TRUE(r.goaway || r.eof);
	/* 200 at once, then 33 a second */
	T_TRUE(r.p.app.requests < 2500);
	rude_fini(&r);
}

TEST(provoked_resets_end_the_connection)
{
	struct rude r;
	int i;

	/* as in MadeYouReset: open, then break the stream's rules */
	rude_init(&r, NULL);
	for (i = 0; i < 2000 && !r.goaway && !r.eof; i++) {
		/* a window of more than 2^31 */
		uint8_t update[] = { 0, 0, 4,	 8,    0,    0,	  0,
				     0, 0, 0x7f, 0xff, 0xff, 0xff };
		uint32_t id = 2 * (uint32_t)i + 1;

		RUDE_ASK(&r, ":method", "GET", ":scheme", "http", ":path",
			 "/stuck", ":authority", "x");
		rude_step(&r);
		update[7] = (uint8_t)(id >> 8);
		update[8] = (uint8_t)id;
		if (send(r.fd, update, sizeof(update), MSG_NOSIGNAL) < 0)
			break;
	}
	R_WAIT(&r, r.goaway || r.eof);
	T_TRUE(i < 2000);
	T_WAIT(&r.p, r.p.server_closed);
	T_INT(r.p.server_err.kind, ERR_EXHAUSTED);
	T_HAS(r.p.server_err.msg, "provokes");
	rude_fini(&r);
}

TEST(pings_without_reading_end_the_connection)
{
	static uint8_t ping[17] = { 0, 0, 8, 6 };
	struct rude r;
	int i;

	rude_init(&r, NULL);
	rude_step(&r);
	for (i = 0; i < 1000000 && r.p.server; i++) {
		if (send(r.fd, ping, sizeof(ping),
			 MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN)
			break;
		if (i % 64 == 0)
			loop_once(r.p.l, 0);
	}
	T_WAIT(&r.p, r.p.server_closed);
	rude_fini(&r);
}

TEST(a_head_that_never_ends_is_cut)
{
	struct http_limits lim = { .head_timeout_ms = 50 };
	struct rude r;

	rude_init(&r, &lim);
	rude_step(&r);
	/* HEADERS without END_HEADERS: :method GET, and no CONTINUATION */
	T_INT(write_all(r.fd, "\0\0\1\1\0\0\0\0\1\x82", 10), 0);
	T_WAIT(&r.p, r.p.server_closed);
	T_INT(r.p.server_err.kind, ERR_TIMEOUT);
	rude_fini(&r);
}

TEST(a_client_without_settings_is_cut)
{
	struct http_limits lim = { .head_timeout_ms = 50 };
	struct rude r;

	rude_init(&r, &lim);
	T_INT(write_all(r.fd, "PRI * HTTP/2.0\r\n\r\nSM", 20), 0);
	T_WAIT(&r.p, r.p.server_closed);
	rude_fini(&r);
}

TEST(a_peer_cannot_exceed_a_streams_window)
{
	static uint8_t frame[9 + 16384] = { 0, 0x40, 0, 0, 0, 0, 0, 0, 1 };
	struct rude r;

	rude_init(&r, NULL);
	rude_step(&r);
	/* HEADERS with an open end: POST http /stuck */
	T_INT(write_all(r.fd, "\0\0\15\1\4\0\0\0\1\x83\x86\1\1x\x04\x06/stuck",
			22),
	      0);
	for (int i = 0; i < 5 && r.p.server; i++) {
		(void)send(r.fd, frame, sizeof(frame), MSG_NOSIGNAL);
		loop_once(r.p.l, 0);
	}
	T_INT(raw_code(&r), NGHTTP2_FLOW_CONTROL_ERROR + 1);
	rude_fini(&r);
}
