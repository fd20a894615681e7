/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sse.h"

#include <stdio.h>
#include <string.h>

void sse_init(struct sse *s, int (*on_event)(void *, const struct sse_event *),
	      void *arg)
{
	*s = (struct sse){ .on_event = on_event, .arg = arg };
	buf_init(&s->line, SSE_EVENT_MAX);
	buf_init(&s->data, SSE_EVENT_MAX);
}

void sse_fini(struct sse *s)
{
	buf_fini(&s->line);
	buf_fini(&s->data);
}

void sse_restart(struct sse *s)
{
	buf_clear(&s->line);
	buf_clear(&s->data);
	s->type[0] = '\0';
	s->had_cr = false;
}

static int too_large(struct err *e)
{
	return err_set(e, -EMSGSIZE, ERR_EXHAUSTED,
		       "the server sent an event of more than %u bytes",
		       SSE_EVENT_MAX);
}

static int dispatch(struct sse *s, struct err *e)
{
	struct sse_event ev = { .type = s->type, .id = s->id };
	int r = 0;

	if (buf_len(&s->data) > 0) {
		ev.data = buf_cstr(&s->data);
		if (!ev.data)
			return too_large(e);
		ev.n = buf_len(&s->data) - 1; /* without the last newline */
		s->data.mem[s->data.start + ev.n] = '\0';
		r = s->on_event(s->arg, &ev);
	}
	buf_clear(&s->data);
	s->type[0] = '\0';
	return r;
}

static int on_line(struct sse *s, const char *line, size_t n, struct err *e)
{
	const char *colon = memchr(line, ':', n);
	size_t k = colon ? (size_t)(colon - line) : n;
	const char *value = colon ? colon + 1 : line + n;

	if (n == 0)
		return dispatch(s, e);
	if (colon && value < line + n && *value == ' ')
		value++;
	n -= (size_t)(value - line);
	if (k == 4 && !memcmp(line, "data", 4)) {
		if (buf_put(&s->data, value, n) < 0 ||
		    buf_put(&s->data, "\n", 1) < 0)
			return too_large(e);
	} else if (k == 5 && !memcmp(line, "event", 5)) {
		snprintf(s->type, sizeof(s->type), "%.*s", (int)n, value);
	} else if (k == 2 && !memcmp(line, "id", 2) && n < sizeof(s->id) &&
		   !memchr(value, '\0', n)) {
		snprintf(s->id, sizeof(s->id), "%.*s", (int)n, value);
	}
	return 0;
}

int sse_feed(struct sse *s, const void *bytes, size_t n, struct err *e)
{
	const char *p = bytes, *end = p + n;

	while (p < end) {
		const char *stop = p;
		int r;

		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		if (s->had_cr && stop == p && *p == '\n') {
			s->had_cr = false; /* CR LF is one end */
			p++;
			continue;
		}
		s->had_cr = false;
		if (buf_put(&s->line, p, (size_t)(stop - p)) < 0)
			return too_large(e);
		if (stop == end)
			return 0;
		s->had_cr = *stop == '\r';
		p = stop + 1;
		if (!buf_cstr(&s->line))
			return too_large(e);
		r = on_line(s, (const char *)buf_data(&s->line),
			    buf_len(&s->line), e);
		buf_clear(&s->line);
		if (r)
			return r;
	}
	return 0;
}
