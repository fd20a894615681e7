/* SPDX-License-Identifier: Apache-2.0 */

/* Requests that wait for a program to have started. */

#include <stdlib.h>

#include "guestd/exec_stream.h"
#include "guestd/reply.h"

struct waiter {
	struct list link;
	struct exec *exec;
	struct http_stream *stream;
	int status;
};

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

void exec_wait_start(struct exec *x, struct http_stream *s, int status)
{
	struct waiter *w;

	if (x->state != EXEC_ST_STARTING) {
		reply_json_take(s, status, exec_record(x));
		return;
	}
	w = xnew(struct waiter);
	w->exec = x;
	w->stream = s;
	w->status = status;
	exec_ref(x);
	list_add_tail(&x->waiters, &w->link);
	http_stream_handle(s, &handler, w);
}

void exec_waiters_answer(struct exec *x, const struct exec_report *r)
{
	struct waiter *w, *tmp;

	exec_ref(x);
	list_for_each_safe (w, tmp, &x->waiters, link) {
		struct http_stream *s = w->stream;
		int status = w->status;

		http_stream_handle(s, &handler, NULL);
		list_del(&w->link);
		free(w);
		if (!r)
			reply_json_take(s, status, exec_record(x));
		else
			reply_error(s, r->status,
				    r->status == 400   ? "invalid_field"
				    : r->status == 403 ? "policy_denied"
				    : r->status == 503 ? "capacity"
				    : r->status == 504 ? "timeout"
						       : "internal",
				    r->field, NULL, r->msg);
		exec_unref(x);
	}
	exec_unref(x);
}
