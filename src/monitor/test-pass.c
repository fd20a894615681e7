/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/data.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "monitor/frames.h"

#define EX	"ex_0123456789abcdefghijklmnopqr"
#define OUTPUT	"/v1/execs/" EX "/output?from=0&follow=1"
#define BIG_MAX (4u << 20)

/* A client, our data plane, and a guest that says what it is told to. */
struct fake {
	struct loop *loop;
	struct data *data;
	struct http_conn *guest_server, *to_guest, *client;
	/* the guest's script */
	int status;
	const char *type, *extra_header;
	const uint8_t *reply;
	size_t reply_n, reply_at;
	bool guest_cuts, guest_holds;
	/* what the guest saw */
	unsigned n_requests, n_cut;
	char seen[1024];
	size_t got_n;
	struct http_stream *held;
	/* what the client got */
	bool over, was_cut, reads_nothing;
	int got_status;
	char got_type[64];
	char body[BIG_MAX];
	size_t body_n;
	size_t put_n;
};

static struct fake *fake;

/* ---- the guest ---- */

static void guest_writable(struct http_stream *s)
{
	struct fake *f = fake;
	size_t n = f->reply_n - f->reply_at;

	n = n ? http_stream_write(s, f->reply + f->reply_at, n) : 0;
	f->reply_at += n;
	if (f->reply_at < f->reply_n)
		return;
	if (f->guest_cuts)
		http_stream_reset(s);
	else if (!f->guest_holds)
		http_stream_end(s);
}

static void guest_answer(struct http_stream *s)
{
	struct http_head h;

	http_head_init(&h);
	h.status = fake->status;
	http_head_add(&h, "content-type", fake->type);
	if (fake->extra_header)
		http_head_add(&h, fake->extra_header, "evil");
	http_stream_respond(s, &h, true);
	http_head_fini(&h);
	fake->reply_at = 0;
	guest_writable(s);
}

static bool has_body(struct http_stream *s)
{
	return http_stream_head(s)->method[0] == 'P'; /* POST, PUT */
}

static void guest_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (fake->guest_holds && !fake->reply_n) {
		fake->held = s;
		return; /* reads nothing */
	}
	fake->got_n += n;
	http_stream_consume(s, n);
	if (http_stream_eof(s) && has_body(s))
		guest_answer(s);
}

static void guest_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	fake->held = NULL;
	if (e)
		fake->n_cut++;
}

static const struct http_handler guest_handler = { NULL, guest_body,
						   guest_writable,
						   guest_close };

static void guest_request(struct http_conn *c, struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	size_t n;

	(void)c;
	fake->n_requests++;
	n = (size_t)snprintf(fake->seen, sizeof(fake->seen), "%s %s\n",
			     h->method, h->path);
	for (size_t i = 0; i < h->n_fields && n < sizeof(fake->seen); i++)
		n += (size_t)snprintf(fake->seen + n, sizeof(fake->seen) - n,
				      "%s: %s\n", h->fields[i].name,
				      h->fields[i].value);
	http_stream_handle(s, &guest_handler, fake);
	if (!has_body(s))
		guest_answer(s);
}

/* Connections free themselves when the other end goes. */
static void conn_closed(struct http_conn *c, const struct err *e)
{
	(void)e;
	if (c == fake->guest_server)
		fake->guest_server = NULL;
	if (c == fake->to_guest)
		fake->to_guest = NULL;
	if (c == fake->client)
		fake->client = NULL;
}

static const struct http_conn_ops guest_ops = { guest_request, conn_closed };
static const struct http_conn_ops client_ops = { NULL, conn_closed };

/* ---- the client ---- */

static void client_head(struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	const char *type = http_head_get(h, "content-type");

	fake->got_status = h->status;
	snprintf(fake->got_type, sizeof(fake->got_type), "%s",
		 type ? type : "");
	T_TRUE(!http_head_get(h, "x-evil"));
	T_TRUE(!http_head_get(h, "set-cookie"));
}

static void client_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (fake->reads_nothing)
		return;
	T_TRUE(n <= BIG_MAX - 1 - fake->body_n);
	memcpy(fake->body + fake->body_n, p, n);
	fake->body_n += n;
	fake->body[fake->body_n] = '\0';
	http_stream_consume(s, n);
}

static void client_writable(struct http_stream *s)
{
	static uint8_t zeros[65536];

	while (fake->put_n) {
		size_t n =
		    fake->put_n < sizeof(zeros) ? fake->put_n : sizeof(zeros);
		size_t w = http_stream_write(s, zeros, n);

		fake->put_n -= w;
		if (w < n)
			return;
		if (!fake->put_n)
			http_stream_end(s);
	}
}

static void client_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	fake->over = true;
	fake->was_cut = e != NULL;
}

static const struct http_handler client_handler = { client_head, client_body,
						    client_writable,
						    client_close };

static struct http_conn *way(void *owner)
{
	return ((struct fake *)owner)->to_guest;
}

