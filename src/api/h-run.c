/* SPDX-License-Identifier: Apache-2.0 */

/*
 * POST /v1/sandboxes/{id}/run: an exec that is made, started and read in one
 * call, for clients that have no stream. The exec is an ordinary one: if it
 * outlives the call, or the call breaks, it goes on and is found by its id.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/clip.h"
#include "api/data.h"
#include "api/duplex.h"
#include "api/frame.h"
#include "api/guest.h"
#include "api/handlers.h"
#include "api/proxy.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define WAIT_S	   60
#define RECORD_MAX 1048576u
#define CREATE_MS  30000u
#define BODY_MAX   (HTTP_OUT_MAX - 4096u) /* a new stream takes it at once */

struct run {
	struct req *req; /* a reference */
	char *sandbox, *data_path, *body;
	char exec[32]; /* "" until the guest said so */
	int64_t wait_s;
	struct data_want *want;
	struct http_stream *up; /* the call in hand */
	struct buf in;		/* a record, then a frame, not whole yet */
	struct clip out, err;
	uint64_t gap_bytes;
	json_t *exit;
	struct loop_timer timer;
	uint64_t asked_us; /* when the sandbox was asked last; 0: not asked */
	bool repeated;
};

static void run_free(struct run *x)
{
	struct req *r = x->req;

	r->on_close = NULL;
	r->state = NULL;
	if (x->up)
		duplex_abandon(x->up);
	if (x->want)
		data_want_drop(x->want);
	loop_timer_del(&x->timer);
	buf_fini(&x->in);
	clip_fini(&x->out);
	clip_fini(&x->err);
	json_decref(x->exit);
	free(x->sandbox);
	free(x->data_path);
	free(x->body);
	free(x);
	req_unref(r);
}

static void on_client_gone(struct req *r)
{
	run_free(r->state);
}

/* ---- answers ---- */

/* What passed since the sandbox was asked is not the server's time. */
static void count_guest(struct run *x)
{
	if (x->asked_us)
		x->req->guest_us += now_mono_us() - x->asked_us;
	x->asked_us = 0;
}

static void answer(struct run *x)
{
	owned_json o = json_object();
	owned_str text = NULL;
	owned_str where = xasprintf("/v1/execs/%s", x->exec);

	count_guest(x);
	json_set_take(o, "id", json_string(x->exec));
	json_set_take(o, "state", json_string(x->exit ? "exited" : "running"));
	json_set_take(o, "exit", x->exit ? json_incref(x->exit) : json_null());
	json_set_take(o, "stdout", clip_json(&x->out));
	json_set_take(o, "stderr", clip_json(&x->err));
	json_set_take(o, "gap_bytes", json_integer((json_int_t)x->gap_bytes));
	text = json_text(o);
	if (x->exit)
		req_json(x->req, 200, text);
	else
		req_json_with(x->req, 202, "location", where, text);
	run_free(x);
}

static void lost(struct run *x, const struct err *e)
{
	struct fault f;

	if (*x->exec)
		fault_set(&f, "node_unavailable", "guest",
			  "GET /v1/execs/{id} tells how it is, GET "
			  "/v1/execs/{id}/output what it wrote",
			  "the output of %s broke off; it may still run: %s",
			  x->exec, e ? e->msg : "its stream ended");
	else
		fault_set(&f, "node_unavailable", "guest",
			  "repeat the call with the same Idempotency-Key",
			  "the sandbox did not answer: %s",
			  e ? e->msg : "its connection closed");
	req_fault(x->req, &f);
	run_free(x);
}

static void on_time(struct loop_timer *t)
{
	struct run *x = container_of(t, struct run, timer);

	if (*x->exec)
		answer(x);
	else
		lost(x, NULL);
}

/* ---- output ---- */

static void take_gap(struct run *x, const struct frame *f)
{
	owned_json v = NULL;
	json_int_t from, to;

	if (json_parse(f->payload, f->n, &v, NULL) < 0)
		return;
	from = json_integer_value(json_object_get(v, "from"));
	to = json_integer_value(json_object_get(v, "to"));
	if (from >= 0 && to > from)
		x->gap_bytes += (uint64_t)(to - from);
}

