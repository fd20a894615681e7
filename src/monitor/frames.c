/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/frames.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

struct frame {
	uint8_t type;
	uint32_t length;
	uint64_t offset;
	const uint8_t *payload;
};

void frames_init(struct frames *f, uint64_t from, enum frames_form form)
{
	memset(f, 0, sizeof(*f));
	buf_init(&f->in, EXEC_FRAME_HEADER + EXEC_FRAME_MAX);
	f->next = from;
	f->form = form;
}

void frames_fini(struct frames *f)
{
	buf_fini(&f->in);
}

bool frames_is_between(const struct frames *f)
{
	return buf_len(&f->in) == 0;
}

static uint64_t be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void put_be(uint8_t *p, uint64_t v, unsigned n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

/* Bytes of the frame at the front; the header's own size while it is not
 * complete. A wrong length counts as 0: frames_take() refuses it. */
static size_t whole(struct frames *f)
{
	uint64_t n;

	if (buf_len(&f->in) < EXEC_FRAME_HEADER)
		return EXEC_FRAME_HEADER;
	n = be(buf_data(&f->in) + 4, 4);
	return EXEC_FRAME_HEADER + (n <= EXEC_FRAME_MAX ? (size_t)n : 0);
}

size_t frames_feed(struct frames *f, const void *p, size_t n)
{
	const uint8_t *b = p;
	size_t taken = 0;

	while (taken < n) {
		size_t want = whole(f) - buf_len(&f->in);

		if (want == 0)
			break;
		if (want > n - taken)
			want = n - taken;
		if (buf_put(&f->in, b + taken, want) < 0)
			break;
		taken += want;
	}
	return taken;
}

static bool is_data(uint8_t type)
{
	return type == EXEC_STDOUT || type == EXEC_STDERR || type == EXEC_PTY;
}

static bool is_known(const struct frames *f, uint8_t type)
{
	if (f->form == FRAMES_CLIENT)
		return type >= EXEC_STDIN && type <= EXEC_ACK;
	return is_data(type) || (type >= EXEC_STARTED && type <= EXEC_CLOSING);
}

static int refuse(const struct frames *f, struct err *e, const char *what)
{
	bool client = f->form == FRAMES_CLIENT;

	return err_set(e, -EBADMSG, client ? ERR_INVALID : ERR_UNAVAILABLE,
		       "the %s sent a wrong frame: %s",
		       client ? "client" : "guest", what);
}

/* What a client's frame must be, beside its type. */
static int check_client(struct frames *f, const struct frame *fr, struct err *e)
{
	bool has_json = fr->type == EXEC_SIZE || fr->type == EXEC_SIGNAL;

	if (has_json && fr->offset != 0)
		return refuse(f, e, "an offset where none belongs");
	if (fr->offset > (uint64_t)INT64_MAX - fr->length)
		return refuse(f, e, "its offset is too large");
	if (fr->type == EXEC_STDIN && fr->length == 0)
		return refuse(f, e, "no payload");
	if ((fr->type == EXEC_STDIN_END || fr->type == EXEC_ACK) && fr->length)
		return refuse(f, e, "a payload where none belongs");
	return 0;
}

static int check_server(struct frames *f, const struct frame *fr, struct err *e)
{
	if (f->has_ended)
		return refuse(f, e, "it comes after the end");
	if (fr->offset != f->next)
		return refuse(f, e, "its offset does not continue the output");
	if (is_data(fr->type) &&
	    (fr->length == 0 || fr->length > INT64_MAX - fr->offset))
		return refuse(f, e, "no payload");
	return 0;
}

static int check_header(struct frames *f, struct frame *ret, struct err *e)
{
	const uint8_t *p = buf_data(&f->in);
	uint64_t length = be(p + 4, 4);
	struct frame fr = {
		.type = p[0],
		.offset = be(p + 8, 8),
		.payload = p + EXEC_FRAME_HEADER,
	};

	if (p[1] | p[2] | p[3])
		return refuse(f, e, "padding is set");
	if (length > EXEC_FRAME_MAX)
		return refuse(f, e, "too long");
	fr.length = (uint32_t)length;
	if (!is_known(f, fr.type))
		return refuse(f, e, "unknown type");
	*ret = fr;
	return f->form == FRAMES_CLIENT ? check_client(f, &fr, e)
					: check_server(f, &fr, e);
}

/* A gap moves the offset forwards, from where we are. */
static int check_gap(struct frames *f, json_t *obj, struct err *e)
{
	struct json_reader r;
	int64_t from = -1, to = -1;

	json_reader_init(&r, obj, "", NULL);
	json_int(&r, "from", 0, INT64_MAX, &from);
	json_int(&r, "to", 0, INT64_MAX, &to);
	if (json_reader_end(&r) < 0 || from < 0 || to <= from ||
	    (uint64_t)from != f->next)
		return refuse(f, e, "a gap that does not continue the output");
	f->next = (uint64_t)to;
	return 0;
}

static bool is_word(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz_") == strlen(s);
}

static bool is_signal(const char *s)
{
	return *s &&
	       strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-") == strlen(s);
}

/* Fields that the host's programs read have their types; a newer guest's others
 * pass as they are. r keeps the first error. */
static void check_fact(struct json_reader *r, uint8_t type)
{
	static const char *const counts[] = { "wall_ms", "cpu_ms",
					      "max_rss_bytes",
					      "dropped_bytes" };
	const char *word = "x";
	int64_t n;
	bool b;

	switch (type) {
	case EXEC_STARTED:
		json_int(r, "pid", 1, INT32_MAX, &n);
		json_str(r, "started_at", 64, &word);
		json_int(r, "stdin_offset", 0, INT64_MAX, &n);
		return;
	case EXEC_ALIVE:
		json_int(r, "stdin_offset", 0, INT64_MAX, &n);
		return;
	case EXEC_CLOSING:
		json_bool(r, "retry", &b);
		json_required(r, "reason");
		break;
	default:
		json_int(r, "code", 0, 255, &n);
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
			json_int(r, counts[i], 0, INT64_MAX, &n);
		break;
	}
	if (json_str(r, "reason", 32, &word) && !is_word(word))
		json_field_error(r, "reason", "expected a word");
}

/* A client's has its fields and no others. */
static void check_wish(struct json_reader *r, uint8_t type)
{
	static const char *const scopes[] = { "tree", "leader", NULL };
	const char *name = "";
	int64_t n;
	size_t i;

	if (type == EXEC_SIZE) {
		json_int(r, "cols", 1, 65535, &n);
		json_int(r, "rows", 1, 65535, &n);
		json_required(r, "cols");
		json_required(r, "rows");
	} else {
		json_required(r, "name");
		if (json_str(r, "name", 32, &name) && !is_signal(name))
			json_field_error(r, "name", "expected a signal's name");
		json_word(r, "scope", scopes, &i);
	}
	json_reader_end(r);
}

static int check_json(struct frames *f, const struct frame *fr, json_t *obj,
		      struct err *e)
{
	struct json_reader r;
	struct err why = { 0 };
	char text[ERR_MSG_MAX];

	if (fr->type == EXEC_GAP)
		return check_gap(f, obj, e);
	json_reader_init(&r, obj, "", &why);
	if (f->form == FRAMES_CLIENT)
		check_wish(&r, fr->type);
	else
		check_fact(&r, fr->type);
	if (r.r == 0)
		return 0;
	snprintf(text, sizeof(text), "%s", why.msg);
	return refuse(f, e, text);
}

static int put_raw(const struct frame *fr, const void *payload, size_t n,
		   struct buf *out)
{
	uint8_t h[EXEC_FRAME_HEADER] = { fr->type };
	uint8_t *p = buf_reserve(out, sizeof(h) + n);

	if (!p)
		return -ENOBUFS;
	put_be(h + 4, n, 4);
	put_be(h + 8, fr->offset, 8);
	memcpy(p, h, sizeof(h));
	if (n)
		memcpy(p + sizeof(h), payload, n);
	buf_commit(out, sizeof(h) + n);
	return 0;
}

static int put_data(struct frames *f, const struct frame *fr, struct buf *out)
{
	uint8_t *p;
	size_t n = text_base64_len(fr->length);

	if (f->form != FRAMES_LINES)
		return put_raw(fr, fr->payload, fr->length, out);
	if (!buf_reserve(out, n + 128))
		return -ENOBUFS;
	buf_printf(out, "{\"o\":%llu,\"s\":%u,\"b64\":\"",
		   (unsigned long long)fr->offset, fr->type);
	p = buf_reserve(out, n + 1);
	if (!p)
		return -ENOBUFS;
	text_base64(fr->payload, fr->length, (char *)p);
	buf_commit(out, n);
	return buf_puts(out, "\"}\n");
}

static const char *json_name(uint8_t type)
{
	switch (type) {
	case EXEC_STARTED:
		return "started";
	case EXEC_EXIT:
		return "exit";
	case EXEC_GAP:
		return "gap";
	case EXEC_CLOSING:
		return "closing";
	default:
		return "alive";
	}
}

static int put_json(struct frames *f, const struct frame *fr, struct buf *out,
		    struct err *e)
{
	owned_json obj = NULL;
	owned_str text = NULL;
	int r;

	if (json_parse(fr->payload, fr->length, &obj, NULL) < 0 ||
	    !json_is_object(obj))
		return refuse(f, e, "its payload is not a JSON object");
	text = json_text(obj);
	/* escapes may make it longer than it came */
	if (strlen(text) > EXEC_FRAME_MAX)
		return refuse(f, e, "its JSON is too long");
	r = check_json(f, fr, obj, e);
	if (r < 0)
		return r;
	if (fr->type == EXEC_EXIT || fr->type == EXEC_CLOSING)
		f->has_ended = true;
	if (f->form != FRAMES_LINES)
		return put_raw(fr, text, strlen(text), out);
	return buf_printf(out, "{\"o\":%llu,\"%s\":%s}\n",
			  (unsigned long long)fr->offset, json_name(fr->type),
			  text);
}

static bool is_json(uint8_t type)
{
	return (type >= EXEC_STARTED && type <= EXEC_CLOSING) ||
	       type == EXEC_SIZE || type == EXEC_SIGNAL;
}

int frames_take(struct frames *f, struct buf *out, struct err *e)
{
	struct frame fr = { 0 };
	int r;

	if (buf_len(&f->in) < EXEC_FRAME_HEADER)
		return FRAMES_MORE;
	r = check_header(f, &fr, e);
	if (r < 0)
		return r;
	if (buf_len(&f->in) < whole(f))
		return FRAMES_MORE;
	if (is_json(fr.type)) {
		r = put_json(f, &fr, out, e);
	} else {
		r = put_data(f, &fr, out);
		if (r == 0 && is_data(fr.type))
			f->next += fr.length;
	}
	if (r < 0)
		return r;
	buf_clear(&f->in);
	return FRAMES_ONE;
}

void frames_put_closing(const struct frames *f, const char *reason,
			bool can_retry, struct buf *out)
{
	struct frame fr = { .type = EXEC_CLOSING, .offset = f->next };
	char text[96];

	snprintf(text, sizeof(text), "{\"reason\":\"%s\",\"retry\":%s}", reason,
		 can_retry ? "true" : "false");
	if (f->form == FRAMES_LINES)
		buf_printf(out, "{\"o\":%llu,\"closing\":%s}\n",
			   (unsigned long long)f->next, text);
	else
		put_raw(&fr, text, strlen(text), out);
}
