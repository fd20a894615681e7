/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qmp.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/own.h"
#include "net/json.h"

struct call {
	struct list link;
	uint64_t deadline_ms;
	void (*done)(void *arg, json_t *ret, const struct err *e);
	void *arg;
};

/* A descriptor and the byte of the output that it must travel with. */
struct passed {
	struct list link;
	uint64_t at;
	int fd;
};

struct qmp {
	struct loop *loop;
	int fd;
	struct loop_io io;
	struct loop_timer timer;
	const struct qmp_ops *ops;
	void *owner;
	struct buf in, out;
	uint64_t sent; /* bytes that left */
	size_t scanned;
	struct list calls;  /* oldest first; answers come in this order */
	struct list passed; /* ascending */
	unsigned n_calls;
	bool is_greeted, is_dead;
	bool *freed; /* set while a callback runs */
};

int qmp_line_parse(const void *p, size_t n, struct qmp_line *ret, struct err *e)
{
	owned_json obj = NULL;
	struct qmp_line l = { 0 };
	json_t *v;
	int r = json_parse(p, n, &obj, e);

	if (r < 0)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "the VMM wrote a line that is not JSON");
	if (!json_is_object(obj))
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "the VMM wrote a line that is not an object");
	if ((v = json_object_get(obj, "return"))) {
		l.kind = QMP_RETURN;
		l.data = v;
	} else if ((v = json_object_get(obj, "error"))) {
		l.kind = QMP_ERROR;
		l.name = json_string_value(json_object_get(v, "class"));
		l.text = json_string_value(json_object_get(v, "desc"));
		if (!l.text)
			l.text = "no description";
		if (!l.name)
			l.name = "GenericError";
	} else if ((v = json_object_get(obj, "event"))) {
		l.kind = QMP_EVENT;
		l.name = json_string_value(v);
		l.data = json_object_get(obj, "data");
		if (!l.name)
			return err_set(e, -EBADMSG, ERR_INVALID,
				       "the VMM wrote an event without a name");
	} else if ((v = json_object_get(obj, "QMP"))) {
		json_t *q =
		    json_object_get(json_object_get(v, "version"), "qemu");

		l.kind = QMP_GREETING;
		l.major = (int)json_integer_value(json_object_get(q, "major"));
		l.minor = (int)json_integer_value(json_object_get(q, "minor"));
	} else {
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "the VMM wrote a line of an unknown kind");
	}
	l.obj = TAKE(obj);
	*ret = l;
	return 0;
}

void qmp_line_fini(struct qmp_line *l)
{
	json_decref(l->obj);
	l->obj = NULL;
}

static void drop_passed(struct qmp *q)
{
	struct passed *p, *tmp;

	list_for_each_safe (p, tmp, &q->passed, link) {
		list_del(&p->link);
		fd_close(p->fd);
		free(p);
	}
}

/* Everything ends: calls first, in order, then on_close. The object may be
 * freed by any of them. */
static void die(struct qmp *q, const struct err *e)
{
	bool freed = false, *outer = q->freed;
	struct err why = *e;

	if (q->is_dead)
		return;
	q->is_dead = true;
	loop_io_del(&q->io);
	loop_timer_del(&q->timer);
	q->freed = &freed;
	while (!freed && !list_empty(&q->calls)) {
		struct call *c =
		    list_entry(list_first(&q->calls), struct call, link);

		list_del(&c->link);
		q->n_calls--;
		if (c->done)
			c->done(c->arg, NULL, &why);
		free(c);
	}
	if (!freed)
		q->ops->on_close(q, &why);
	if (!freed)
		q->freed = outer;
	else if (outer)
		*outer = true;
}

static void on_timer(struct loop_timer *t);

static void arm(struct qmp *q)
{
	uint64_t now = loop_now_ms(q->loop), at = UINT64_MAX;
	struct call *c;

	list_for_each (c, &q->calls, link)
		if (c->deadline_ms < at)
			at = c->deadline_ms;
	if (at == UINT64_MAX)
		loop_timer_del(&q->timer);
	else
		loop_timer_set(q->loop, &q->timer, at > now ? at - now : 0,
			       on_timer);
}