/* true: it is over, one way or the other, and x is gone. */
static bool take_frame(struct run *x, const struct frame *f)
{
	struct err e = { 0 };

	switch (f->type) {
	case EXEC_STDOUT:
	case EXEC_PTY:
		clip_put(&x->out, f->payload, f->n);
		return false;
	case EXEC_STDERR:
		clip_put(&x->err, f->payload, f->n);
		return false;
	case EXEC_GAP:
		take_gap(x, f);
		return false;
	case EXEC_EXIT:
		if (json_parse(f->payload, f->n, &x->exit, NULL) < 0)
			break;
		answer(x);
		return true;
	case EXEC_CLOSING:
		break;
	default:
		return false;
	}
	err_set(&e, -EPROTO, ERR_UNAVAILABLE, "the guest closed it");
	lost(x, &e);
	return true;
}

static void on_output(struct http_stream *s)
{
	struct run *x = http_stream_owner(s);
	const uint8_t *p;
	struct frame f;
	ptrdiff_t k;
	size_t n;

	if (!http_stream_head(s))
		return;
	while ((n = http_stream_peek(s, &p)) > 0) {
		buf_put(&x->in, p, n);
		http_stream_consume(s, n);
		while ((k = frame_from_guest(buf_data(&x->in), buf_len(&x->in),
					     &f)) > 0) {
			if (take_frame(x, &f))
				return;
			buf_consume(&x->in, (size_t)k);
		}
		if (k < 0) {
			lost(x, NULL);
			return;
		}
	}
}

static void on_output_close(struct http_stream *s, const struct err *e)
{
	struct run *x = http_stream_owner(s);

	x->up = NULL;
	lost(x, e);
}

/* ---- creation ---- */

static void ask(struct run *x);

static void on_record(struct http_stream *s)
{
	struct run *x = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (n &&
	    (buf_len(&x->in) + n > RECORD_MAX || buf_put(&x->in, p, n) < 0)) {
		http_stream_reset(s);
		return;
	}
	http_stream_consume(s, n);
}

static void on_created(struct http_stream *s, const struct err *e)
{
	struct run *x = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);
	int status = h ? h->status : 0;
	size_t n = buf_len(&x->in);
	owned_str text = xstrndup(n ? (const char *)buf_data(&x->in) : "", n);
	owned_json record = NULL;
	const char *id;

	count_guest(x);
	x->up = NULL;
	buf_clear(&x->in);
	if (e || proxy_status(status) != status || !proxy_utf8(text, n)) {
		lost(x, e);
		return;
	}
	if (status >= 300) {
		req_json(x->req, status, text);
		run_free(x);
		return;
	}
	if (json_parse(text, n, &record, NULL) < 0) {
		lost(x, NULL);
		return;
	}
	id = json_string_value(json_object_get(record, "id"));
	if (!id || !id_valid(id, "ex_", 28) ||
	    strncmp(id + 3, x->sandbox + 2, 20) != 0) {
		lost(x, NULL);
		return;
	}
	snprintf(x->exec, sizeof(x->exec), "%s", id);
	loop_timer_set(x->req->api->loop, &x->timer, (uint64_t)x->wait_s * 1000,
		       on_time);
	ask(x);
}

static void send_create(struct run *x, struct http_head *head)
{
	const char *idem = req_header(x->req, "idempotency-key");
	char length[24];

	head->method = xstrdup("POST");
	head->path = xstrdup("/v1/execs");
	snprintf(length, sizeof(length), "%zu", strlen(x->body));
	http_head_add(head, "content-type", "application/json");
	http_head_add(head, "content-length", length);
	if (idem)
		http_head_add(head, "idempotency-key", idem);
}

static void send_output(const struct run *x, struct http_head *head)
{
	head->method = xstrdup("GET");
	head->path = xasprintf("/v1/execs/%s/output?from=0&follow=1", x->exec);
	http_head_add(head, "accept", "application/vnd.caisson.frames");
}

