/* SPDX-License-Identifier: Apache-2.0 */
#include "api/test-node.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/check.h"
#include "base/own.h"
#include "proto/data.h"

/* ---- one request, its body collected ---- */

struct ask {
	struct fake *f;
	struct buf body;
	bool upload;
	uint64_t left; /* of a download */
};

static void reply(struct http_stream *s, int status, const char *text)
{
	http_stream_reply(s, status, "application/json", text, strlen(text));
}

static const char *path_of(struct http_stream *s)
{
	return http_stream_head(s)->path;
}

static void rpc_node(struct fake *f, struct http_stream *s)
{
	owned_str text = xasprintf(
	    "{\"name\":\"n1\",\"incarnation\":\"inc1\",\"version\":\"0\","
	    "\"engine\":{\"name\":\"fake\",\"isolation\":\"%s\",\"reason\":"
	    "\"a test\"},\"capacity\":{\"slots\":%lld,\"memory_mib\":4096,"
	    "\"vcpus\":2},\"used\":{\"sandboxes\":0,\"slots\":0,"
	    "\"memory_mib\":0},\"waiting_vmms\":0,\"cluster_epoch\":1}",
	    f->isolation, (long long)f->slots);

	f->n_node++;
	reply(s, 200, text);
}

static void rpc_ensure(struct fake *f, struct http_stream *s, const char *body)
{
	const char *t = http_head_get(http_stream_head(s), "traceparent");

	f->n_ensure++;
	snprintf(f->last_ensure, sizeof(f->last_ensure), "%s", body);
	snprintf(f->last_traceparent, sizeof(f->last_traceparent), "%s",
		 t ? t : "");
	switch (f->mode) {
	case FAKE_FULL:
		reply(s, 503,
		      "{\"error\":{\"code\":\"capacity\",\"message\":\"no slot "
		      "is free\",\"cause\":\"capacity\",\"remedy\":\"wait\"}}");
		return;
	case FAKE_HANGS:
		return;
	case FAKE_GARBAGE:
		http_stream_reply(s, 418, "text/plain", "tea", 3);
		return;
	case FAKE_RESTARTED:
		f->mode = FAKE_GOOD;
		reply(s, 409,
		      "{\"error\":{\"code\":\"wrong_incarnation\","
		      "\"message\":\"old\",\"cause\":\"node\"}}");
		return;
	case FAKE_GOOD:
	case FAKE_BUILD_FAILS:
		break;
	}
	reply(s, 200,
	      "{\"observed\":\"running\",\"isolation\":{\"level\":\"software\","
	      "\"engine\":\"fake\",\"reason\":\"a test\"},\"timings_ms\":"
	      "{\"total\":1}}");
}

static void rpc_poll(struct fake *f, struct http_stream *s)
{
	f->n_poll++;
	if (f->n_poll < 2)
		reply(s, 200,
		      "{\"phase\":\"booting\",\"done\":1,\"total\":3,"
		      "\"unit\":\"steps\"}");
	else if (f->mode == FAKE_BUILD_FAILS)
		reply(s, 200,
		      "{\"phase\":\"failed\",\"error\":{\"code\":"
		      "\"not_found\",\"message\":\"artifact root is not in the "
		      "store\",\"cause\":\"store\",\"remedy\":\"import it\"}}");
	else
		reply(s, 200, "{\"phase\":\"ready\"}");
}

static void rpc_answer(struct fake *f, struct http_stream *s, const char *body)
{
	const char *p = path_of(s);

	if (strcmp(p, "/v1/node") == 0) {
		rpc_node(f, s);
	} else if (strstr(p, "/ensure")) {
		rpc_ensure(f, s, body);
	} else if (strstr(p, "/end")) {
		f->n_end++;
		reply(s, 200, "{\"observed\":\"ended\"}");
	} else if (strstr(p, "/prepare") && strstr(p, "/releases/")) {
		f->n_prepare++;
		f->n_poll = 0;
		snprintf(f->last_path, sizeof(f->last_path), "%s", p);
		reply(s, 202, "{\"id\":\"p1\",\"phase\":\"hashing\"}");
	} else if (strncmp(p, "/v1/prepares/p1", 15) == 0) {
		rpc_poll(f, s);
	} else {
		reply(s, 404, "{}");
	}
}