static void on_timer(struct loop_timer *t)
{
	struct qmp *q = container_of(t, struct qmp, timer);
	struct err e = { 0 };
	struct call *c;
	bool late = false;

	list_for_each (c, &q->calls, link)
		late |= c->deadline_ms <= loop_now_ms(q->loop);
	if (!late) {
		arm(q);
		return;
	}
	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
		"the VMM did not answer a command in time");
	die(q, &e);
}

/* ---- output ---- */

static ssize_t send_some(struct qmp *q, const uint8_t *p, size_t n,
			 struct passed *with)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	union {
		const uint8_t *in;
		void *out;
	} cast = { .in = p };
	struct iovec iov = { cast.out, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (with) {
		struct cmsghdr *c;

		m.msg_control = u.b;
		m.msg_controllen = sizeof(u.b);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &with->fd, sizeof(int));
	}
	return sendmsg(q->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flush(struct qmp *q)
{
	while (buf_len(&q->out) > 0) {
		struct passed *p, *with = NULL;
		size_t n = buf_len(&q->out);
		ssize_t w;

		/* one message never crosses the start of a descriptor */
		list_for_each (p, &q->passed, link) {
			if (p->at == q->sent) {
				with = p;
				continue;
			}
			if (p->at - q->sent < n)
				n = (size_t)(p->at - q->sent);
			break;
		}
		w = send_some(q, buf_data(&q->out), n, with);
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0) /* the end is read, too; that is where we die */
			buf_clear(&q->out);
		if (w <= 0)
			break;
		buf_consume(&q->out, (size_t)w);
		q->sent += (size_t)w;
		if (with) {
			list_del(&with->link);
			fd_close(with->fd);
			free(with);
		}
	}
	loop_io_set(&q->io, LOOP_IN | (buf_len(&q->out) ? LOOP_OUT : 0u));
}

int qmp_call(struct qmp *q, const char *command, json_t *args_take, int fd,
	     uint64_t timeout_ms,
	     void (*done)(void *arg, json_t *ret, const struct err *e),
	     void *arg)
{
	owned_json msg = json_object();
	owned_str text = NULL;
	struct passed *p = NULL;
	struct call *c;

	json_set_take(msg, "execute", json_string(command));
	if (args_take)
		json_set_take(msg, "arguments", args_take);
	if (q->is_dead || !q->is_greeted)
		return -EPIPE;
	if (q->n_calls >= QMP_CALLS_MAX)
		return -ENOBUFS;
	text = json_text(msg);
	if (fd >= 0) {
		p = xnew(struct passed);
		p->at = q->sent + buf_len(&q->out);
		p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (p->fd < 0) {
			free(p);
			return -EMFILE;
		}
	}
	if (buf_printf(&q->out, "%s\n", text) < 0) {
		if (p)
			fd_close(p->fd);
		free(p);
		return -ENOBUFS;
	}
	if (p)
		list_add_tail(&q->passed, &p->link);
	c = xnew(struct call);
	c->deadline_ms = loop_now_ms(q->loop) + timeout_ms;
	c->done = done;
	c->arg = arg;
	list_add_tail(&q->calls, &c->link);
	q->n_calls++;
	arm(q);
	flush(q);
	return 0;
}

/* ---- input ---- */

static void on_capabilities(void *arg, json_t *ret, const struct err *e)
{
	struct qmp *q = arg;

	(void)ret;
	if (!e)
		q->ops->on_ready(q);
}

static int on_greeting(struct qmp *q, struct err *e)
{
	if (q->is_greeted)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "the VMM greeted twice");
	q->is_greeted = true;
	return qmp_call(q, "qmp_capabilities", NULL, -1, 60000, on_capabilities,
			q);
}

