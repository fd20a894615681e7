/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qmp.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "net/json.h"

#define GREETING                                                               \
	"{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, "    \
	"\"major\": 7}}, \"capabilities\": [\"oob\"]}}\r\n"

struct fake {
	struct loop *loop;
	struct qmp *q;
	int peer;
	unsigned n_ready, n_close, n_done;
	char events[256];
	char last[512]; /* text of the last answer or error */
	enum err_kind kind;
	bool free_in_done;
};

static struct fake *of(struct qmp *q)
{
	return qmp_owner(q);
}

static void on_ready(struct qmp *q)
{
	of(q)->n_ready++;
}

static void on_event(struct qmp *q, const char *name, json_t *data)
{
	struct fake *f = of(q);
	size_t n = strlen(f->events);

	snprintf(f->events + n, sizeof(f->events) - n, "%s%s,", name,
		 json_is_object(data) ? "+" : "");
}

static void on_close(struct qmp *q, const struct err *e)
{
	struct fake *f = of(q);

	f->n_close++;
	f->kind = e->kind;
	snprintf(f->last, sizeof(f->last), "%s", e->msg);
}

static const struct qmp_ops ops = { on_ready, on_event, on_close };

static void on_done(void *arg, json_t *ret, const struct err *e)
{
	struct fake *f = arg;
	owned_str text = ret ? json_text(ret) : NULL;

	f->n_done++;
	f->kind = e ? e->kind : ERR_KIND_MAX_;
	snprintf(f->last, sizeof(f->last), "%s", e ? e->msg : text);
	if (f->free_in_done)
		f->q = qmp_free(f->q);
}

static void start(struct fake *f)
{
	int p[2];

	memset(f, 0, sizeof(*f));
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	f->loop = loop_new();
	f->q = qmp_new_take(f->loop, p[0], &ops, f);
	f->peer = p[1];
}

static void stop(struct fake *f)
{
	qmp_free(f->q);
	close(f->peer);
	loop_free(f->loop);
}

static void spin(struct fake *f)
{
	for (int i = 0; i < 20; i++)
		loop_once(f->loop, 5);
}

static void say(struct fake *f, const char *s)
{
	T_INT(write(f->peer, s, strlen(s)), strlen(s));
	spin(f);
}

/* What the client wrote, waiting for it. */
static const char *heard(struct fake *f)
{
	static char b[65536];
	ssize_t n;

	spin(f);
	n = recv(f->peer, b, sizeof(b) - 1, MSG_DONTWAIT);
	b[n > 0 ? n : 0] = '\0';
	return b;
}

static void ready(struct fake *f)
{
	start(f);
	say(f, GREETING);
	T_HAS(heard(f), "qmp_capabilities");
	say(f, "{\"return\": {}}\r\n");
	T_INT(f->n_ready, 1);
}

TEST(greeting_is_parsed)
{
	struct qmp_line l;

	T_INT(qmp_line_parse(GREETING, strlen(GREETING), &l, NULL), 0);
	T_INT(l.kind, QMP_GREETING);
	T_INT(l.major, 7);
	T_INT(l.minor, 2);
	qmp_line_fini(&l);
}

TEST(errors_are_parsed)
{
	const char *s = "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no "
			"such node\"}}";
	struct qmp_line l;

	T_INT(qmp_line_parse(s, strlen(s), &l, NULL), 0);
	T_INT(l.kind, QMP_ERROR);
	T_STR(l.text, "no such node");
	qmp_line_fini(&l);
}

TEST(lines_of_no_kind_are_refused)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"1",
		"null",
		"{}",
		"{\"id\":1}",
		"{\"event\":7}",
		"{\"return\":{}}{\"return\":{}}",
		"{\"return\":1,\"return\":2}",
		"\xff\xfe",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct qmp_line l;
		struct err e = { 0 };

		T_INT(qmp_line_parse(bad[i], strlen(bad[i]), &l, &e), -EBADMSG);
		T_INT(e.kind, ERR_INVALID);
	}
}

TEST(no_command_before_the_greeting)
{
	struct fake f;

	start(&f);
	T_INT(qmp_call(f.q, "stop", NULL, -1, 1000, on_done, &f), -EPIPE);
	stop(&f);
}

TEST(answers_come_in_order)
{
	struct fake f;

	ready(&f);
	T_INT(qmp_call(f.q, "one", NULL, -1, 1000, on_done, &f), 0);
	T_INT(qmp_call(f.q, "two", json_object(), -1, 1000, on_done, &f), 0);
	T_INT(f.n_done, 0);
	T_STR(heard(&f), "{\"execute\":\"one\"}\n"
			 "{\"execute\":\"two\",\"arguments\":{}}\n");
	say(&f, "{\"return\":{\"a\":1}}\n");
	T_INT(f.n_done, 1);
	T_STR(f.last, "{\"a\":1}");
	say(&f, "{\"error\":{\"class\":\"GenericError\",\"desc\":\"no\"}}\n");
	T_INT(f.n_done, 2);
	T_HAS(f.last, "no");
	T_INT(f.n_close, 0);
	stop(&f);
}