/* ---- the guest ---- */

static const char line[] = "{\"o\":0,\"s\":1,\"b64\":\"aGVsbG8K\"}\n";

static void send_more(struct http_stream *s)
{
	static const char zeros[8192];
	struct ask *a = http_stream_owner(s);

	while (a->left) {
		size_t n =
		    a->left < sizeof(zeros) ? (size_t)a->left : sizeof(zeros);
		size_t took = http_stream_write(s, zeros, n);

		a->left -= took;
		a->f->download_sent += took;
		if (took < n)
			return;
	}
	http_stream_end(s);
}

static void guest_file(struct fake *f, struct http_stream *s, struct ask *a)
{
	struct http_head h;
	char n[24];
	bool head = strcmp(http_stream_head(s)->method, "HEAD") == 0;

	http_head_init(&h);
	h.status = 200;
	snprintf(n, sizeof(n), "%llu", (unsigned long long)f->download);
	http_head_add(&h, "content-length", n);
	http_head_add(&h, "content-type",
		      f->guest == GUEST_HTML ? "text/html"
					     : "application/octet-stream");
	http_head_add(&h, "etag", "\"x\"");
	http_head_add(&h, "set-cookie", "a=b");
	http_stream_respond(s, &h, !head && f->download > 0);
	http_head_fini(&h);
	if (head)
		return;
	a->left = f->download;
	send_more(s);
}

static void put_frame(struct http_stream *s, uint8_t type, uint64_t offset,
		      const char *payload)
{
	size_t n = strlen(payload);
	uint8_t head[EXEC_FRAME_HEADER] = { type };

	for (unsigned i = 0; i < 4; i++)
		head[4 + i] = (uint8_t)(n >> (24 - 8 * i));
	for (unsigned i = 0; i < 8; i++)
		head[8 + i] = (uint8_t)(offset >> (56 - 8 * i));
	http_stream_write(s, head, sizeof(head));
	http_stream_write(s, payload, n);
}

/* "hello\n" on stdout, a gap, "no\n" on stderr, the end. */
static void put_frames(struct fake *f, struct http_stream *s)
{
	put_frame(s, EXEC_STARTED, 0, "{\"pid\":7,\n\"stdin_offset\":0}");
	put_frame(s, EXEC_STDOUT, 0, "hello\n");
	if (f->guest == GUEST_CUTS)
		return;
	put_frame(s, EXEC_ALIVE, 6, "{\"stdin_offset\":0}");
	put_frame(s, EXEC_GAP, 6, "{\"from\":6,\"to\":10}");
	put_frame(s, EXEC_STDERR, 10, "no\n");
	if (f->guest != GUEST_RUNS)
		put_frame(s, EXEC_EXIT, 13,
			  "{\"reason\":\"exited\",\"code\":3}");
}

static const char console[] = "{\"o\":5,\"b64\":\"Ym9vdA==\"}\n"
			      "{\"o\":9,\"gap\":{\"from\":9,\"to\":12}}\n";
static const char changes[] =
    "{\"type\":\"ready\"}\n"
    "{\"type\":\"create\",\"path\":\"/a\",\"is_dir\":false}\n"
    "{\"type\":\"overflow\"}\n";

static void guest_output(struct fake *f, struct http_stream *s)
{
	const char *p = path_of(s);
	const char *accept = http_head_get(http_stream_head(s), "accept");
	bool frames = accept && strstr(accept, "caisson.frames");
	struct http_head h;

	http_head_init(&h);
	h.status = 200;
	http_head_add(&h, "content-type",
		      frames ? "application/vnd.caisson.frames"
			     : "application/x-ndjson");
	http_stream_respond(s, &h, true);
	http_head_fini(&h);
	if (strstr(p, "/v1/console"))
		http_stream_write(s, console, sizeof(console) - 1);
	else if (strstr(p, "/v1/watch"))
		http_stream_write(s, changes, sizeof(changes) - 1);
	else if (frames)
		put_frames(f, s);
	else
		http_stream_write(s, line, sizeof(line) - 1);
	if (f->guest == GUEST_RUNS)
		return;
	if (f->guest == GUEST_CUTS && !frames)
		http_stream_reset(s);
	else
		http_stream_end(s);
}

