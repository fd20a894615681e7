/* SPDX-License-Identifier: Apache-2.0 */
#include "api/sse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/frame.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

void sse_init(struct sse *s, enum sse_of of, bool follow)
{
	s->of = of;
	s->over = !follow;
	/* what is fed at once stays here until it is an item */
	buf_init(&s->part, 0);
}

void sse_fini(struct sse *s)
{
	buf_fini(&s->part);
}

/* id < 0: none. data has no line breaks. */
static int put_event(struct buf *out, const char *name, int64_t id,
		     const char *data)
{
	char line[40] = "";

	if (id >= 0)
		snprintf(line, sizeof(line), "id: %" PRId64 "\n", id);
	return buf_printf(out, "event: %s\n%sdata: %s\n\n", name, line, data);
}

/* Of bytes that should be JSON: compact text without line breaks, or NULL. */
static char *compact(const void *p, size_t n, json_t **ret)
{
	if (json_parse(p, n, ret, NULL) < 0 || !json_is_object(*ret))
		return NULL;
	return json_text(*ret);
}

/* ---- frames ---- */

static int put_bytes(const struct frame *f, struct buf *out)
{
	owned_str b64 = xcalloc(1, text_base64_len(f->n) + 1);
	owned_str data = NULL;

	text_base64(f->payload, f->n, b64);
	data = xasprintf("{\"o\":%" PRIu64 ",\"b64\":\"%s\"}", f->offset, b64);
	return put_event(out, frame_name(f->type), (int64_t)f->offset + f->n,
			 data);
}

static int put_frame(struct sse *s, const struct frame *f, struct buf *out)
{
	owned_json v = NULL;
	owned_str data = NULL;
	int64_t id = (int64_t)f->offset;
	json_t *to;

	if (frame_is_output(f->type))
		return put_bytes(f, out);
	data = compact(f->payload, f->n, &v);
	if (!data)
		return -EBADMSG;
	if (f->type == EXEC_GAP) { /* the next byte is behind it */
		to = json_object_get(v, "to");
		if (!json_is_integer(to) || json_integer_value(to) < 0)
			return -EBADMSG;
		id = json_integer_value(to);
	}
	if (f->type == EXEC_EXIT || f->type == EXEC_CLOSING)
		s->over = true;
	if (f->type == EXEC_ALIVE || f->type == EXEC_CLOSING)
		id = -1;
	return put_event(out, frame_name(f->type), id, data);
}

static int feed_frames(struct sse *s, struct buf *out)
{
	struct frame f;
	ptrdiff_t n;
	int r;

	while ((n = frame_from_guest(buf_data(&s->part), buf_len(&s->part),
				     &f)) > 0) {
		r = put_frame(s, &f, out);
		if (r < 0)
			return r;
		buf_consume(&s->part, (size_t)n);
	}
	return (int)n;
}

/* ---- lines ---- */

/* Types of watch lines pass as they are named. */
static const char *name_of_line(const json_t *v)
{
	static const char *const inner[] = { "gap", "alive", "closing" };
	static const char *const types[] = { "ready",  "create",   "write",
					     "attrib", "remove",   "rename",
					     "gone",   "overflow", "alive" };
	const char *type = json_string_value(json_object_get(v, "type"));

	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i]) == 0)
			return types[i];
	for (size_t i = 0; !type && i < ARRAY_SIZE(inner); i++)
		if (json_object_get(v, inner[i]))
			return inner[i];
	return type ? NULL : "console";
}

/* Where the next byte is: behind the line's bytes, or behind its gap. */
static int64_t id_of_line(const json_t *v)
{
	const json_t *o = json_object_get(v, "o");
	const json_t *b64 = json_object_get(v, "b64");
	const json_t *to = json_object_get(json_object_get(v, "gap"), "to");
	const char *text = json_string_value(b64);
	size_t n = text ? json_string_length(b64) : 0;
	int64_t at = json_is_integer(o) ? json_integer_value(o) : -1;

	if (json_is_integer(to))
		return json_integer_value(to);
	if (at < 0 || !text || n % 4 || n > SSE_LINE_MAX ||
	    at > INT64_MAX - SSE_LINE_MAX)
		return -1;
	at += (int64_t)(n / 4 * 3);
	if (n && text[n - 1] == '=')
		at -= text[n - 2] == '=' ? 2 : 1;
	return at;
}

static int put_line(struct sse *s, size_t n, struct buf *out)
{
	owned_json v = NULL;
	owned_str data = compact(buf_data(&s->part), n, &v);
	const char *name = data ? name_of_line(v) : NULL;

	if (!name)
		return -EBADMSG;
	if (strcmp(name, "closing") == 0 || strcmp(name, "gone") == 0)
		s->over = true;
	return put_event(out, name, id_of_line(v), data);
}

static int feed_lines(struct sse *s, struct buf *out)
{
	for (;;) {
		size_t n = buf_len(&s->part);
		uint8_t *end = n ? memchr(buf_data(&s->part), '\n', n) : NULL;
		int r;

		if (!end)
			return n > SSE_LINE_MAX ? -EBADMSG : 0;
		n = (size_t)(end - buf_data(&s->part));
		r = n > SSE_LINE_MAX ? -EBADMSG : put_line(s, n, out);
		if (r < 0)
			return r;
		buf_consume(&s->part, n + 1);
	}
}

/* ---- both ---- */

int sse_feed(struct sse *s, const void *p, size_t n, struct buf *out)
{
	if (buf_put(&s->part, p, n) < 0)
		return -ENOBUFS;
	return s->of == SSE_FRAMES ? feed_frames(s, out) : feed_lines(s, out);
}

void sse_end(struct sse *s, struct buf *out)
{
	if (buf_len(&s->part) > 0 || !s->over)
		put_event(out, "closing", -1,
			  "{\"reason\":\"interrupted\",\"retry\":true}");
	buf_clear(&s->part);
	s->over = true;
}

int64_t sse_last_id(const char *value)
{
	int64_t v;

	return text_int(value, 0, INT64_MAX, &v) ? v : -1;
}
