/* SPDX-License-Identifier: Apache-2.0 */

/* Requests that wait for a program to have started. */

#include <errno.h>
#include <stdlib.h>

#include "guestd/exec_stream.h"
#include "guestd/reply.h"

struct waiter {
	struct list link;
	struct exec *exec;
	struct http_stream *stream;
	int status; /* of the answer with the record; 0: it attaches */
	uint64_t from;
	bool watch;
};

/* An attach's frames wait in the stream. */
static void on_body(struct http_stream *s)
{
	(void)s;
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct waiter *w = http_stream_owner(s);

	(void)e;
	if (!w)
		return;
	list_del(&w->link);
	exec_unref(w->exec);
	free(w);
}

static const struct http_handler handler = {
	.on_body = on_body,
	.on_close = on_close,
};

static struct waiter *wait_for(struct exec *x, struct http_stream *s)
{
	struct waiter *w = xnew(struct waiter);

	w->exec = x;
	w->stream = s;
	exec_ref(x);
	list_add_tail(&x->waiters, &w->link);
	http_stream_handle(s, &handler, w);
	return w;
}

void exec_wait_start(struct exec *x, struct http_stream *s, int status)
{
	if (x->state != EXEC_ST_STARTING) {
		reply_json_take(s, status, exec_record(x));
		return;
	}
	wait_for(x, s)->status = status;
}

void exec_wait_attach(struct exec *x, struct http_stream *s, uint64_t from,
		      bool watch)
{
	struct waiter *w = wait_for(x, s);

	w->from = from;
	w->watch = watch;
}

void exec_reply_refused(struct http_stream *s, const struct exec_report *r)
{
	const char *code = "internal", *remedy = NULL;

	switch (r->status) {
	case 400:
		code = "invalid_field";
		break;
	case 403:
		code = "policy_denied";
		remedy = "make it executable for the exec's user, or choose "
			 "another user";
		break;
	case 404:
		code = "not_found";
		remedy = "name a program that is in the template, or its path "
			 "in full";
		break;
	case 503:
		code = "capacity";
		break;
	case 504:
		code = "timeout";
		break;
	default:
		break;
	}
	if (r->status == 400 && r->errnum == ENOEXEC)
		remedy = "begin a script with #! and its interpreter";
	reply_error(s, r->status, code, r->field, remedy, r->msg);
}

void exec_waiters_answer(struct exec *x, const struct exec_report *r)
{
	struct waiter *w, *tmp;

	exec_ref(x);
	list_for_each_safe (w, tmp, &x->waiters, link) {
		struct waiter now = *w;

		http_stream_handle(now.stream, &handler, NULL);
		list_del(&w->link);
		free(w);
		if (r)
			exec_reply_refused(now.stream, r);
		else if (now.status)
			reply_json_take(now.stream, now.status, exec_record(x));
		else
			exec_attach(x, now.stream, now.from, now.watch);
		exec_unref(x);
	}
	exec_unref(x);
}