/* The record of the exec whose body came last. */
static void exec_made(struct fake *f, struct http_stream *s)
{
	const char *id = strstr(f->last_exec, "\"id\":\"");
	bool now = strstr(f->last_exec, "\"start\":\"now\"") != NULL;
	owned_str text = xasprintf(
	    "{\"id\":\"%.31s\",\"state\":\"%s\"}",
	    f->guest == GUEST_LIES ? "ex_zzzzzzzzzzzzzzzzzzzzaaaaaaaa" : id + 6,
	    now ? "running" : "created");

	reply(s, 201, text);
}

static void guest_exec(struct fake *f, struct http_stream *s, const char *body)
{
	const char *idem =
	    http_head_get(http_stream_head(s), "idempotency-key");

	snprintf(f->last_exec, sizeof(f->last_exec), "%s", body);
	snprintf(f->last_idem, sizeof(f->last_idem), "%s", idem ? idem : "");
	if (f->guest == GUEST_TEAPOT)
		reply(s, 418, "{}");
	else if (f->guest == GUEST_NOT_UTF8)
		reply(s, 200, "\xff\xfe");
	else
		exec_made(f, s);
}

static void guest_record(struct fake *f, struct http_stream *s)
{
	owned_str text = xasprintf("{\"id\":\"%s\",\"state\":\"running\"}",
				   path_of(s) + strlen("/v1/execs/"));

	if (f->guest == GUEST_REFUSES)
		reply(s, 404,
		      "{\"error\":{\"code\":\"not_found\",\"message\":"
		      "\"no such exec\",\"cause\":\"guest\"}}");
	else
		reply(s, 200, text);
}

static void guest_answer(struct ask *a, struct http_stream *s, const char *body)
{
	struct fake *f = a->f;
	const char *p = path_of(s), *m = http_stream_head(s)->method;

	snprintf(f->last_path, sizeof(f->last_path), "%s", p);
	if (strstr(p, "/output") || strstr(p, "/v1/console") ||
	    strstr(p, "/v1/watch"))
		guest_output(f, s);
	else if (strncmp(p, "/v1/execs/ex_", 13) == 0 && strcmp(m, "GET") == 0)
		guest_record(f, s);
	else if (strncmp(p, "/v1/files?", 10) == 0 &&
		 (strcmp(m, "GET") == 0 || strcmp(m, "HEAD") == 0))
		guest_file(f, s, a);
	else if (strncmp(p, "/v1/files", 9) == 0 && strcmp(m, "PUT") == 0)
		reply(s, 201, "{\"size\":1}");
	else if (strcmp(p, "/v1/execs") == 0 && strcmp(m, "POST") == 0)
		guest_exec(f, s, body);
	else if (strcmp(p, "/v1/metrics") == 0)
		reply(s, 200, "{\"cpu_count\":1}");
	else
		reply(s, 200, "{}");
}

/* ---- streams of both ---- */

static void on_body(struct http_stream *s)
{
	struct ask *a = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);
	bool guest = http_conn_owner(http_stream_conn(s)) != a->f;
	char *text;

	if (a->upload && a->f->guest == GUEST_FULL) {
		reply(s, 507,
		      "{\"error\":{\"code\":\"no_space\",\"message\":"
		      "\"the disk is full\",\"cause\":\"guest\"}}");
		return;
	}
	if (a->upload)
		a->f->uploaded += n;
	else
		buf_put(&a->body, p, n);
	http_stream_consume(s, n);
	if (!http_stream_eof(s))
		return;
	text = buf_cstr(&a->body);
	if (guest)
		guest_answer(a, s, text);
	else
		rpc_answer(a->f, s, text);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct ask *a = http_stream_owner(s);

	(void)e;
	buf_fini(&a->body);
	free(a);
}

