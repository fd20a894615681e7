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
#include "guestd/life.h"
#include "guestd/reply.h"

/* Of the socket, so that worker and loop wake each other less often. */
#define SOCKET_BYTES (512 * 1024)

struct transfer {
	struct guestd *g;
	struct http_stream *stream; /* NULL once it is closed */
	struct file_job job;
	bool head_only;
	int sock;
	struct loop_io io;
	struct child child;
	struct loop_timer stuck;
	uint32_t silent_ms; /* how long the worker may say nothing now */
	bool child_gone;
	int child_status;

	struct file_result result;
	size_t n_result; /* bytes of it received */
	bool answered, body_over;

	/* one piece of the answer on its way to the client */
	uint8_t in[FILE_PIECE_MAX];
	size_t in_at, in_n;

	/* one piece of the request on its way to the worker */
	uint8_t out[sizeof(uint32_t) + FILE_PIECE_MAX];
	size_t out_at, out_n;
	bool committed;
};

static bool has_input(const struct transfer *t)
{
	return t->job.verb == FILE_WRITE || t->job.verb == FILE_UNPACK;
}

static unsigned *counter(struct guestd *g, enum file_verb verb)
{
	return verb == FILE_WATCH ? &g->n_watchers : &g->n_workers;
}

static void transfer_check_free(struct transfer *t)
{
	if (t->stream || !t->child_gone)
		return;
	loop_timer_del(&t->stuck);
	loop_io_del(&t->io);
	fd_close(t->sock);
	(*counter(t->g, t->job.verb))--;
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
	 * and until then it counts. */
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
	reply_error(t->stream, 504, "timeout", NULL,
		    "look at the sandbox's file systems and at its load",
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
	loop_timer_set(t->g->loop, &t->stuck, t->silent_ms, on_stuck);
	if (t->io.loop)
		(void)loop_io_set(&t->io, events);
	else
		(void)loop_io_add(t->g->loop, &t->io, t->sock, events,
				  t->io.on_io);
}

/* ---- answers ---- */

static void add_number(struct http_head *head, const char *name,
		       const char *fmt, uint64_t a, uint64_t b, uint64_t c)
{
	char text[80];

	if (strcmp(fmt, "n") == 0)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)a);
	else if (strcmp(fmt, "*") == 0)
		snprintf(text, sizeof(text), "bytes */%llu",
			 (unsigned long long)a);
	else
		snprintf(text, sizeof(text), "bytes %llu-%llu/%llu",
			 (unsigned long long)a, (unsigned long long)b,
			 (unsigned long long)c);
	http_head_add(head, name, text);
}

static json_t *error_text(const struct file_result *r)
{
	json_t *error = json_object(), *root = json_object(), *done;

	json_set_take(error, "code", json_str_lossy(r->code, strlen(r->code)));
	json_set_take(error, "message", json_str_lossy(r->msg, strlen(r->msg)));
	json_set_take(error, "cause", json_string("guest"));
	if (r->field[0])
		json_set_take(error, "field",
			      json_str_lossy(r->field, strlen(r->field)));
	if (r->remedy[0])
		json_set_take(error, "remedy",
			      json_str_lossy(r->remedy, strlen(r->remedy)));
	if (r->counted) {
		done = json_object();
		json_set_take(done, "entries",
			      json_integer((json_int_t)r->entries));
		json_set_take(done, "bytes",
			      json_integer((json_int_t)r->bytes));
		json_set_take(error, "done", done);
	}
	json_set_take(root, "error", error);
	return root;
}

static void answer_error(struct transfer *t)
{
	const struct file_result *r = &t->result;
	json_t *v = error_text(r);
	owned_str text = json_text(v);
	struct http_head head;

	json_decref(v);
	t->answered = t->body_over = true;
	http_head_init(&head);
	head.status = r->status;
	http_head_add(&head, "content-type", "application/json");
	add_number(&head, "content-length", "n", strlen(text), 0, 0);
	if (r->status == 416)
		add_number(&head, "content-range", "*", r->size, 0, 0);
	http_stream_respond(t->stream, &head, !t->head_only);
	http_head_fini(&head);
	if (t->head_only)
		return;
	(void)http_stream_write(t->stream, text, strlen(text));
	http_stream_end(t->stream);
}

static void answer_head(struct transfer *t)
{
	const struct file_result *r = &t->result;
	bool body = r->type[0] && !t->head_only;
	struct http_head head;

	t->answered = true;
	http_head_init(&head);
	head.status = r->status;
	if (r->type[0])
		http_head_add(&head, "content-type", r->type);
	if (r->type[0] && r->length >= 0)
		add_number(&head, "content-length", "n", (uint64_t)r->length, 0,
			   0);
	if (r->accept_ranges)
		http_head_add(&head, "accept-ranges", "bytes");
	if (r->has_range)
		add_number(&head, "content-range", "-", r->range_from,
			   r->range_from + (uint64_t)r->length - 1, r->size);
	if (r->etag[0])
		http_head_add(&head, "etag", r->etag);
	if (r->date[0])
		http_head_add(&head, "last-modified", r->date);
	http_stream_respond(t->stream, &head, body);
	http_head_fini(&head);
	if (!body) {
		t->body_over = true;
		drop_socket(t);
	}
}

