/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/children.h"
#include "guestd/filework.h"
#include "guestd/life.h"
#include "guestd/reply.h"

/* A worker that neither takes nor gives a byte for so long is stuck. */
#define STUCK_MS 30000u
#define PIECE	 32768u

struct transfer {
	struct guestd *g;
	struct http_stream *stream; /* NULL once it is closed */
	struct file_job job;
	bool head_only;
	int sock;
	struct loop_io io;
	struct child child;
	struct loop_timer stuck;
	bool child_gone;
	int child_status;

	struct file_result result;
	size_t n_result; /* bytes of it received */
	bool answered, body_over;

	/* read: one piece on its way to the client */
	uint8_t in[PIECE];
	size_t in_at, in_n;

	/* write: one piece on its way to the worker */
	uint8_t out[sizeof(uint32_t) + PIECE];
	size_t out_at, out_n;
	bool committed;
};

static void transfer_check_free(struct transfer *t)
{
	if (t->stream || !t->child_gone)
		return;
	loop_timer_del(&t->stuck);
	loop_io_del(&t->io);
	fd_close(t->sock);
	t->g->n_workers--;
	free(t);
}

/* The worker has nothing more to do with the request. */
static void drop_socket(struct transfer *t)
{
	loop_io_del(&t->io);
	t->sock = fd_close(t->sock);
}

static void on_stuck(struct loop_timer *timer)
{
	struct transfer *t = container_of(timer, struct transfer, stuck);

	/* In the kernel it may not die; its end is reaped whenever it comes,
	 * and until then it counts against FILES_WORKERS_MAX. */
	(void)kill(t->child.pid, SIGKILL);
	drop_socket(t);
	if (!t->stream || t->body_over)
		return;
	t->body_over = true;
	if (t->answered) {
		http_stream_reset(t->stream);
		return;
	}
	t->answered = true;
	reply_error(t->stream, 504, "timeout", NULL, NULL,
		    "the guest's file system does not answer");
}

/* Only time that the worker owes us counts, not that of a slow client. */
static void watch(struct transfer *t, unsigned events)
{
	if (t->sock < 0)
		return;
	if (!events) {
		loop_io_del(&t->io);
		loop_timer_del(&t->stuck);
		return;
	}
	loop_timer_set(t->g->loop, &t->stuck, STUCK_MS, on_stuck);
	if (t->io.loop)
		(void)loop_io_set(&t->io, events);
	else
		(void)loop_io_add(t->g->loop, &t->io, t->sock, events,
				  t->io.on_io);
}

/* ---- answers ---- */

static void answer_error(struct transfer *t, int status, const char *code,
			 const char *msg)
{
	t->answered = t->body_over = true;
	reply_error(t->stream, status, code, "path", NULL, msg);
}

static void answer_write(struct transfer *t)
{
	json_t *v = json_object();
	char sum[2 * FILE_SUM_MAX + 1];

	text_hex(t->result.sum, FILE_SUM_MAX, sum);
	json_set_take(v, "path",
		      json_str_lossy(t->job.path, strlen(t->job.path)));
	json_set_take(v, "size", json_integer((json_int_t)t->result.size));
	json_set_take(v, "sha256", json_string(sum));
	t->answered = t->body_over = true;
	reply_json_take(t->stream, 201, v);
}

static void answer_read(struct transfer *t)
{
	struct http_head head;
	char length[24];

	t->answered = true;
	http_head_init(&head);
	head.status = 200;
	http_head_add(&head, "content-type", "application/octet-stream");
	if (t->result.has_size) {
		snprintf(length, sizeof(length), "%llu",
			 (unsigned long long)t->result.size);
		http_head_add(&head, "content-length", length);
	}
	http_stream_respond(t->stream, &head, !t->head_only);
	http_head_fini(&head);
	if (t->head_only) {
		t->body_over = true;
		drop_socket(t);
	}
}

static void answer(struct transfer *t)
{
	t->result.code[sizeof(t->result.code) - 1] = '\0';
	t->result.msg[sizeof(t->result.msg) - 1] = '\0';
	if (t->result.status >= 400)
		answer_error(t, t->result.status, t->result.code,
			     t->result.msg);
	else if (t->job.verb == FILE_WRITE)
		answer_write(t);
	else if (t->job.verb == FILE_READ)
		answer_read(t);
	else {
		t->answered = t->body_over = true;
		http_stream_reply(t->stream, 204, NULL, NULL, 0);
	}
}