static int on_answer(struct qmp *q, struct qmp_line *l, struct err *e)
{
	struct err failed = { 0 };
	struct call *c;

	if (list_empty(&q->calls))
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "the VMM answered what nobody asked");
	c = list_entry(list_first(&q->calls), struct call, link);
	list_del(&c->link);
	q->n_calls--;
	arm(q);
	if (l->kind == QMP_ERROR)
		err_set(&failed, -EREMOTEIO,
			strcmp(l->name, "CommandNotFound") == 0
			    ? ERR_UNSUPPORTED
			    : ERR_INTERNAL,
			"VMM: %.200s", l->text);
	if (c->done)
		c->done(c->arg, l->kind == QMP_ERROR ? NULL : l->data,
			l->kind == QMP_ERROR ? &failed : NULL);
	free(c);
	return 0;
}

static int dispatch(struct qmp *q, struct qmp_line *l, struct err *e)
{
	switch (l->kind) {
	case QMP_GREETING:
		return on_greeting(q, e);
	case QMP_EVENT:
		q->ops->on_event(q, l->name, l->data);
		return 0;
	case QMP_RETURN:
	case QMP_ERROR:
		return on_answer(q, l, e);
	}
	return 0;
}

/* Whole lines that are there; 1 if the object is gone. */
static int take_lines(struct qmp *q, struct err *e)
{
	bool freed = false;
	int r = 0;

	CHECK(!q->freed);
	q->freed = &freed;
	while (r == 0 && !freed && !q->is_dead) {
		uint8_t *p = buf_data(&q->in);
		size_t n = buf_len(&q->in);
		uint8_t *nl = n > q->scanned
				  ? memchr(p + q->scanned, '\n', n - q->scanned)
				  : NULL;
		struct qmp_line l = { 0 };
		size_t len;

		q->scanned = n;
		if (!nl)
			break;
		len = (size_t)(nl - p);
		n = len;
		while (n && p[n - 1] == '\r')
			n--;
		if (n)
			r = qmp_line_parse(p, n, &l, e);
		buf_consume(&q->in, len + 1);
		q->scanned = 0;
		if (n && r == 0)
			r = dispatch(q, &l, e);
		qmp_line_fini(&l);
	}
	if (freed)
		return 1;
	q->freed = NULL;
	return r;
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct qmp *q = container_of(io, struct qmp, io);
	struct err e = { 0 };
	uint8_t *p;
	ssize_t n;
	int r;

	if (events & LOOP_OUT)
		flush(q);
	if (!(events & (LOOP_IN | LOOP_HUP)))
		return;
	p = buf_reserve(&q->in, 16384);
	if (!p) {
		err_set(&e, -EBADMSG, ERR_INVALID,
			"the VMM wrote a line of more than %u bytes",
			QMP_LINE_MAX);
		die(q, &e);
		return;
	}
	n = recv(q->fd, p, 16384, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		err_set(&e, -EPIPE, ERR_UNAVAILABLE,
			"the VMM closed its control connection");
		die(q, &e);
		return;
	}
	buf_commit(&q->in, (size_t)n);
	r = take_lines(q, &e);
	if (r < 0)
		die(q, &e);
}

struct qmp *qmp_new_take(struct loop *l, int fd, const struct qmp_ops *ops,
			 void *owner)
{
	struct qmp *q = xnew(struct qmp);

	q->loop = l;
	q->fd = fd;
	q->ops = ops;
	q->owner = owner;
	buf_init(&q->in, QMP_LINE_MAX + 16384);
	buf_init(&q->out, QMP_LINE_MAX);
	list_init(&q->calls);
	list_init(&q->passed);
	CHECK(loop_io_add(l, &q->io, fd, LOOP_IN, on_io) == 0);
	return q;
}

struct qmp *qmp_free(struct qmp *q)
{
	struct call *c, *tmp;

	if (!q)
		return NULL;
	if (q->freed)
		*q->freed = true;
	loop_io_del(&q->io);
	loop_timer_del(&q->timer);
	fd_close(q->fd);
	list_for_each_safe (c, tmp, &q->calls, link) {
		list_del(&c->link);
		free(c);
	}
	drop_passed(q);
	buf_fini(&q->in);
	buf_fini(&q->out);
	free(q);
	return NULL;
}

void *qmp_owner(const struct qmp *q)
{
	return q->owner;
}
