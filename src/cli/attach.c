/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attach.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "net/json.h"

void attach_init(struct attach *a, uint64_t from, bool fresh, bool watch)
{
	*a = (struct attach){ .next = from,
			      .done = from,
			      .acked = from,
			      .taken_known = fresh,
			      .watch = watch };
	buf_init(&a->in, EXEC_STDIN_WINDOW);
}

void attach_fini(struct attach *a)
{
	buf_fini(&a->in);
}

void attach_up(struct attach *a)
{
	a->up = true;
	a->started = false;
	a->end_sent = false;
	a->sent = a->taken;
	/* the guest may never have heard of it: from= says as much, but only
	 * about bytes handed on; repeat what was processed */
	a->acked = 0;
	a->size_due = a->cols > 0;
}

void attach_down(struct attach *a)
{
	a->up = a->started = false;
}

/* ---- from the server ---- */

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static int bad(struct err *e, const char *why)
{
	return err_set(e, -EBADMSG, ERR_INTERNAL,
		       "the server sent a message that is no frame of an "
		       "exec: %s",
		       why);
}

static int take_output(struct attach *a, int stream, uint64_t at,
		       const uint8_t *p, size_t n, struct attach_event *ret,
		       struct err *e)
{
	if (at > (uint64_t)INT64_MAX - n)
		return bad(e, "offset out of range");
	if (at + n <= a->next)
		return 0; /* seen */
	ret->type = ATTACH_OUTPUT;
	ret->stream = stream;
	if (at > a->next) {
		ret->type = ATTACH_GAP;
		ret->from = a->next;
		ret->to = at;
		a->next = at;
	}
	ret->p = p + (a->next - at);
	ret->n = n - (size_t)(a->next - at);
	a->next = at + n;
	return 0;
}

static int take_gap(struct attach *a, const json_t *g, struct attach_event *ret,
		    struct err *e)
{
	const json_t *to = json_object_get(g, "to");

	if (!json_is_integer(to) || json_integer_value(to) < 0)
		return bad(e, "a gap without an end");
	if ((uint64_t)json_integer_value(to) <= a->next)
		return 0;
	ret->type = ATTACH_GAP;
	ret->from = a->next;
	ret->to = a->next = (uint64_t)json_integer_value(to);
	return 0;
}

/* The newest position that the program's stdin has taken. */
static int take_stdin_offset(struct attach *a, const json_t *v, struct err *e)
{
	const json_t *o = json_object_get(v, "stdin_offset");
	uint64_t at;

	if (!o || a->watch)
		return 0;
	if (!json_is_integer(o) || json_integer_value(o) < 0)
		return bad(e, "stdin_offset is no position");
	at = (uint64_t)json_integer_value(o);
	if (!a->taken_known) {
		a->taken_known = true;
		a->taken = a->sent = at;
		return 0;
	}
	/* what was given away is gone: going back or ahead loses bytes */
	if (at < a->taken)
		return bad(e, "its stdin went back");
	if (at - a->taken > buf_len(&a->in))
		return bad(e, "its stdin took more than it was given");
	buf_consume(&a->in, (size_t)(at - a->taken));
	a->taken = at;
	if (a->sent < at)
		a->sent = at;
	return 0;
}

static int take_json(struct attach *a, uint8_t type, const uint8_t *p, size_t n,
		     struct attach_event *ret, struct err *e)
{
	struct err why = { 0 };
	json_t *v = NULL;
	int r = 0;

	if (json_parse(p, n, &v, &why) < 0)
		return bad(e, why.msg);
	if (!json_is_object(v)) {
		r = bad(e, "not an object");
	} else if (type == EXEC_GAP) {
		r = take_gap(a, v, ret, e);
	} else if (type == EXEC_STARTED || type == EXEC_ALIVE) {
		r = take_stdin_offset(a, v, e);
		if (r == 0 && type == EXEC_STARTED) {
			a->started = a->ever_started = true;
			ret->type = ATTACH_STARTED;
			ret->body = json_incref(v);
		}
	} else {
		a->over = a->over || type == EXEC_EXIT;
		ret->type = type == EXEC_EXIT ? ATTACH_EXIT : ATTACH_CLOSING;
		ret->body = json_incref(v);
	}
	json_decref(v);
	return r;
}

int attach_take(struct attach *a, const uint8_t *p, size_t n,
		struct attach_event *ret, struct err *e)
{
	uint64_t at;