/* ---- from the worker ---- */

/* The socket ended and the worker told how it went. */
static void check_over(struct transfer *t)
{
	if (!t->stream || t->body_over || t->sock >= 0 || !t->child_gone)
		return;
	t->body_over = true;
	if (!t->answered) {
		t->answered = true;
		reply_error(t->stream, 500, "internal", NULL, NULL,
			    "the file worker died");
	} else if (t->child_status == 0) {
		http_stream_end(t->stream);
	} else {
		http_stream_reset(t->stream);
	}
}

/* false: nothing more now. */
static bool take_result(struct transfer *t)
{
	char *to = (char *)&t->result;
	ssize_t n =
	    read(t->sock, to + t->n_result, sizeof(t->result) - t->n_result);

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop_socket(t);
		return false;
	}
	t->n_result += (size_t)n;
	if (t->n_result < sizeof(t->result))
		return true;
	answer(t);
	return t->sock >= 0 && !t->body_over;
}

/* What the stream did not take of the last piece. false: it is full, and that
 * short write brings on_writable. */
static bool flush_in(struct transfer *t)
{
	t->in_at +=
	    http_stream_write(t->stream, t->in + t->in_at, t->in_n - t->in_at);
	return t->in_at == t->in_n;
}

static bool take_bytes(struct transfer *t)
{
	ssize_t n;

	if (t->in_at < t->in_n && !flush_in(t)) {
		watch(t, 0);
		return false;
	}
	n = read(t->sock, t->in, sizeof(t->in));
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop_socket(t);
		return false;
	}
	t->in_at = 0;
	t->in_n = (size_t)n;
	return true;
}

static void run_in(struct transfer *t)
{
	while (t->stream && t->sock >= 0 && !t->body_over)
		if (!(t->n_result < sizeof(t->result) ? take_result(t)
						      : take_bytes(t)))
			break;
	check_over(t);
}

/* ---- to the worker ---- */