static void start(void)
{
	static struct fake f;
	int p[2];

	memset(&f, 0, sizeof(f));
	fake = &f;
	f.status = 200;
	f.type = "application/json";
	f.reply = (const uint8_t *)"{ \"a\" : 1 }";
	f.reply_n = 11;
	f.loop = loop_new();
	f.data = data_new(f.loop, way, &f);
	data_open(f.data, true);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	f.guest_server =
	    http_conn_server_take(f.loop, p[0], HTTP_2, NULL, &guest_ops, &f);
	f.to_guest =
	    http_conn_client_take(f.loop, p[1], HTTP_2, NULL, &client_ops, &f);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	data_serve_take(f.data, p[0]);
	f.client =
	    http_conn_client_take(f.loop, p[1], HTTP_2, NULL, &client_ops, &f);
}

static void stop(void)
{
	if (fake->client)
		http_conn_free(fake->client);
	data_free(fake->data);
	if (fake->to_guest)
		http_conn_free(fake->to_guest);
	if (fake->guest_server)
		http_conn_free(fake->guest_server);
	loop_free(fake->loop);
}

static void spin(unsigned rounds)
{
	while (rounds--)
		loop_once(fake->loop, 1);
}

static struct http_stream *send_request(const char *method, const char *path,
					const char *accept, bool body)
{
	struct http_head h;
	struct http_stream *s;
	struct err e = { 0 };

	http_head_init(&h);
	h.method = xstrdup(method);
	h.path = xstrdup(path);
	h.authority = xstrdup("sandbox");
	http_head_add(&h, "authorization", "Bearer secret");
	http_head_add(&h, "cookie", "secret");
	http_head_add(&h, "idempotency-key", "k1");
	http_head_add(&h, "traceparent", "00-trace");
	if (accept)
		http_head_add(&h, "accept", accept);
	fake->over = false;
	fake->body_n = 0;
	fake->got_status = 0;
	s = http_conn_request(fake->client, &h, body, &client_handler, fake,
			      &e);
	T_TRUE(s != NULL);
	http_head_fini(&h);
	return s;
}

static void finish(void)
{
	for (int i = 0; i < 3000 && !fake->over; i++)
		loop_once(fake->loop, 10);
	T_TRUE(fake->over);
}

static void ask(const char *method, const char *path)
{
	send_request(method, path, NULL, false);
	finish();
}

static void say(const void *p, size_t n)
{
	fake->reply = p;
	fake->reply_n = n;
}

TEST(answers_are_written_anew)
{
	start();
	fake->extra_header = "x-evil";
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 200);
	T_STR(fake->body, "{\"a\":1}");
	T_STR(fake->got_type, "application/json");
	stop();
}

TEST(four_headers_pass_and_no_more)
{
	start();
	send_request("GET", "/v1/metrics", "application/json", false);
	finish();
	T_STR(fake->seen, "GET /v1/metrics\nidempotency-key: k1\n"
			  "traceparent: 00-trace\naccept: application/json\n");
	stop();
}

TEST(answers_that_are_no_json_are_502)
{
	start();
	say("<html>", 6);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	stop();
}

TEST(statuses_are_from_a_list)
{
	static const int bad[] = { 206, 301, 302, 401, 418, 502, 599 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		start();
		fake->status = bad[i];
		ask("GET", "/v1/metrics");
		T_INT(fake->got_status, 502);
		T_HAS(fake->body, "guest_error");
		stop();
	}
}

TEST(a_guests_error_names_the_guest)
{
	static const char e[] = "{\"error\":{\"code\":\"not_found\","
				"\"cause\":\"policy\"}}";

	start();
	fake->status = 404;
	say(e, sizeof(e) - 1);
	ask("GET", "/v1/execs/" EX);
	T_INT(fake->got_status, 404);
	T_HAS(fake->body, "\"cause\":\"guest\"");
	T_TRUE(!strstr(fake->body, "policy"));
	stop();
}

TEST(json_is_bounded)
{
	static char big[DATA_JSON_MAX + 100];

	start();
	memset(big, ' ', sizeof(big));
	say(big, sizeof(big));
	ask("GET", "/v1/execs");
	T_INT(fake->got_status, 502);
	T_HAS(fake->body, "too large");
	stop();
}

TEST(unknown_calls_never_reach_the_guest)
{
	start();
	ask("GET", "/g1/hello");
	T_INT(fake->got_status, 404);
	ask("PUT", "/v1/execs");
	T_INT(fake->got_status, 405);
	ask("GET", "/v1/files");
	T_INT(fake->got_status, 400);
	T_INT(fake->n_requests, 0);
	stop();
}

TEST(closed_means_409)
{
	start();
	data_open(fake->data, false);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 409);
	T_INT(fake->n_requests, 0);
	stop();
}

TEST(closing_cuts_what_runs)
{
	start();
	fake->guest_holds = true;
	say("", 0);
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	data_open(fake->data, false);
	finish();
	T_TRUE(fake->was_cut);
	stop();
}

