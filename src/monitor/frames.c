/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/frames.h"

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

void frames_init(struct frames *f, uint64_t from, bool is_raw)
{
	memset(f, 0, sizeof(*f));
	buf_init(&f->in, EXEC_FRAME_HEADER + EXEC_FRAME_MAX);
	f->next = from;
	f->is_raw = is_raw;
}

void frames_fini(struct frames *f)
{
	buf_fini(&f->in);
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

static int refuse(struct err *e, const char *what)
{
	return err_set(e, -EBADMSG, ERR_UNAVAILABLE,
		       "the guest sent a wrong output frame: %s", what);
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
		return refuse(e, "padding is set");
	if (length > EXEC_FRAME_MAX)
		return refuse(e, "too long");
	fr.length = (uint32_t)length;
	if (!is_data(fr.type) &&
	    (fr.type < EXEC_STARTED || fr.type > EXEC_ALIVE))
		return refuse(e, "unknown type");
	if (f->has_ended)
		return refuse(e, "it comes after the end");
	if (fr.offset != f->next)
		return refuse(e, "its offset does not continue the output");
	if (is_data(fr.type) &&
	    (fr.length == 0 || fr.length > UINT64_MAX - fr.offset))
		return refuse(e, "no payload");
	*ret = fr;
	return 0;
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
		return refuse(e, "a gap that does not continue the output");
	f->next = (uint64_t)to;
	return 0;
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
	memcpy(p + sizeof(h), payload, n);
	buf_commit(out, sizeof(h) + n);
	return 0;
}

static int put_data(struct frames *f, const struct frame *fr, struct buf *out)
{
	uint8_t *p;
	size_t n = text_base64_len(fr->length);

	if (f->is_raw)
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
		return refuse(e, "its payload is not a JSON object");
	text = json_text(obj);
	/* escapes may make it longer than it came */
	if (strlen(text) > EXEC_FRAME_MAX)
		return refuse(e, "its JSON is too long");
	r = fr->type == EXEC_GAP ? check_gap(f, obj, e) : 0;
	if (r < 0)
		return r;
	if (f->is_raw)
		r = put_raw(fr, text, strlen(text), out);
	else
		r = buf_printf(out, "{\"o\":%llu,\"%s\":%s}\n",
			       (unsigned long long)fr->offset,
			       json_name(fr->type), text);
	if (fr->type == EXEC_EXIT)
		f->has_ended = true;
	return r;
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
	if (is_data(fr.type)) {
		r = put_data(f, &fr, out);
		if (r == 0)
			f->next += fr.length;
	} else {
		r = put_json(f, &fr, out, e);
	}
	if (r < 0)
		return r;
	buf_clear(&f->in);
	return FRAMES_ONE;
}
