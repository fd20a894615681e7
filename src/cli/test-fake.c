/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/test-fake.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "net/ws.h"

#define PIECE 3000u

struct server;

struct visit {
	struct server *s;
	struct ws *w;
	uint64_t sent, moved; /* output offset, bytes of both ways */
	bool exit_sent, is_tunnel, tunnel_ended;
	struct loop_timer cut;
};

struct server {
	struct fake_opts o;
	char dir[64];
	struct loop *loop;
	struct visit *visit;
	struct buf log; /* everything the command wrote */
	uint64_t taken; /* stdin */
	bool ended;
	unsigned connections, tokens;
	char fact[256];
	struct loop_signal usr1;
};

uint8_t fake_byte(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

bool fake_is_stderr(uint64_t at)
{
	return at / 1000 % 2;
}

static void note(const struct server *s, const char *name, const char *text,
		 size_t n, int flags)
{
	owned_str path = xasprintf("%s/%s", s->dir, name);
	owned_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

	CHECK(fd >= 0 && write_all(fd, text, n) == 0);
}

/* ---- the exec ---- */

static bool send_frame(struct visit *v, uint8_t type, uint64_t at,
		       const void *p, size_t n)
{
	uint8_t m[ATTACH_HEADER + PIECE] = { type };

	for (int i = 0; i < 8; i++)
		m[1 + i] = (uint8_t)(at >> (56 - 8 * i));
	memcpy(m + ATTACH_HEADER, p, n);
	v->moved += n;
	return ws_send(v->w, false, m, ATTACH_HEADER + n);
}

static bool send_json(struct visit *v, uint8_t type, const char *text)
{
	return send_frame(v, type, v->sent, text, strlen(text));
}

static void tell_stdin(struct visit *v, uint8_t type)
{
	char text[96];

	snprintf(text, sizeof(text), "{\"pid\":7,\"stdin_offset\":%llu}",
		 (unsigned long long)v->s->taken);
	send_json(v, type, text);
}

static void on_cut(struct loop_timer *t)
{
	struct visit *v = container_of(t, struct visit, cut);

	if (v->s->o.die_after && v->s->connections >= v->s->o.die_after)
		_exit(0);
	ws_cut(v->w);
}

/* False: it will be cut, once what was sent is out. */
static bool maybe_cut(struct visit *v)
{
	if (!v->s->o.cut_every || v->moved < v->s->o.cut_every)
		return true;
	v->exit_sent = true;
	loop_timer_set(v->s->loop, &v->cut, 20, on_cut);
	return false;
}

static void pump(struct visit *v)
{
	struct server *s = v->s;

	while (!v->exit_sent && v->sent < buf_len(&s->log)) {
		uint64_t at = v->sent;
		size_t n = buf_len(&s->log) - (size_t)at;
		bool is_err = s->o.output && fake_is_stderr(at);

		n = n > PIECE ? PIECE : n;
		if (s->o.output && n > 1000 - at % 1000)
			n = (size_t)(1000 - at % 1000);
		if (ws_room(v->w) < n + ATTACH_HEADER)
			return; /* on_writable */
		CHECK(send_frame(v, is_err ? EXEC_STDERR : EXEC_STDOUT, at,
				 buf_data(&s->log) + at, n));
		v->sent += n;
		if (!maybe_cut(v))
			return;
	}
	if (v->exit_sent || !s->ended)
		return;
	v->exit_sent = true;
	if (s->o.closing)
		send_json(v, EXEC_CLOSING, s->o.closing);
	else
		send_json(v, EXEC_EXIT, s->fact);
	ws_close(v->w, 1000, "");
}

static void hear_signal(struct server *s, const char *json)
{
	json_error_t je;
	json_t *v = json_loads(json, 0, &je);
	const char *name = json_string_value(json_object_get(v, "name"));

	CHECK(name);
	note(s, "heard", name, strlen(name), O_APPEND);
	note(s, "heard", " ", 1, O_APPEND);
	if (!s->o.ignore_signals) {
		snprintf(s->fact, sizeof(s->fact),
			 "{\"reason\":\"signaled\",\"signal\":\"%s\"}", name);
		s->ended = true;
	}
	json_decref(v);
}

static void hear(struct visit *v, uint8_t type, uint64_t at, const uint8_t *p,
		 size_t n)
{
	struct server *s = v->s;
	char text[256];

	if (type == EXEC_STDIN) {
		CHECK(at <= s->taken); /* no hole */
		if (at + n > s->taken) {
			size_t skip = (size_t)(s->taken - at);

			CHECK(buf_put(&s->log, p + skip, n - skip) == 0);
			s->taken = at + n;
		}
		v->moved += n;
		tell_stdin(v, EXEC_ALIVE);
	} else if (type == EXEC_STDIN_END) {
		CHECK(at == s->taken);
		s->ended = s->ended || s->o.echo;
	} else if (type == EXEC_SIGNAL || type == EXEC_SIZE) {
		CHECK(n < sizeof(text));
		memcpy(text, p, n);
		text[n] = '\0';
		if (type == EXEC_SIGNAL)
			hear_signal(s, text);
		else
			CHECK(buf_printf(&s->log, "[%s]", text) == 0);
	} else {
		CHECK(type == EXEC_ACK && at <= v->sent);
	}
}

static void on_message(struct ws *w, bool is_text, const uint8_t *p, size_t n)
{
	struct visit *v = ws_owner(w);
	uint64_t at = 0;

	CHECK(!is_text);
	if (v->is_tunnel) { /* echo; an end for an end */
		CHECK(!v->tunnel_ended);
		v->tunnel_ended = n == 0;
		CHECK(ws_send(w, false, p, n));
		if (n == 0)
			ws_close(w, 1000, "");
		return;
	}
	CHECK(n >= ATTACH_HEADER);
	for (int i = 1; i < 9; i++)
		at = at << 8 | p[i];
	if (v->exit_sent)
		return;
	hear(v, p[0], at, p + ATTACH_HEADER, n - ATTACH_HEADER);
	if (maybe_cut(v))
		pump(v);
}

static void on_writable(struct ws *w)
{
	pump(ws_owner(w));
}

static void on_close(struct ws *w, unsigned code, const char *reason)
{
	struct visit *v = ws_owner(w);

	(void)code;
	(void)reason;
	if (v->s->visit == v)
		v->s->visit = NULL;
	loop_timer_del(&v->cut);
	free(v);
}

static const struct ws_handler ws_handler = { .on_message = on_message,
					      .on_writable = on_writable,
					      .on_close = on_close };

/* ---- requests ---- */

static void reply(struct http_stream *s, int status, const char *body)
{
	http_stream_reply(s, status, "application/json", body, strlen(body));
}

static struct visit *open_ws(struct server *s, struct http_stream *st,
			     const char *protocol, bool is_tunnel)
{
	struct visit *v = xnew(struct visit);
	struct err e = { 0 };

	v->s = s;
	v->is_tunnel = is_tunnel;
	CHECK(ws_server_check(st, &e) == 0);
	v->w = ws_server_open(s->loop, st, protocol, NULL, 1u << 17,
			      &ws_handler, v);
	return v;
}

static void attach(struct server *s, struct http_stream *st)
{
	const struct http_head *h = http_stream_head(st);
	owned_str from = http_query_get(h->path, "from");
	owned_str token = xasprintf("Bearer t%u", s->tokens);
	struct visit *v;

	if (s->o.refuse) {
		reply(st, s->o.refuse, s->o.refusal);
		return;
	}
	if (strcmp(http_head_get(h, "authorization"), token) != 0 ||
	    (s->o.token_once && s->tokens == 1 && s->connections == 1)) {
		reply(st, 401,
		      "{\"error\":{\"code\":\"token_expired\",\"message\":"
		      "\"too old\"}}");
		return;
	}
	CHECK(ws_offers(h, ATTACH_PROTOCOL));
	s->connections++;
	v = open_ws(s, st, ATTACH_PROTOCOL, false);
	s->visit = v;
	v->sent = strtoull(from, NULL, 10);
	CHECK(v->sent <= buf_len(&s->log));
	tell_stdin(v, EXEC_STARTED);
	pump(v);
}

static void on_spec(struct http_stream *st, void *owner, const void *body,
		    size_t n, const struct err *e)
{
	struct server *s = owner;

	CHECK(!e);
	note(s, "body", body, n, O_TRUNC);
	reply(st, 201,
	      "{\"id\":\"" FAKE_EXEC "\",\"state\":\"created\",\"attach\":"
	      "{\"token\":\"t1\"}}");
}

static void on_request(struct http_conn *c, struct http_stream *st)
{
	static const char record[] =
	    "{\"id\":\"" FAKE_EXEC "\",\"state\":\"running\",\"stdin\":true,"
	    "\"pty\":null,\"cmd\":[\"make\",\"test\"],\"exit\":null}";
	static const char list[] =
	    "{\"items\":[{\"id\":\"" FAKE_EXEC
	    "\",\"state\":\"exited\",\"cmd\":[\"make\",\"test\"],\"exit\":{"
	    "\"reason\":\"exited\",\"code\":3,\"wall_ms\":61500}}]}";
	struct server *s = http_conn_owner(c);
	const struct http_head *h = http_stream_head(st);
	const char *p = h->path;

	if (!strcmp(p, "/v1/sandboxes/@box"))
		reply(st, 200,
		      "{\"id\":\"" FAKE_SANDBOX "\",\"state\":\"running\"}");
	else if (!strcmp(p, "/v1/sandboxes/" FAKE_SANDBOX "/execs"))
		if (!strcmp(h->method, "POST"))
			http_stream_collect(st, 65536, on_spec, s);
		else
			reply(st, 200, list);
	else if (!strcmp(p, "/v1/execs/" FAKE_EXEC))
		reply(st, 200, record);
	else if (!strcmp(p, "/v1/execs/" FAKE_EXEC "/token")) {
		char text[32];

		snprintf(text, sizeof(text), "{\"token\":\"t%u\"}",
			 ++s->tokens);
		reply(st, 200, text);
	} else if (!strncmp(p, "/v1/execs/" FAKE_EXEC "/attach?", 40))
		attach(s, st);
	else if (!strcmp(p, "/v1/sandboxes/" FAKE_SANDBOX "/ports/7/tunnel"))
		open_ws(s, st, NULL, true);
	else
		reply(st, strstr(p, "/tunnel") ? 502 : 404,
		      "{\"error\":{\"code\":\"port_closed\",\"message\":"
		      "\"nobody listens\",\"cause\":\"guest\"}}");
}

/* SIGUSR1: the command ends. */
static void on_end(struct loop_signal *g)
{
	struct server *s = container_of(g, struct server, usr1);

	s->ended = true;
	if (s->visit)
		pump(s->visit);
}

static void serve(const struct fake *f, const struct fake_opts *o, int fd)
{
	static const struct http_conn_ops ops = { .on_request = on_request };
	static const struct http_limits limits = { 0 };
	struct server s = { .o = *o, .tokens = 1 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(s.dir, sizeof(s.dir), "%s", f->dir);
	snprintf(s.fact, sizeof(s.fact), "%s",
		 o->fact ? o->fact : "{\"reason\":\"exited\",\"code\":0}");
	buf_init(&s.log, 0);
	for (uint64_t i = 0; i < o->output; i++) {
		uint8_t b = fake_byte(i);

		CHECK(buf_put(&s.log, &b, 1) == 0);
	}
	s.ended = !o->echo && !o->until_signal;
	s.loop = loop_new();
	CHECK(loop_signal_add(s.loop, &s.usr1, SIGUSR1, on_end) == 0);
	http_server_new_take(s.loop, fd, HTTP_1_1, &limits, &ops, &s);
	loop_run(s.loop);
}

void fake_start(struct fake *f, const struct fake_opts *o)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(f->dir, sizeof(f->dir), "%s", test_tmpdir());
	T_TRUE(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 &&
	       listen(fd, 64) == 0 &&
	       getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	f->port = ntohs(a.sin_port);
	fflush(NULL);
	f->pid = fork();
	T_TRUE(f->pid >= 0);
	if (f->pid == 0) {
		serve(f, o, fd);
		_exit(0);
	}
	close(fd);
}

void fake_stop(struct fake *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
}

const char *fake_note(const struct fake *f, const char *name)
{
	static char text[65536];
	owned_str path = xasprintf("%s/%s", f->dir, name);
	owned_str all = NULL;
	size_t n = 0;
	struct err e = { 0 };

	text[0] = '\0';
	if (file_read(path, sizeof(text) - 1, &all, &n, &e) == 0)
		memcpy(text, all, n + 1);
	return text;
}

/* ---- the command line ---- */

static void be_cli(const struct fake *f, char *const *argv)
{
	char url[64], config[128];
	int argc = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", f->port);
	snprintf(config, sizeof(config), "%s/config.json", f->dir);
	setenv("CAISSON_CONFIG", config, 1);
	setenv("CAISSON_URL", url, 1);
	setenv("CAISSON_DATA_URL", url, 1);
	setenv("CAISSON_KEY", "key", 1);
	setenv("TERM", "xterm-test", 1);
	while (argv[argc])
		argc++;
	exit(cli_main(argc, (char **)(uintptr_t)argv));
}

static void put_at(int fd, int at)
{
	if (fd < 0)
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(dup3(fd, at, 0) == at);
}

pid_t fake_cli_take(const struct fake *f, char *const *argv, int in, int out,
		    int err)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	T_TRUE(pid >= 0);
	if (pid == 0) {
		put_at(in, 0);
		put_at(out, 1);
		put_at(err, 2);
		/* a writer that is left open would hide the end of a pipe */
		close_range(3, ~0u, 0);
		be_cli(f, argv);
	}
	fd_close(in);
	fd_close(out);
	if (err != out)
		fd_close(err);
	return pid;
}

/* Leader of the terminal's session, with the command line as its foreground
 * job: only under one may a program be suspended. A key continues it. */
static void be_shell(const struct fake *f, char *const *argv)
{
	owned_str path = xasprintf("%s/pid", f->dir);
	char text[16], key;
	struct err e = { 0 };
	pid_t job;
	int st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTTOU, SIG_IGN);
	job = fork();
	if (job == 0) {
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		signal(SIGTTOU, SIG_DFL);
		be_cli(f, argv);
	}
	snprintf(text, sizeof(text), "%d", (int)job);
	CHECK(file_write_atomic(path, text, strlen(text), 0600, &e) == 0);
	setpgid(job, job);
	while (waitpid(job, &st, WUNTRACED) == job && WIFSTOPPED(st)) {
		tcsetpgrp(0, getpgrp());
		CHECK(write_all(1, "stopped\n", 8) == 0);
		CHECK(read(0, &key, 1) == 1);
		CHECK(write_all(1, "continued\n", 10) == 0);
		tcsetpgrp(0, job);
		kill(-job, SIGCONT);
	}
	if (WIFSIGNALED(st)) {
		signal(WTERMSIG(st), SIG_DFL);
		kill(getpid(), WTERMSIG(st));
	}
	_exit(WEXITSTATUS(st));
}