	*ret = (struct attach_event){ .type = ATTACH_NOTHING };
	if (n < ATTACH_HEADER || n > ATTACH_MESSAGE_MAX)
		return bad(e, "its length");
	if (a->over)
		return 0; /* nothing counts behind the exit */
	at = get_u64(p + 1);
	switch (p[0]) {
	case EXEC_STDOUT:
	case EXEC_STDERR:
	case EXEC_PTY:
		return take_output(a, p[0], at, p + ATTACH_HEADER,
				   n - ATTACH_HEADER, ret, e);
	case EXEC_STARTED:
	case EXEC_EXIT:
	case EXEC_GAP:
	case EXEC_ALIVE:
	case EXEC_CLOSING:
		return take_json(a, p[0], p + ATTACH_HEADER, n - ATTACH_HEADER,
				 ret, e);
	default:
		return 0; /* a newer server's */
	}
}

/* ---- from the user ---- */

void attach_done(struct attach *a, uint64_t offset)
{
	CHECK(offset >= a->done && offset <= a->next);
	a->done = offset;
}

void attach_ack(struct attach *a)
{
	a->ack_due = true;
}

bool attach_ack_waits(const struct attach *a)
{
	return a->up && !a->watch && a->done > a->acked;
}

size_t attach_stdin_room(const struct attach *a)
{
	if (a->watch || a->ended || a->over || !a->taken_known)
		return 0;
	return EXEC_STDIN_WINDOW - buf_len(&a->in);
}

void attach_stdin(struct attach *a, const void *p, size_t n)
{
	CHECK(n <= attach_stdin_room(a));
	CHECK(buf_put(&a->in, p, n) == 0);
}

void attach_stdin_end(struct attach *a)
{
	a->ended = true;
}

bool attach_signal(struct attach *a, const char *name)
{
	if (a->n_signals == ATTACH_SIGNALS || a->watch)
		return false;
	a->signals[a->n_signals++] = name;
	return true;
}

void attach_size(struct attach *a, unsigned cols, unsigned rows)
{
	if (!cols || !rows || (cols == a->cols && rows == a->rows))
		return;
	a->cols = cols > 65535 ? 65535 : cols;
	a->rows = rows > 65535 ? 65535 : rows;
	a->size_due = true;
}

/* ---- to the server ---- */

static void message(struct buf *b, uint8_t type, uint64_t offset, const void *p,
		    size_t n)
{
	uint8_t h[ATTACH_HEADER] = { type };

	for (int i = 0; i < 8; i++)
		h[1 + i] = (uint8_t)(offset >> (56 - 8 * i));
	CHECK(buf_put(b, h, sizeof(h)) == 0);
	if (n > 0)
		CHECK(buf_put(b, p, n) == 0);
}

static void next_signal(struct attach *a, struct buf *ret)
{
	char text[96];
	int n =
	    snprintf(text, sizeof(text),
		     "{\"name\":\"%.15s\",\"scope\":\"tree\"}", a->signals[0]);

	message(ret, EXEC_SIGNAL, 0, text, (size_t)n);
	memmove(&a->signals[0], &a->signals[1],
		(a->n_signals - 1) * sizeof(a->signals[0]));
	a->n_signals--;
}

static bool next_stdin(struct attach *a, struct buf *ret)
{
	size_t at = (size_t)(a->sent - a->taken);
	size_t n = buf_len(&a->in) - at;

	if (n > 0) {
		n = n > ATTACH_STDIN_PIECE ? ATTACH_STDIN_PIECE : n;
		message(ret, EXEC_STDIN, a->sent, buf_data(&a->in) + at, n);
		a->sent += n;
		return true;
	}
	if (!a->ended || a->end_sent)
		return false;
	message(ret, EXEC_STDIN_END, a->sent, NULL, 0);
	a->end_sent = true;
	return true;
}

bool attach_next(struct attach *a, struct buf *ret)
{
	/* before STARTED it is not known where stdin goes on, and the program
	 * may not be there to be told anything */
	if (!a->up || !a->started || a->watch)
		return false;
	if (a->done > a->acked &&
	    (a->ack_due || a->over || a->done - a->acked >= EXEC_ACK_EVERY)) {
		message(ret, EXEC_ACK, a->done, NULL, 0);
		a->acked = a->done;
		a->ack_due = false;
		return true;
	}
	a->ack_due = false;
	if (a->over)
		return false;
	if (a->n_signals > 0) {
		next_signal(a, ret);
		return true;
	}
	if (a->size_due) {
		char text[64];
		int n = snprintf(text, sizeof(text),
				 "{\"cols\":%u,\"rows\":%u}", a->cols, a->rows);

		a->size_due = false;
		message(ret, EXEC_SIZE, 0, text, (size_t)n);
		return true;
	}
	return next_stdin(a, ret);
}
