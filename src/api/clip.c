/* SPDX-License-Identifier: Apache-2.0 */
#include "api/clip.h"

#include <string.h>

#include "api/proxy.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

void clip_init(struct clip *c)
{
	buf_init(&c->head, 0); /* what is put is bounded here */
	buf_init(&c->tail, 0);
	c->bytes = 0;
}

void clip_fini(struct clip *c)
{
	buf_fini(&c->head);
	buf_fini(&c->tail);
}

void clip_put(struct clip *c, const void *p, size_t n)
{
	size_t room = CLIP_HEAD - buf_len(&c->head);
	size_t first = n < room ? n : room;
	const uint8_t *rest = (const uint8_t *)p + first;
	size_t left = n - first;

	c->bytes += n;
	buf_put(&c->head, p, first);
	if (left > CLIP_TAIL) {
		rest += left - CLIP_TAIL;
		left = CLIP_TAIL;
	}
	buf_put(&c->tail, rest, left);
	if (buf_len(&c->tail) > CLIP_TAIL)
		buf_consume(&c->tail, buf_len(&c->tail) - CLIP_TAIL);
}

struct part {
	const uint8_t *p;
	size_t n;
};

static struct part part_of(struct buf *b)
{
	static const uint8_t none[1];
	size_t n = buf_len(b);

	return (struct part){ n ? buf_data(b) : none, n };
}

/* Characters that the cut goes through leave; true if the rest is text. */
static bool trim(struct part *head, struct part *tail)
{
	size_t n = text_utf8_prefix(head->p, head->n);
	unsigned skip = 0;

	if (head->n - n > 3)
		return false;
	head->n = n;
	while (skip < 3 && tail->n && (tail->p[0] & 0xc0) == 0x80) {
		tail->p++;
		tail->n--;
		skip++;
	}
	return proxy_utf8(head->p, head->n) && proxy_utf8(tail->p, tail->n);
}

static json_t *base64(struct part x)
{
	owned_str text = xcalloc(1, text_base64_len(x.n) + 1);

	text_base64(x.p, x.n, text);
	return json_string(text);
}

json_t *clip_json(struct clip *c)
{
	bool cut = c->bytes > buf_len(&c->head) + buf_len(&c->tail);
	struct part head, tail, h, t;
	json_t *o = json_object();
	bool text;

	if (!cut) { /* one piece */
		if (buf_len(&c->tail))
			buf_put(&c->head, buf_data(&c->tail),
				buf_len(&c->tail));
		buf_clear(&c->tail);
	}
	h = head = part_of(&c->head);
	t = tail = part_of(&c->tail);
	text = cut ? trim(&h, &t) : proxy_utf8(h.p, h.n);
	if (text) {
		head = h;
		tail = t;
	}
	json_set_take(o, "encoding", json_string(text ? "utf-8" : "base64"));
	json_set_take(o, "head",
		      text ? json_stringn((const char *)head.p, head.n)
			   : base64(head));
	json_set_take(o, "tail",
		      text ? json_stringn((const char *)tail.p, tail.n)
			   : base64(tail));
	json_set_take(o, "bytes", json_integer((json_int_t)c->bytes));
	json_set_take(o, "omitted_bytes",
		      json_integer((json_int_t)(c->bytes - head.n - tail.n)));
	json_set_take(o, "truncated", json_boolean(cut));
	return o;
}
