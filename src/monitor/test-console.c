/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/console.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "monitor/vmlink.h"

/* A console, and a client that reads it over HTTP. */
static struct rig {
	struct loop *loop;
	struct console *console;
	struct http_conn *server, *client;
	uint64_t from;
	bool follow, reads_nothing;
	int status;
	bool over;
	char text[1 << 20];
	size_t n;
} rig;

static void on_request(struct http_conn *c, struct http_stream *s)
{
	(void)c;
	console_serve(rig.console, s, rig.from, rig.follow);
}

static void on_conn_close(struct http_conn *c, const struct err *e)
{
	(void)e;
	if (c == rig.server)
		rig.server = NULL;
	else
		rig.client = NULL;
}

static const struct http_conn_ops server_ops = { on_request, on_conn_close };
static const struct http_conn_ops client_ops = { NULL, on_conn_close };

static void on_head(struct http_stream *s)
{
	rig.status = http_stream_head(s)->status;
}

static void on_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (rig.reads_nothing)
		return;
	T_TRUE(n < sizeof(rig.text) - rig.n);
	if (n)
		memcpy(rig.text + rig.n, p, n);
	rig.n += n;
	rig.text[rig.n] = '\0';
	http_stream_consume(s, n);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
	rig.over = true;
}

static const struct http_handler handler = { on_head, on_body, NULL, on_close };

static void begin(void)
{
	int p[2];

	memset(&rig, 0, sizeof(rig));
	rig.loop = loop_new();
	rig.console = console_new(rig.loop);
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	rig.server = http_conn_server_take(rig.loop, p[0], HTTP_2, NULL,
					   &server_ops, NULL);
	rig.client = http_conn_client_take(rig.loop, p[1], HTTP_2, NULL,
					   &client_ops, NULL);
}

static void end(void)
{
	rig.client = http_conn_free(rig.client);
	if (rig.server)
		http_conn_free(rig.server);
	console_free(rig.console);
	loop_free(rig.loop);
}

static struct http_stream *ask(uint64_t from, bool follow)
{
	struct http_head h;
	struct http_stream *s;
	struct err e = { 0 };

	rig.from = from;
	rig.follow = follow;
	rig.status = 0;
	rig.over = false;
	rig.n = 0;
	http_head_init(&h);
	h.method = xstrdup("GET");
	h.path = xstrdup("/v1/console");
	s = http_conn_request(rig.client, &h, false, &handler, NULL, &e);
	http_head_fini(&h);
	T_TRUE(s != NULL);
	return s;
}

#define UNTIL(cond)                                                            \
	do {                                                                   \
		for (int i_ = 0; i_ < 3000 && !(cond); i_++)                   \
			loop_once(rig.loop, 10);                               \
		T_TRUE(cond);                                                  \
	} while (0)

TEST(what_was_written_is_told)
{
	begin();
	console_put(rig.console, "hello\r\n", 7);
	ask(0, false);
	UNTIL(rig.over);
	T_INT(rig.status, 200);
	T_STR(rig.text, "{\"o\":0,\"b64\":\"aGVsbG8NCg==\"}\n");
	end();
}

TEST(from_is_an_offset)
{
	begin();
	console_put(rig.console, "hello", 5);
	ask(3, false);
	UNTIL(rig.over);
	T_STR(rig.text, "{\"o\":3,\"b64\":\"bG8=\"}\n");
	ask(5, false);
	UNTIL(rig.over);
	T_INT(rig.n, 0);
	T_INT(rig.status, 200);
	ask(6, false);
	UNTIL(rig.over);
	T_INT(rig.status, 416);
	T_HAS(rig.text, "offset_gone");
	end();
}

TEST(who_follows_hears_what_comes)
{
	begin();
	ask(0, true);
	UNTIL(rig.status);
	console_put(rig.console, "a", 1);
	UNTIL(rig.n > 0);
	T_STR(rig.text, "{\"o\":0,\"b64\":\"YQ==\"}\n");
	T_TRUE(!rig.over);
	end();
}

static void flood(size_t bytes)
{
	static char chunk[4096];

	for (; bytes; bytes -= bytes < sizeof(chunk) ? bytes : sizeof(chunk))
		console_put(rig.console, chunk,
			    bytes < sizeof(chunk) ? bytes : sizeof(chunk));
}

TEST(old_bytes_are_a_gap)
{
	char gap[100];

	begin();
	flood(CONSOLE_KEEP + 1000);
	ask(10, false);
	UNTIL(rig.over);
	snprintf(gap, sizeof(gap),
		 "{\"o\":10,\"gap\":{\"from\":10,\"to\":1000}}\n"
		 "{\"o\":1000,\"b64\"");
	T_TRUE(strncmp(rig.text, gap, strlen(gap)) == 0);
	end();
}

TEST(a_reader_who_sleeps_gets_a_gap)
{
	struct http_stream *s;

	begin();
	rig.reads_nothing = true;
	s = ask(0, true);
	for (int i = 0; i < 40; i++) {
		flood(CONSOLE_KEEP / 2);
		loop_once(rig.loop, 0);
	}
	rig.reads_nothing = false;
	on_body(s);
	UNTIL(strstr(rig.text, "gap"));
	T_TRUE(rig.n < sizeof(rig.text) - 1);
	end();
}

TEST(readers_are_limited)
{
	begin();
	for (unsigned i = 0; i < CONSOLE_READERS_MAX; i++) {
		ask(0, true);
		UNTIL(rig.status);
	}
	T_INT(rig.status, 200);
	ask(0, true);
	UNTIL(rig.status);
	T_INT(rig.status, 429);
	end();
}

TEST(a_reader_that_left_makes_room)
{
	struct http_stream *s = NULL;

	begin();
	for (unsigned i = 0; i < CONSOLE_READERS_MAX; i++) {
		s = ask(0, true);
		UNTIL(rig.status);
	}
	http_stream_reset(s);
	UNTIL(rig.over);
	for (int i = 0; i < 20; i++)
		loop_once(rig.loop, 1);
	ask(0, true);
	UNTIL(rig.status);
	T_INT(rig.status, 200);
	end();
}

TEST(the_tail_is_printable)
{
	char tail[8];

	begin();
	console_tail(rig.console, tail, sizeof(tail));
	T_STR(tail, "");
	console_put(rig.console, "xxxxab\033[1m\r\n", 12);
	console_tail(rig.console, tail, sizeof(tail));
	T_STR(tail, "b?[1m\n");
	end();
}

TEST(panics_are_told_apart)
{
	T_INT(vmlink_panic("all is well\n"), MON_REASON_NONE);
	T_INT(vmlink_panic("Out of memory: Killed process 7\n"),
	      MON_REASON_NONE);
	T_INT(vmlink_panic("x\nKernel panic - not syncing: Attempted to kill "
			   "init!\nOut of memory\n"),
	      MON_REASON_GUEST_PANIC);
	T_INT(vmlink_panic("Kernel panic - not syncing: Out of memory: "
			   "system-wide panic_on_oom is enabled\n"),
	      MON_REASON_GUEST_OOM);
	T_INT(vmlink_panic("Kernel panic - not syncing: System is deadlocked "
			   "on memory"),
	      MON_REASON_GUEST_OOM);
}
