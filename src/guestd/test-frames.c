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
	if (type == EXEC_STARTED)
		f->n_started++;
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
		if (h[0] == EXEC_STDOUT || h[0] == EXEC_STDERR) {
			T_INT(get(h + 8, 8), f->at);
			f->at += n;
			if (keep)
				T_INT(buf_put(h[0] == EXEC_STDOUT ? &f->out
								  : &f->err,
					      h + EXEC_FRAME_HEADER, n),
				      0);
		} else {
			one_json(f, h[0], h + EXEC_FRAME_HEADER, n);
		}
		buf_consume(b, EXEC_FRAME_HEADER + n);
	}
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
