/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "guestd/exec_stream.h"
#include "guestd/life.h"
#include "guestd/reply.h"

#define KEY_MAX 128

/* ---- idempotency ---- */

/* What the first request with a key was, so that a second one joins it. */
struct exec_key {
	struct list link; /* oldest first */
	char key[KEY_MAX + 1];
	char id[EXEC_ID_MAX];
	uint64_t at_ms;
	size_t body_bytes;
	uint64_t body_hash;
};

static void key_free(struct execs *s, struct exec_key *k)
{
	(void)map_del(s->keys, k->key);
	list_del(&k->link);
	free(k);
}

void execs_forget_keys(struct execs *s)
{
	struct exec_key *k, *tmp;

	list_for_each_safe (k, tmp, &s->key_order, link)
		key_free(s, k);
}

void exec_key_forget(struct execs *s, const char *id)
{
	struct exec_key *k, *tmp;

	list_for_each_safe (k, tmp, &s->key_order, link)
		if (strcmp(k->id, id) == 0)
			key_free(s, k);
}

static void keys_trim(struct execs *s)
{
	uint64_t now = loop_now_ms(s->g->loop);
	struct exec_key *k, *tmp;

	list_for_each_safe (k, tmp, &s->key_order, link) {
		if (now - k->at_ms < EXEC_KEY_MS &&
		    map_len(s->keys) < EXEC_KEYS_MAX)
			return;
		key_free(s, k);
	}
}

static void key_add(struct execs *s, const char *key, const char *id,
		    uint64_t hash, size_t n)
{
	struct exec_key *k = xnew(struct exec_key);

	snprintf(k->key, sizeof(k->key), "%s", key);
	snprintf(k->id, sizeof(k->id), "%s", id);
	k->at_ms = loop_now_ms(s->g->loop);
	k->body_bytes = n;
	k->body_hash = hash;
	list_add_tail(&s->key_order, &k->link);
	(void)map_set(s->keys, k->key, k);
}

static bool key_is_valid(const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < n; i++)
		if (key[i] < 0x20 || key[i] > 0x7e)
			return false;
	return n >= 1 && n <= KEY_MAX;
}

/*
 * The id is chosen by the asker per request, so two tries of one request differ
 * in it: it is left out of what is compared.
 */
static uint64_t body_hash(const void *body, size_t n)
{
	owned_json root = NULL;
	owned_str text = NULL;
	struct err e = { 0 };

	if (json_parse(body, n, &root, &e) < 0 || !json_is_object(root))
		return 0;
	(void)json_object_del(root, "id");
	text = json_text(root);
	return map_siphash(0x6361697373, 0x6f6e2d6578, text, strlen(text));
}

/* true: the stream has been answered (or will be). */
static bool replay(struct guestd *g, struct http_stream *s, const char *key,
		   uint64_t hash)
{
	struct exec_key *k = map_get(g->execs->keys, key);
	struct exec *x = k ? execs_get(g->execs, k->id) : NULL;

	if (!x)
		return false;
	if (k->body_hash != hash) {
		reply_error(s, 409, "idempotency_mismatch", NULL,
			    "use another key for another request",
			    "this idempotency-key was used with another body");
		return true;
	}
	exec_wait_start(x, s, 200);
	return true;
}

/* ---- create ---- */

static bool may_create(struct guestd *g, struct http_stream *s)
{
	if (!life_is_running(g->life)) {
		reply_wrong_state(s,
				  "the guest is frozen; nothing can be "
				  "started now",
				  "wait until the sandbox runs");
		return false;
	}
	if (!execs_make_room(g->execs)) {
		reply_error(s, 503, "capacity", NULL,
			    "wait for one to end, or DELETE finished ones",
			    "too many execs are kept in this guest");
		return false;
	}
	return true;
}

/* It was not even forked. */
static void reply_no_start(struct http_stream *s, const struct err *e)
{
	reply_error(s, 503, "capacity", NULL,
		    "wait for others to end, or end some", e->msg);
}

void exec_api_create(struct guestd *g, struct http_stream *s, const void *body,
		     size_t n)
{
	const char *key = http_head_get(http_stream_head(s), "idempotency-key");
	struct exec_spec spec;
	struct spec_error se;
	struct err e = { 0 };
	struct exec *x = NULL;
	uint64_t hash = 0;

	if (key && !key_is_valid(key)) {
		reply_error(s, 400, "invalid_field", "idempotency-key", NULL,
			    "expected 1 to 128 printable characters");
		return;
	}
	if (spec_read(body, n, &spec, &se, &e) < 0) {
		reply_error(s, 400, se.code, se.field, NULL, e.msg);
		return;
	}
	keys_trim(g->execs);
	if (key)
		hash = body_hash(body, n);
	if ((key && replay(g, s, key, hash)) || !may_create(g, s)) {
		spec_fini(&spec);
		return;
	}
	if (execs_get(g->execs, spec.id)) {
		reply_error(s, 409, "name_taken", "id", NULL,
			    "there is an exec with this id already");
		spec_fini(&spec);
		return;
	}
	x = exec_new(g->execs, &spec);
	if (x->spec.start_now && exec_start(x, &e) < 0) {
		reply_no_start(s, &e);
		exec_unref(x);
		return;
	}
	execs_insert(g->execs, x);
	if (key)
		key_add(g->execs, key, x->id, hash, n);
	exec_wait_start(x, s, 201);
}