static void take(struct http_stream *s, struct fake *f)
{
	static const struct http_handler h = { .on_body = on_body,
					       .on_writable = send_more,
					       .on_close = on_close };
	struct ask *a;

	if (strstr(path_of(s), "/attach") || strstr(path_of(s), "/tunnel")) {
		snprintf(f->last_path, sizeof(f->last_path), "%s", path_of(s));
		fake_duplex(f, s);
		return;
	}
	a = xnew(struct ask);

	a->f = f;
	a->upload = strcmp(http_stream_head(s)->method, "PUT") == 0 ||
		    strstr(path_of(s), "/stdin");
	if (a->upload)
		f->uploaded = 0;
	buf_init(&a->body, 0);
	http_stream_handle(s, &h, a);
}

static void on_rpc(struct http_conn *c, struct http_stream *s)
{
	take(s, http_conn_owner(c));
}

/* A data connection: its owner names the fake and its place in conns. */
struct guest_conn {
	struct fake *f;
	unsigned i;
};

static void on_guest(struct http_conn *c, struct http_stream *s)
{
	struct guest_conn *g = http_conn_owner(c);

	take(s, g->f);
}

static void on_guest_close(struct http_conn *c, const struct err *e)
{
	struct guest_conn *g = http_conn_owner(c);

	(void)e;
	g->f->conns[g->i] = NULL;
	free(g);
}

static void on_data_accept(struct loop_io *io, unsigned events)
{
	static const struct http_conn_ops ops = { .on_request = on_guest,
						  .on_close = on_guest_close };
	struct fake *f = container_of(io, struct fake, data);
	int fd = accept4(f->data_fd, NULL, NULL, SOCK_CLOEXEC);
	struct data_preamble p;
	uint8_t answer = f->guest == GUEST_ABSENT   ? DATA_NO_SANDBOX
			 : f->guest == GUEST_CLOSED ? DATA_NOT_READY
						    : DATA_OK;
	struct guest_conn *g;

	(void)events;
	if (fd < 0)
		return;
	/* the API sends it before anything else, in one piece */
	CHECK(read(fd, &p, sizeof(p)) == sizeof(p));
	CHECK(p.magic == DATA_MAGIC);
	CHECK(write(fd, &answer, 1) == 1);
	if (answer != DATA_OK) {
		close(fd);
		return;
	}
	CHECK(f->n_conns < ARRAY_SIZE(f->conns));
	f->n_data++;
	g = xnew(struct guest_conn);
	g->f = f;
	g->i = f->n_conns++;
	f->conns[g->i] =
	    http_conn_server_take(f->loop, fd, HTTP_2, NULL, &ops, g);
}

void fake_start(struct fake *f, struct loop *l, const char *dir)
{
	static const struct http_conn_ops ops = { .on_request = on_rpc };
	owned_str rpc = xasprintf("%s/sandboxd.sock", dir);
	owned_str data = xasprintf("%s/sandboxd-data.sock", dir);
	int fd = unix_listen(rpc, SOCK_STREAM, 0660, NULL);

	CHECK(fd >= 0);
	*f = (struct fake){
		.loop = l, .isolation = "software", .slots = 4, .download = 5
	};
	f->rpc = http_server_new_take(l, fd, HTTP_2, NULL, &ops, f);
	f->data_fd = unix_listen(data, SOCK_STREAM, 0660, NULL);
	CHECK(f->data_fd >= 0);
	loop_io_add(l, &f->data, f->data_fd, LOOP_IN, on_data_accept);
}

void fake_stop(struct fake *f)
{
	if (f->web)
		http_conn_free(f->web);
	f->web = NULL;
	for (unsigned i = 0; i < f->n_conns; i++) {
		struct guest_conn *g;

		if (!f->conns[i])
			continue;
		g = http_conn_owner(f->conns[i]);
		http_conn_free(f->conns[i]);
		free(g);
	}
	loop_io_del(&f->data);
	f->data_fd = fd_close(f->data_fd);
	if (f->rpc)
		http_server_free(f->rpc);
	f->rpc = NULL;
}