/* false: no room, or nothing to send. */
static bool send_piece(struct transfer *t)
{
	ssize_t n;

	if (t->out_at == t->out_n) {
		const uint8_t *p;
		size_t have = http_stream_peek(t->stream, &p);
		uint32_t len;

		if (have == 0 && !http_stream_eof(t->stream))
			return false;
		if (have > PIECE)
			have = PIECE;
		len = (uint32_t)have;
		memcpy(t->out, &len, sizeof(len));
		if (have > 0)
			memcpy(t->out + sizeof(len), p, have);
		http_stream_consume(t->stream, have);
		t->out_at = 0;
		t->out_n = sizeof(len) + have;
		t->committed = have == 0;
	}
	n = send(t->sock, t->out + t->out_at, t->out_n - t->out_at,
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return false;
	t->out_at += (size_t)n;
	return t->out_at == t->out_n && !t->committed;
}

static void discard(struct transfer *t)
{
	const uint8_t *p;
	size_t n;

	while ((n = http_stream_peek(t->stream, &p)) > 0)
		http_stream_consume(t->stream, n);
}

static void run_out(struct transfer *t)
{
	bool waits;

	if (t->body_over || t->sock < 0) {
		discard(t);
		return;
	}
	while (send_piece(t))
		;
	waits = t->out_at < t->out_n;
	/* the worker's answer may come early, e.g. no space */
	watch(t, LOOP_IN | (waits ? LOOP_OUT : 0u));
	if (!waits && !t->committed)
		loop_timer_del(&t->stuck); /* the client's turn */
}

static void on_sock(struct loop_io *io, unsigned events)
{
	struct transfer *t = container_of(io, struct transfer, io);

	(void)events;
	loop_timer_set(t->g->loop, &t->stuck, STUCK_MS, on_stuck);
	run_in(t);
	if (t->stream && t->job.verb == FILE_WRITE)
		run_out(t);
}

static void on_child(struct child *c, int status, const struct rusage *ru)
{
	struct transfer *t = container_of(c, struct transfer, child);

	(void)ru;
	t->child_gone = true;
	t->child_status = status;
	loop_timer_del(&t->stuck);
	check_over(t);
	transfer_check_free(t);
}

/* ---- the stream ---- */

static void on_body(struct http_stream *s)
{
	struct transfer *t = http_stream_owner(s);

	if (t->job.verb == FILE_WRITE)
		run_out(t);
	else
		discard(t);
}

static void on_writable(struct http_stream *s)
{
	struct transfer *t = http_stream_owner(s);

	if (t->job.verb == FILE_READ && t->sock >= 0 && !t->body_over) {
		watch(t, LOOP_IN);
		run_in(t);
	}
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct transfer *t = http_stream_owner(s);

	(void)s;
	(void)e;
	t->stream = NULL;
	t->body_over = true;
	/* The worker sees the end of its socket: a write without its last
	 * piece is undone. */
	drop_socket(t);
	if (!t->child_gone)
		loop_timer_set(t->g->loop, &t->stuck, STUCK_MS, on_stuck);
	transfer_check_free(t);
}

static int start(struct transfer *t)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = children_fork();
	if (pid == 0) {
		/* Nothing of guestd's may stay open in a worker that gets
		 * stuck: a program would miss the end of its input. */
		if (dup3(pair[1], 3, O_CLOEXEC) < 0 && pair[1] != 3)
			_exit(1);
		(void)close_range(4, ~0u, 0);
		_exit(filework_run(&t->job, 3));
	}
	fd_close(pair[1]);
	if (pid < 0) {
		fd_close(pair[0]);
		return -EAGAIN;
	}
	(void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
	t->sock = pair[0];
	t->io.on_io = on_sock;
	t->child.is_worker = true;
	children_add(t->g->children, &t->child, pid, on_child);
	t->g->n_workers++;
	return 0;
}

/* ---- the request ---- */

static bool read_write_options(struct http_stream *s, struct file_job *job)
{
	const char *path = http_stream_head(s)->path;
	owned_str mode = http_query_get(path, "mode");
	owned_str owner = http_query_get(path, "owner");
	owned_str parents = http_query_get(path, "parents");

	job->mode = -1;
	if (mode) {
		char *end;
		long v = strtol(mode, &end, 8);

		if (!*mode || strlen(mode) > 5 || *end || v < 0 || v > 07777) {
			reply_error(s, 400, "invalid_field", "mode", NULL,
				    "expected octal permissions such as 0644");
			return false;
		}
		job->mode = (int)v;
	}
	if (owner && strlen(owner) >= sizeof(job->owner)) {
		reply_error(s, 400, "invalid_field", "owner", NULL,
			    "expected user or user:group");
		return false;
	}
	if (owner)
		snprintf(job->owner, sizeof(job->owner), "%s", owner);
	job->parents = parents && strcmp(parents, "1") == 0;
	return true;
}

static bool read_job(struct http_stream *s, struct file_job *job)
{
	const struct http_head *head = http_stream_head(s);
	owned_str path = http_query_get(head->path, "path");

	if (!path) {
		reply_error(s, 400, "missing_field", "path", NULL,
			    "expected ?path= with an absolute path, "
			    "percent-encoded");
		return false;
	}
	if (filework_path(path, job->path) < 0) {
		reply_error(s, 400, "bad_path", "path", NULL,
			    "expected an absolute path of at most 4095 bytes");
		return false;
	}
	if (strcmp(head->method, "PUT") == 0)
		job->verb = FILE_WRITE;
	else if (strcmp(head->method, "DELETE") == 0)
		job->verb = FILE_DELETE;
	else
		job->verb = FILE_READ;
	return job->verb != FILE_WRITE || read_write_options(s, job);
}

void files_request(struct guestd *g, struct http_stream *s)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_writable = on_writable,
		.on_close = on_close,
	};
	struct transfer *t;

	if (!life_is_running(g->life)) {
		reply_wrong_state(s,
				  "the guest is frozen; files cannot be "
				  "touched now",
				  "wait until the sandbox runs");
		return;
	}
	if (g->n_workers >= FILES_WORKERS_MAX) {
		reply_error(s, 503, "capacity", NULL, "repeat it later",
			    "too many file requests at once");
		return;
	}
	t = xnew(struct transfer);
	t->g = g;
	t->sock = -1;
	if (!read_job(s, &t->job)) {
		free(t);
		return;
	}
	t->head_only = strcmp(http_stream_head(s)->method, "HEAD") == 0;
	if (start(t) < 0) {
		reply_error(s, 503, "capacity", NULL, "repeat it later",
			    "no process for the file request");
		free(t);
		return;
	}
	t->stream = s;
	http_stream_handle(s, &handler, t);
	watch(t, LOOP_IN);
	if (t->job.verb == FILE_WRITE)
		run_out(t);
}