/* ---- the others ---- */

void exec_api_list(struct guestd *g, struct http_stream *s)
{
	json_t *v = json_object(), *items = json_array();
	const struct exec *x;

	list_for_each (x, &g->execs->all, link)
		(void)json_array_insert_new(items, 0, exec_record(x));
	json_set_take(v, "items", items);
	json_set_take(v, "next", json_null());
	reply_json_take(s, 200, v);
}

void exec_api_get(struct exec *x, struct http_stream *s)
{
	reply_json_take(s, 200, exec_record(x));
}

void exec_api_delete(struct exec *x, struct http_stream *s)
{
	if (x->state >= EXEC_ST_STARTING && x->state != EXEC_ST_ENDED) {
		reply_wrong_state(s, "the exec still runs",
				  "end it with signal first");
		return;
	}
	if (x->state != EXEC_ST_ENDED)
		exec_streams_close(x, "deleted", false);
	execs_remove(x);
	http_stream_reply(s, 204, NULL, NULL, 0);
}

/* An unsigned query parameter; false if the stream has been answered. */
static bool query_u64(struct http_stream *s, const char *name, uint64_t absent,
		      uint64_t *ret)
{
	owned_str text = http_query_get(http_stream_head(s)->path, name);
	int64_t v = 0;

	*ret = absent;
	if (!text)
		return true;
	if (!text_int(text, 0, INT64_MAX, &v)) {
		reply_error(s, 400, "invalid_field", name, NULL,
			    "expected a number of at least 0");
		return false;
	}
	*ret = (uint64_t)v;
	return true;
}

void exec_api_output(struct exec *x, struct http_stream *s)
{
	uint64_t from, follow;

	if (query_u64(s, "from", 0, &from) &&
	    query_u64(s, "follow", 0, &follow))
		exec_follow(x, s, from, follow != 0);
}

/* 409 for a state in which nothing runs. */
static void reply_not_running(const struct exec *x, struct http_stream *s)
{
	if (x->state == EXEC_ST_CREATED)
		reply_wrong_state(s, "the exec has not been started",
				  "attach to it; that starts it");
	else
		reply_wrong_state(s, "the exec has ended", NULL);
}

void exec_api_signal(struct exec *x, struct http_stream *s, const void *body,
		     size_t n)
{
	struct exec_kill what = { 0 };
	struct spec_error se;
	struct err e = { 0 };

	if (spec_read_kill(body, n, &what, &se, &e) < 0)
		reply_error(s, 400, se.code, se.field, NULL, e.msg);
	else if (exec_signal(x, what.signo, what.tree) < 0)
		reply_not_running(x, s);
	else
		http_stream_reply(s, 204, NULL, NULL, 0);
}

void exec_api_size(struct exec *x, struct http_stream *s, const void *body,
		   size_t n)
{
	struct exec_size size = { 0 };
	struct spec_error se;
	struct err e = { 0 };
	int r;

	if (spec_read_size(body, n, &size, &se, &e) < 0) {
		reply_error(s, 400, se.code, se.field, NULL, e.msg);
		return;
	}
	r = exec_resize(x, size);
	if (r == -ENOTTY)
		reply_wrong_state(s, "this exec has no terminal",
				  "create it with \"pty\"");
	else if (r < 0)
		reply_not_running(x, s);
	else
		http_stream_reply(s, 204, NULL, NULL, 0);
}

void exec_api_stdin(struct exec *x, struct http_stream *s)
{
	uint64_t offset, end;

	/* without an offset the bytes are the next ones */
	if (query_u64(s, "offset", exec_stdin_accepted(x), &offset) &&
	    query_u64(s, "end", 0, &end))
		exec_input_start(x, s, offset, end != 0);
}

/* ---- attach ---- */

/* The first one: it starts the program. */
static void attach_first(struct exec *x, struct http_stream *s, uint64_t from)
{
	struct err e = { 0 };

	if (!life_is_running(x->g->life))
		reply_wrong_state(s,
				  "the guest is frozen; nothing can be "
				  "started now",
				  "wait until the sandbox runs");
	else if (from > 0)
		reply_error(s, 416, "offset_gone", "from", "start at 0",
			    "the program has not begun");
	else if (exec_start(x, &e) < 0)
		reply_no_start(s, &e);
	else
		exec_wait_attach(x, s, from, false);
}

static void attach_expired(const struct exec *x, struct http_stream *s)
{
	if (x->refused)
		exec_reply_refused(s, x->refused);
	else
		reply_error(s, 409, "exec_expired", NULL,
			    "create another one, and attach within 60 s",
			    "nobody attached to this exec in time; it was "
			    "never started");
}

void exec_api_attach(struct exec *x, struct http_stream *s)
{
	uint64_t from, watch;

	if (!query_u64(s, "from", 0, &from) ||
	    !query_u64(s, "watch", 0, &watch))
		return;
	if (x->state == EXEC_ST_EXPIRED)
		attach_expired(x, s);
	else if (x->state == EXEC_ST_CREATED && !watch)
		attach_first(x, s, from);
	else if (x->state == EXEC_ST_STARTING)
		exec_wait_attach(x, s, from, watch != 0);
	else
		exec_attach(x, s, from, watch != 0);
}