/* The call that is next, on this connection. */
static bool start(struct run *x, struct http_conn *conn, struct err *e)
{
	static const struct http_handler create_ops = {
		.on_head = on_record,
		.on_body = on_record,
		.on_close = on_created,
	};
	static const struct http_handler output = {
		.on_head = on_output,
		.on_body = on_output,
		.on_close = on_output_close,
	};
	bool create = !*x->exec;
	struct http_head head;
	size_t n = strlen(x->body);

	http_head_init(&head);
	head.authority = xstrdup("guest");
	http_head_add(&head, "traceparent", x->req->traceparent);
	if (create)
		send_create(x, &head);
	else
		send_output(x, &head);
	x->up = http_conn_request(conn, &head, create,
				  create ? &create_ops : &output, x, e);
	http_head_fini(&head);
	if (!x->up || !create)
		return x->up != NULL;
	CHECK(http_stream_write(x->up, x->body, n) == n); /* BODY_MAX */
	http_stream_end(x->up);
	return true;
}

static void on_conn(void *arg, struct http_conn *conn, bool reused,
		    const struct fault *f)
{
	struct run *x = arg;
	struct err e = { 0 };

	x->want = NULL;
	if (!conn) {
		req_fault(x->req, f);
		run_free(x);
		return;
	}
	if (start(x, conn, &e))
		return;
	data_forget(x->req->api->datas, x->sandbox);
	if (reused && !x->repeated) {
		x->repeated = true;
		ask(x);
		return;
	}
	lost(x, &e);
}

static void ask(struct run *x)
{
	struct data_want *w;

	if (!x->asked_us)
		x->asked_us = now_mono_us();
	w = data_get(x->req->api->datas, x->sandbox, x->data_path, on_conn, x);

	/* NULL: on_conn ran and x may be gone */
	if (w)
		x->want = w;
}

static json_t *parsed(const char *text)
{
	json_t *v = NULL;

	return text && json_parse(text, strlen(text), &v, NULL) == 0 ? v : NULL;
}

static void too_large(struct req *r)
{
	struct fault f;

	fault_set(&f, "too_large", "request",
		  "put it into a file first, or use POST "
		  "/v1/sandboxes/{id}/execs",
		  "command and environment are larger than %u bytes", BODY_MAX);
	req_fault(r, &f);
}

static void on_guest(struct req *r, const struct guest *g)
{
	owned_json defaults = parsed(g->defaults);
	owned_json env = parsed(g->env);
	owned_json body = NULL;
	owned_str text = NULL;
	struct run *x;
	char id[32];

	snprintf(id, sizeof(id), "ex_%.20s", g->id + 2);
	random_id(id + 23, 8);
	json_set_take(r->json, "start", json_string("now"));
	body = body_exec_merge(r->json, id, defaults, env);
	text = json_text(body);
	if (strlen(text) > BODY_MAX) {
		too_large(r);
		return;
	}
	x = xnew(struct run);
	x->req = req_ref(r);
	x->sandbox = xstrdup(g->id);
	x->data_path = xstrdup(g->data_path);
	x->body = TAKE(text);
	buf_init(&x->in, 0); /* a frame and what a stream holds */
	clip_init(&x->out);
	clip_init(&x->err);
	req_query_int(r, "wait_s", 1, WAIT_S, WAIT_S, &x->wait_s);
	r->state = x;
	r->on_close = on_client_gone;
	loop_timer_set(r->api->loop, &x->timer, CREATE_MS, on_time);
	ask(x);
}

void h_exec_run(struct req *r)
{
	struct body_exec b;
	const char *idem;
	struct fault f;
	int64_t wait_s;

	if (!req_idem(r, &idem) ||
	    !req_query_int(r, "wait_s", 1, WAIT_S, WAIT_S, &wait_s))
		return;
	if (body_exec(r->json, &b, &f) == 0 &&
	    (b.has_stdin || (b.attach && json_object_get(r->json, "start")))) {
		const char *field = b.has_stdin ? "stdin" : "start";

		fault_set(&f, "invalid_field", "request",
			  "POST /v1/sandboxes/{id}/execs makes an exec to "
			  "attach to",
			  "field \"%s\": nobody attaches to a run", field);
		snprintf(f.field, sizeof(f.field), "%s", field);
	}
	if (f.code)
		req_fault(r, &f);
	else
		guest_find(r, req_param(r, "id"), on_guest);
}