TEST(split_and_glued_lines_are_the_same)
{
	const char *s = "{\"event\":\"STOP\",\"data\":{}}\r\n\r\n"
			"{\"event\":\"RESUME\"}\n{\"return\":{}}\n";
	struct fake f;

	ready(&f);
	T_INT(qmp_call(f.q, "x", NULL, -1, 1000, on_done, &f), 0);
	for (const char *c = s; *c; c++) {
		T_INT(write(f.peer, c, 1), 1);
		loop_once(f.loop, 5);
	}
	T_STR(f.events, "STOP+,RESUME,");
	T_INT(f.n_done, 1);
	stop(&f);
}

TEST(a_descriptor_travels_with_its_command)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(sizeof(int) * 4)];
	} u;
	struct fake f;
	char b[256];
	int fd = memfd_create("x", MFD_CLOEXEC), got = -1;
	struct iovec iov = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	ready(&f);
	T_INT(qmp_call(f.q, "first", NULL, -1, 1000, NULL, NULL), 0);
	T_INT(qmp_call(f.q, "getfd", NULL, fd, 1000, NULL, NULL), 0);
	T_INT(write(fd, "hello", 5), 5);
	spin(&f);
	do {
		m.msg_control = u.b;
		m.msg_controllen = sizeof(u.b);
		n = recvmsg(f.peer, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		T_TRUE(n > 0);
	} while (!CMSG_FIRSTHDR(&m));
	b[n < 255 ? n : 255] = '\0';
	T_HAS(b, "{\"execute\":\"getfd\"}");
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	T_INT(pread(got, b, 5, 0), 5);
	T_TRUE(memcmp(b, "hello", 5) == 0);
	close(got);
	close(fd);
	stop(&f);
}

TEST(silence_ends_the_connection)
{
	struct fake f;

	ready(&f);
	T_INT(qmp_call(f.q, "x", NULL, -1, 20, on_done, &f), 0);
	for (int i = 0; i < 2000 && !f.n_close; i++)
		loop_once(f.loop, 10);
	T_INT(f.n_done, 1);
	T_INT(f.n_close, 1);
	T_INT(f.kind, ERR_TIMEOUT);
	T_INT(qmp_call(f.q, "x", NULL, -1, 20, on_done, &f), -EPIPE);
	stop(&f);
}

TEST(the_end_fails_what_waits)
{
	struct fake f;

	ready(&f);
	T_INT(qmp_call(f.q, "x", NULL, -1, 1000, on_done, &f), 0);
	T_INT(qmp_call(f.q, "y", NULL, -1, 1000, on_done, &f), 0);
	shutdown(f.peer, SHUT_RDWR);
	spin(&f);
	T_INT(f.n_done, 2);
	T_INT(f.n_close, 1);
	T_INT(f.kind, ERR_UNAVAILABLE);
	stop(&f);
}

TEST(an_unasked_answer_ends_the_connection)
{
	struct fake f;

	ready(&f);
	say(&f, "{\"return\":{}}\n");
	T_INT(f.n_close, 1);
	stop(&f);
}

TEST(a_second_greeting_ends_the_connection)
{
	struct fake f;

	ready(&f);
	say(&f, GREETING);
	T_INT(f.n_close, 1);
	stop(&f);
}

TEST(garbage_ends_the_connection)
{
	struct fake f;

	start(&f);
	say(&f, "SSH-2.0-OpenSSH\r\n");
	T_INT(f.n_close, 1);
	T_INT(f.n_ready, 0);
	stop(&f);
}

TEST(an_endless_line_ends_the_connection)
{
	static char big[65536];
	struct fake f;

	ready(&f);
	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 64 && !f.n_close; i++) {
		if (send(f.peer, big, sizeof(big), MSG_DONTWAIT) < 0)
			T_TRUE(errno == EAGAIN || errno == EPIPE);
		spin(&f);
	}
	T_INT(f.n_close, 1);
	T_HAS(f.last, "more than");
	stop(&f);
}

TEST(calls_waiting_are_bounded)
{
	struct fake f;

	ready(&f);
	for (unsigned i = 0; i < QMP_CALLS_MAX; i++)
		T_INT(qmp_call(f.q, "x", NULL, -1, 1000, on_done, &f), 0);
	T_INT(qmp_call(f.q, "x", NULL, -1, 1000, on_done, &f), -ENOBUFS);
	stop(&f);
}

TEST(the_object_may_go_in_a_callback)
{
	struct fake f;

	ready(&f);
	f.free_in_done = true;
	T_INT(qmp_call(f.q, "x", NULL, -1, 1000, on_done, &f), 0);
	say(&f, "{\"return\":{}}\n{\"event\":\"STOP\"}\n");
	T_TRUE(f.q == NULL);
	T_STR(f.events, "");
	stop(&f);
}
