/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ndjson.h"

#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

void ndjson_init(struct ndjson *d, uint64_t from,
		 int (*on_frame)(void *, const struct ndjson_frame *),
		 void *arg)
{
	*d = (struct ndjson){ .next = from, .on_frame = on_frame, .arg = arg };
	buf_init(&d->line, NDJSON_LINE_MAX);
}

void ndjson_fini(struct ndjson *d)
{
	buf_fini(&d->line);
}

void ndjson_restart(struct ndjson *d)
{
	buf_clear(&d->line);
}

static int gap(struct ndjson *d, uint64_t to)
{
	struct ndjson_frame f = { .type = NDJSON_GAP,
				  .from = d->next,
				  .to = to };

	d->next = to;
	return d->on_frame(d->arg, &f);
}

static int bad(struct err *e, const char *why)
{
	return err_set(e, -EBADMSG, ERR_INTERNAL,
		       "the server sent an output line that is no frame: %s",
		       why);
}

static int output(struct ndjson *d, uint64_t at, int64_t stream,
		  const char *b64, struct err *e)
{
	struct ndjson_frame f = { .type = NDJSON_OUTPUT,
				  .stream = (int)stream };
	size_t n = strlen(b64), skip;
	owned_str bytes = xcalloc(n / 4 * 3 + 4, 1);
	ssize_t got = text_unbase64(b64, n, bytes);
	int r;

	if (stream < 1 || stream > 3)
		return bad(e, "unknown stream");
	if (got < 0)
		return bad(e, "not base64");
	if (at > (uint64_t)INT64_MAX - (uint64_t)got)
		return bad(e, "offset out of range");
	if (at > d->next) {
		r = gap(d, at);
		if (r)
			return r;
	}
	if (at + (uint64_t)got <= d->next)
		return 0; /* we have it all */
	skip = (size_t)(d->next - at);
	f.p = (uint8_t *)bytes + skip;
	f.n = (size_t)got - skip;
	d->next = at + (uint64_t)got;
	return d->on_frame(d->arg, &f);
}

static int told_gap(struct ndjson *d, const json_t *g, struct err *e)
{
	const json_t *to = json_object_get(g, "to");

	if (!json_is_integer(to) || json_integer_value(to) < 0)
		return bad(e, "gap without an end");
	if ((uint64_t)json_integer_value(to) <= d->next)
		return 0;
	return gap(d, (uint64_t)json_integer_value(to));
}

static int frame(struct ndjson *d, const json_t *v, struct err *e)
{
	struct ndjson_frame f = { .type = NDJSON_OTHER };
	const json_t *at = json_object_get(v, "o");
	const json_t *b64 = json_object_get(v, "b64");
	const json_t *stream = json_object_get(v, "s");

	if (!json_is_object(v))
		return bad(e, "not an object");
	if (b64) {
		if (!json_is_string(b64) || !json_is_integer(at) ||
		    json_integer_value(at) < 0 ||
		    !(d->unnamed ? !stream : json_is_integer(stream)))
			return bad(e, "output without offset or stream");
		return output(d, (uint64_t)json_integer_value(at),
			      stream ? json_integer_value(stream) : 1,
			      json_string_value(b64), e);
	}
	if (json_object_get(v, "gap"))
		return told_gap(d, json_object_get(v, "gap"), e);
	f.fact = json_object_get(v, "exit");
	if (f.fact) {
		if (!json_is_object(f.fact))
			return bad(e, "exit without a fact");
		d->over = true;
		f.type = NDJSON_EXIT;
	} else if (json_object_get(v, "started")) {
		f.type = NDJSON_STARTED;
	}
	return d->on_frame(d->arg, &f);
}

static int whole_line(struct ndjson *d, struct err *e)
{
	struct err why = { 0 };
	json_t *v = NULL;
	int r;

	if (buf_len(&d->line) == 0)
		return 0;
	if (json_parse(buf_data(&d->line), buf_len(&d->line), &v, &why) < 0)
		return bad(e, why.msg);
	r = frame(d, v, e);
	json_decref(v);
	return r;
}

int ndjson_feed(struct ndjson *d, const void *p, size_t n, struct err *e)
{
	const char *s = p;

	while (n > 0 && !d->over) {
		const char *nl = memchr(s, '\n', n);
		size_t part = nl ? (size_t)(nl - s) : n;
		int r;

		if (buf_put(&d->line, s, part) < 0)
			return bad(e, "line too long");
		if (!nl)
			break;
		r = whole_line(d, e);
		buf_clear(&d->line);
		if (r)
			return r;
		s += part + 1;
		n -= part + 1;
	}
	return 0;
}
