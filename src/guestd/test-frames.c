/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/test-frames.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

void frames_init(struct frames *f, uint64_t from)
{
	*f = (struct frames){ .at = from };
	buf_init(&f->out, 0);
	buf_init(&f->err, 0);
}

void frames_fini(struct frames *f)
{
	buf_fini(&f->out);
	buf_fini(&f->err);
	json_decref(f->exit);
	f->exit = NULL;
}

static uint64_t get(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void one_json(struct frames *f, uint8_t type, const uint8_t *p, size_t n)
{
	owned_json v = NULL;
	struct err e = { 0 };

	T_INT(json_parse(p, n, &v, &e), 0);
	if (type == EXEC_STARTED || type == EXEC_ALIVE)
		f->stdin_offset =
		    json_integer_value(json_object_get(v, "stdin_offset"));
	if (type == EXEC_STARTED) {
		f->n_started++;
		f->pid = json_integer_value(json_object_get(v, "pid"));
	}
	if (type == EXEC_ALIVE)
		f->n_alive++;
	if (type == EXEC_CLOSING) {
		snprintf(f->closing, sizeof(f->closing), "%s",
			 json_string_value(json_object_get(v, "reason")));
		f->retry = json_is_true(json_object_get(v, "retry"));
	}
	if (type == EXEC_GAP) {
		f->n_gap++;
		f->gap_from =
		    (uint64_t)json_integer_value(json_object_get(v, "from"));
		f->gap_to =
		    (uint64_t)json_integer_value(json_object_get(v, "to"));
		T_INT(f->gap_from, f->at);
		f->at = f->gap_to;
	}
	if (type == EXEC_EXIT) {
		f->n_exit++;
		f->exit = json_incref(v);
	}
}

void frames_feed(struct frames *f, struct buf *b, bool keep)
{
	while (buf_len(b) >= EXEC_FRAME_HEADER) {
		const uint8_t *h = buf_data(b);
		size_t n = (size_t)get(h + 4, 4);

		T_TRUE(n <= EXEC_FRAME_MAX);
		if (buf_len(b) < EXEC_FRAME_HEADER + n)
			return;
		if (h[0] >= EXEC_STDOUT && h[0] <= EXEC_PTY) {
			T_INT(get(h + 8, 8), f->at);
			f->at += n;
			if (keep)
				T_INT(buf_put(h[0] != EXEC_STDERR ? &f->out
								  : &f->err,
					      h + EXEC_FRAME_HEADER, n),
				      0);
		} else {
			one_json(f, h[0], h + EXEC_FRAME_HEADER, n);
		}
		buf_consume(b, EXEC_FRAME_HEADER + n);
	}
}

void session_open(struct rig *r, struct session *s, const char *id,
		  const char *query, uint64_t from)
{
	struct http_head head;
	struct err e = { 0 };

	s->p = (struct rig_reply){ .rig = r };
	buf_init(&s->p.body, 0);
	frames_init(&s->f, from);
	http_head_init(&head);
	head.method = xstrdup("POST");
	head.path = xasprintf("/v1/execs/%s/attach%s", id, query);
	head.authority = xstrdup("guest");
	s->p.stream =
	    http_conn_request(r->conn, &head, true, rig_handler(), &s->p, &e);
	http_head_fini(&head);
	T_TRUE(s->p.stream != NULL);
}

void session_close(struct session *s)
{
	rig_reply_fini(&s->p);
	frames_fini(&s->f);
}

static void session_write(struct session *s, const uint8_t *p, size_t n)
{
	while (n > 0 && s->p.stream) {
		size_t k = http_stream_write(s->p.stream, p, n);

		p += k;
		n -= k;
		if (n > 0)
			rig_run(s->p.rig, 5, &s->p.closed);
	}
}

void session_send(struct session *s, uint8_t type, uint64_t offset,
		  const void *p, size_t n)
{
	uint8_t h[EXEC_FRAME_HEADER] = { type };

	for (int i = 0; i < 4; i++)
		h[4 + i] = (uint8_t)(n >> (24 - 8 * i));
	for (int i = 0; i < 8; i++)
		h[8 + i] = (uint8_t)(offset >> (56 - 8 * i));
	session_write(s, h, sizeof(h));
	session_write(s, p, n);
}

void session_input(struct session *s, uint64_t offset, const char *text)
{
	session_send(s, EXEC_STDIN, offset, text, strlen(text));
}

void session_ack(struct session *s)
{
	session_send(s, EXEC_ACK, s->f.at, NULL, 0);
}

void session_run(struct session *s, uint64_t ms, bool ack)
{
	uint64_t until = now_mono_us() / 1000 + ms;

	while (!s->p.closed && now_mono_us() / 1000 < until) {
		uint64_t at = s->f.at;

		rig_run(s->p.rig, 10, &s->p.closed);
		if (s->p.status != 200)
			continue;
		frames_feed(&s->f, &s->p.body, true);
		if (ack && s->f.at != at)
			session_ack(s);
	}
	if (s->p.status == 200)
		frames_feed(&s->f, &s->p.body, true);
}

void session_expect(struct session *s, const char *text)
{
	uint64_t until = now_mono_us() + UINT64_C(1000) * RIG_WAIT_MS;

	while (!strstr(buf_cstr(&s->f.out), text) && !s->p.closed &&
	       now_mono_us() < until)
		session_run(s, 20, true);
	T_HAS(buf_cstr(&s->f.out), text);
}

void session_finish(struct session *s)
{
	session_run(s, RIG_WAIT_MS, true);
	T_TRUE(s->p.closed && !s->p.cut);
}

void guest_up(struct rig *r)
{
	rig_spawn(r);
	T_TRUE(rig_wait_up(r));
	T_INT(rig_go(r, "sb00000000000000000001"), 200);
}

int guest_exec(struct rig *r, const char *fields, char ret_id[40])
{
	owned_str body = NULL;
	struct rig_reply p;
	int status;

	memcpy(ret_id, "ex_", 3);
	random_id(ret_id + 3, 28);
	/* most tests want it to run at once */
	body =
	    xasprintf("{\"id\":\"%s\",%s%s}", ret_id, fields,
		      strstr(fields, "\"start\"") ? "" : ",\"start\":\"now\"");
	status = rig_call(r, &p, "POST", "/v1/execs", body);
	rig_reply_fini(&p);
	return status;
}

void guest_output(struct rig *r, const char *id, uint64_t from,
		  struct frames *f)
{
	struct rig_reply p;
	char path[128];

	frames_init(f, from);
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=%llu&follow=1",
		 id, (unsigned long long)from);
	T_INT(rig_call(r, &p, "GET", path, NULL), 200);
	frames_feed(f, &p.body, true);
	T_INT(buf_len(&p.body), 0);
	rig_reply_fini(&p);
	T_INT(f->n_exit, 1);
	T_INT(f->n_started, 1);
}

void guest_run(struct rig *r, const char *fields, struct frames *f)
{
	char id[40];

	T_INT(guest_exec(r, fields, id), 201);
	guest_output(r, id, 0, f);
}

const char *exit_str(const struct frames *f, const char *key)
{
	return json_string_value(json_object_get(f->exit, key));
}

long long exit_int(const struct frames *f, const char *key)
{
	const json_t *v = json_object_get(f->exit, key);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

const char *error_code(struct rig_reply *p)
{
	static char code[64];
	owned_json v = NULL;
	struct err e = { 0 };
	const char *text;

	code[0] = '\0';
	if (json_parse(buf_data(&p->body), buf_len(&p->body), &v, &e) < 0)
		return code;
	text = json_string_value(
	    json_object_get(json_object_get(v, "error"), "code"));
	snprintf(code, sizeof(code), "%s", text ? text : "");
	return code;
}