static void answer(struct transfer *t)
{
	struct file_result *r = &t->result;

	/* the worker is ours, but it lives among the guest's files */
	r->code[sizeof(r->code) - 1] = '\0';
	r->field[sizeof(r->field) - 1] = '\0';
	r->msg[sizeof(r->msg) - 1] = '\0';
	r->remedy[sizeof(r->remedy) - 1] = '\0';
	if (r->status == 0) {
		t->silent_ms = r->silent_ms ? r->silent_ms : FILE_STUCK_MS;
		t->n_result = 0;
		watch(t, t->io.events);
	} else if (r->status >= 400) {
		answer_error(t);
	} else {
		t->silent_ms = FILE_STUCK_MS;
		answer_head(t);
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
		reply_error(t->stream, 500, "internal", NULL, "repeat it",
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

		if (t->committed || (have == 0 && !http_stream_eof(t->stream)))
			return false;
		if (have > FILE_PIECE_MAX)
			have = FILE_PIECE_MAX;
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
	loop_timer_set(t->g->loop, &t->stuck, t->silent_ms, on_stuck);
	run_in(t);
	if (t->stream && has_input(t))
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

	if (has_input(t))
		run_out(t);
	else
		discard(t);
}

static void on_writable(struct http_stream *s)
{
	struct transfer *t = http_stream_owner(s);

	if (t->answered && t->sock >= 0 && !t->body_over) {
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
		loop_timer_set(t->g->loop, &t->stuck, FILE_STUCK_MS, on_stuck);
	transfer_check_free(t);
}

static int start(struct transfer *t)
{
	static const int size = SOCKET_BYTES;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size,
				 sizeof(size));
	pid = children_fork();
	if (pid == 0) {
		/* Nothing of guestd's may stay open in a worker that gets
		 * stuck: a program would miss the end of its input. */
		if (dup3(pair[1], 3, O_CLOEXEC) < 0 && pair[1] != 3)
			_exit(1);
		(void)close_range(4, ~0u, 0);
		/* a client that left is an error of write, not a signal */
		(void)signal(SIGPIPE, SIG_IGN);
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
	(*counter(t->g, t->job.verb))++;
	return 0;
}

/* ---- the request ---- */

static void request(struct guestd *g, struct http_stream *s,
		    enum file_verb verb)
{
	static const struct http_handler handler = {
		.on_body = on_body,
		.on_writable = on_writable,
		.on_close = on_close,
	};
	const unsigned max =
	    verb == FILE_WATCH ? FILES_WATCHERS_MAX : FILES_WORKERS_MAX;
	struct transfer *t;

	if (!life_is_running(g->life)) {
		reply_wrong_state(s,
				  "the guest is frozen; files cannot be "
				  "touched now",
				  "wait until the sandbox runs");
		return;
	}
	if (*counter(g, verb) >= max) {
		reply_error(s, 503, "capacity", NULL, "repeat it later",
			    verb == FILE_WATCH
				? "16 folders are watched already"
				: "32 file requests are at work already");
		return;
	}
	t = xnew(struct transfer);
	t->g = g;
	t->sock = -1;
	t->silent_ms = FILE_STUCK_MS;
	if (!files_job_read(s, verb, &t->job)) {
		free(t);
		return;
	}
	snprintf(t->job.default_user, sizeof(t->job.default_user), "%s",
		 g->default_user);
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
	if (has_input(t))
		run_out(t);
}

bool files_route(struct guestd *g, struct http_stream *s, const char *path)
{
	static const struct {
		const char *path, *method;
		enum file_verb verb;
	} calls[] = {
		{ "/v1/files", "GET", FILE_READ },
		{ "/v1/files", "HEAD", FILE_READ },
		{ "/v1/files", "PUT", FILE_WRITE },
		{ "/v1/files", "DELETE", FILE_DELETE },
		{ "/v1/files/list", "GET", FILE_LIST },
		{ "/v1/files/stat", "GET", FILE_STAT },
		{ "/v1/files/mkdir", "POST", FILE_MKDIR },
		{ "/v1/files/move", "POST", FILE_MOVE },
		{ "/v1/archive", "GET", FILE_PACK },
		{ "/v1/archive", "PUT", FILE_UNPACK },
		{ "/v1/watch", "GET", FILE_WATCH },
	};
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (strcmp(calls[i].path, path) != 0)
			continue;
		known = true;
		if (strcmp(calls[i].method, http_stream_head(s)->method) != 0)
			continue;
		request(g, s, calls[i].verb);
		return true;
	}
	if (known)
		reply_error(s, 405, "immutable", NULL, NULL,
			    "this path does not take that method");
	return known;
}