pid_t fake_cli_pty(const struct fake *f, char *const *argv, unsigned cols,
		   unsigned rows, int *ret_master)
{
	struct winsize w = { .ws_col = (unsigned short)cols,
			     .ws_row = (unsigned short)rows };
	pid_t pid;

	fflush(NULL);
	pid = forkpty(ret_master, NULL, NULL, &w);
	T_TRUE(pid >= 0);
	if (pid == 0) {
		close_range(3, ~0u, 0);
		be_shell(f, argv);
	}
	return pid;
}

int fake_wait(pid_t pid)
{
	int st;

	T_TRUE(waitpid(pid, &st, 0) == pid);
	return WIFSIGNALED(st) ? 1000 + WTERMSIG(st) : WEXITSTATUS(st);
}

/* Feed and read without getting stuck on either. */
static void carry(int in, int out, int err, const uint8_t *p, size_t n,
		  struct fake_run *ret)
{
	struct pollfd fds[3] = { { .fd = out, .events = POLLIN },
				 { .fd = err, .events = POLLIN },
				 { .fd = in, .events = POLLOUT } };

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		T_TRUE(poll(fds, 3, 60000) > 0);
		for (int i = 0; i < 2; i++) {
			struct buf *b = i ? &ret->err : &ret->out;
			ssize_t got;

			if (!fds[i].revents)
				continue;
			got = read(fds[i].fd, buf_reserve(b, 65536), 65536);
			if (got > 0)
				buf_commit(b, (size_t)got);
			else
				fds[i].fd = fd_close(fds[i].fd);
		}
		if (fds[2].fd >= 0 && fds[2].revents) {
			ssize_t put = write(fds[2].fd, p, n > 4096 ? 4096 : n);

			p += put > 0 ? put : 0;
			n -= put > 0 ? (size_t)put : 0;
			if (put < 0 || n == 0)
				fds[2].fd = fd_close(fds[2].fd);
		}
	}
	fd_close(fds[2].fd);
}

void fake_run(const struct fake *f, char *const *argv, const void *in,
	      size_t n_in, struct fake_run *ret)
{
	int i[2] = { -1, -1 }, o[2], e[2];
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	buf_init(&ret->out, 0);
	buf_init(&ret->err, 0);
	T_TRUE(pipe2(o, O_CLOEXEC) == 0 && pipe2(e, O_CLOEXEC) == 0);
	T_TRUE(!in || pipe2(i, O_CLOEXEC) == 0);
	pid = fake_cli_take(f, argv, i[0], o[1], e[1]);
	carry(i[1], o[0], e[0], in, n_in, ret);
	ret->code = fake_wait(pid);
	T_TRUE(buf_cstr(&ret->out) && buf_cstr(&ret->err));
}

void fake_run_fini(struct fake_run *r)
{
	buf_fini(&r->out);
	buf_fini(&r->err);
}