static size_t frame(uint8_t *to, uint8_t type, uint64_t offset, const void *p,
		    uint32_t n)
{
	memset(to, 0, EXEC_FRAME_HEADER);
	to[0] = type;
	for (int i = 0; i < 4; i++)
		to[4 + i] = (uint8_t)(n >> (24 - 8 * i));
	for (int i = 0; i < 8; i++)
		to[8 + i] = (uint8_t)(offset >> (56 - 8 * i));
	memcpy(to + EXEC_FRAME_HEADER, p, n);
	return EXEC_FRAME_HEADER + n;
}

TEST(output_becomes_lines)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	n += frame(b + n, EXEC_EXIT, 2, "{\"code\":0}", 10);
	start();
	say(b, n);
	ask("GET", OUTPUT);
	T_INT(fake->got_status, 200);
	T_STR(fake->got_type, "application/x-ndjson");
	T_STR(fake->body, "{\"o\":0,\"s\":1,\"b64\":\"aGk=\"}\n"
			  "{\"o\":2,\"exit\":{\"code\":0}}\n");
	T_HAS(fake->seen, "accept: application/vnd.caisson.frames");
	stop();
}

TEST(output_stays_frames_if_asked)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	start();
	say(b, n);
	send_request("GET", OUTPUT, "application/vnd.caisson.frames", false);
	finish();
	T_STR(fake->got_type, "application/vnd.caisson.frames");
	T_INT(fake->body_n, n);
	T_TRUE(memcmp(fake->body, b, n) == 0);
	stop();
}

TEST(a_wrong_frame_cuts_the_output)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	n += frame(b + n, EXEC_STDOUT, 99, "hi", 2);
	start();
	say(b, n);
	ask("GET", OUTPUT);
	T_TRUE(fake->was_cut);
	T_TRUE(!strstr(fake->body, "99"));
	stop();
}

TEST(output_that_ends_in_a_frame_is_cut)
{
	uint8_t b[256];
	size_t n = frame(b, EXEC_STDOUT, 0, "hi", 2);

	start();
	say(b, n - 1);
	ask("GET", OUTPUT);
	T_TRUE(fake->was_cut);
	stop();
}

TEST(files_are_raw_bytes_of_our_type)
{
	start();
	fake->type = "text/html";
	say("<script>\0x", 10);
	ask("GET", "/v1/files?path=/a");
	T_INT(fake->got_status, 200);
	T_STR(fake->got_type, "application/octet-stream");
	T_INT(fake->body_n, 10);
	stop();
}

TEST(a_file_that_is_cut_is_not_whole)
{
	start();
	fake->guest_cuts = true;
	say("half", 4);
	ask("GET", "/v1/files?path=/a");
	T_TRUE(fake->was_cut || fake->got_status == 502);
	stop();
}

TEST(a_client_that_does_not_read_stops_the_guest)
{
	static uint8_t big[BIG_MAX - 1];

	start();
	say(big, sizeof(big));
	fake->reads_nothing = true;
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(300);
	/* windows, stream queues and sockets in between, no more */
	T_TRUE(fake->reply_at < 2u << 20);
	T_TRUE(!fake->over);
	stop();
}

TEST(a_guest_that_does_not_read_stops_the_client)
{
	struct http_stream *s;

	start();
	fake->guest_holds = true;
	say("", 0);
	fake->put_n = 64u << 20;
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	spin(300);
	T_TRUE(fake->put_n > 60u << 20);
	stop();
}

TEST(uploads_arrive_whole)
{
	struct http_stream *s;

	start();
	fake->status = 201;
	fake->put_n = 3000000;
	s = send_request("PUT", "/v1/files?path=/a", NULL, true);
	client_writable(s);
	finish();
	T_INT(fake->got_status, 201);
	T_INT(fake->got_n, 3000000);
	stop();
}

TEST(json_requests_are_bounded)
{
	struct http_stream *s;

	start();
	fake->put_n = (1 << 20) + 1;
	s = send_request("POST", "/v1/execs", NULL, true);
	client_writable(s);
	for (int i = 0; i < 500 && !fake->got_status; i++)
		loop_once(fake->loop, 5);
	T_INT(fake->got_status, 413);
	stop();
}

TEST(a_client_that_goes_cuts_the_guests_stream)
{
	struct http_stream *s;

	start();
	fake->guest_holds = true;
	say("x", 1);
	s = send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	http_stream_reset(s);
	for (int i = 0; i < 500 && !fake->n_cut; i++)
		loop_once(fake->loop, 5);
	T_INT(fake->n_cut, 1);
	stop();
}

TEST(the_guests_end_is_the_clients)
{
	start();
	fake->guest_holds = true;
	say("x", 1);
	send_request("GET", "/v1/files?path=/a", NULL, false);
	spin(20);
	fake->to_guest = http_conn_free(fake->to_guest);
	finish();
	T_TRUE(fake->was_cut);
	ask("GET", "/v1/metrics");
	T_INT(fake->got_status, 503);
	stop();
}
