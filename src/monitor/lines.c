/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/lines.h"

#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define NAME_MAX_BYTES 16384u
#define B64_MAX_BYTES  (4u * ((NAME_MAX_BYTES + 2u) / 3u))

enum type { T_READY, T_ALIVE, T_GONE, T_OVERFLOW, T_EVENT };

static const char *const types[] = { "ready",  "alive", "gone",	  "overflow",
				     "create", "write", "attrib", "remove",
				     "rename", NULL };

void lines_init(struct lines *l)
{
	memset(l, 0, sizeof(*l));
	buf_init(&l->in, LINE_MAX_BYTES);
}

void lines_fini(struct lines *l)
{
	buf_fini(&l->in);
}

bool lines_is_between(const struct lines *l)
{
	return buf_len(&l->in) == 0;
}

size_t lines_feed(struct lines *l, const void *p, size_t n)
{
	const char *end = memchr(p, '\n', n);
	size_t room = LINE_MAX_BYTES - buf_len(&l->in);
	size_t take = end ? (size_t)(end - (const char *)p) + 1 : n;

	if (l->is_whole)
		return 0;
	if (take > room)
		take = room;
	else
		l->is_whole = end != NULL;
	return buf_put(&l->in, p, take) < 0 ? 0 : take;
}

static int refuse(struct err *e, const char *what)
{
	return err_set(e, -EBADMSG, ERR_UNAVAILABLE,
		       "the guest sent a wrong line of its watch: %s", what);
}

static bool is_base64(const char *s)
{
	uint8_t bytes[3 * (B64_MAX_BYTES / 4)];

	return text_unbase64(s, strlen(s), bytes) > 0;
}

/* Copy a name, as text or as base64, if it is there. */
static void take_name(struct json_reader *r, const char *name, bool is_b64,
		      json_t *to)
{
	const char *s = NULL;

	if (!json_str(r, name, is_b64 ? B64_MAX_BYTES : NAME_MAX_BYTES, &s))
		return;
	if (is_b64 && !is_base64(s))
		json_field_error(r, name, "expected base64");
	else
		json_set_take(to, name, json_string(s));
}

/* The line's object written anew; NULL if it does not hold to its form. */
static json_t *rebuild(json_t *obj, size_t *ret_type)
{
	owned_json to = json_object();
	struct json_reader r;
	bool is_dir = false;

	json_reader_init(&r, obj, "", NULL);
	json_required(&r, "type");
	if (json_word(&r, "type", types, ret_type))
		json_set_take(to, "type", json_string(types[*ret_type]));
	take_name(&r, "path", false, to);
	take_name(&r, "path_b64", true, to);
	take_name(&r, "to", false, to);
	take_name(&r, "to_b64", true, to);
	if (json_bool(&r, "is_dir", &is_dir))
		json_set_take(to, "is_dir", json_boolean(is_dir));
	return r.r < 0 ? NULL : json_incref(to);
}

int lines_take(struct lines *l, struct buf *out, struct err *e)
{
	owned_json obj = NULL;
	owned_json line = NULL;
	owned_str text = NULL;
	size_t type = 0;

	if (!l->is_whole)
		return buf_len(&l->in) < LINE_MAX_BYTES ? LINES_MORE
							: refuse(e, "too long");
	if (l->has_ended)
		return refuse(e, "it comes after the end");
	if (json_parse(buf_data(&l->in), buf_len(&l->in) - 1, &obj, NULL) < 0)
		return refuse(e, "not JSON");
	line = rebuild(obj, &type);
	if (!line)
		return refuse(e, "not an event");
	if ((type == T_READY) == l->is_ready)
		return refuse(e, "\"ready\" is the first and comes once");
	text = json_text(line);
	if (buf_printf(out, "%s\n", text) < 0)
		return -ENOBUFS;
	l->is_ready = true;
	l->has_ended = type == T_GONE;
	l->is_whole = false;
	buf_clear(&l->in);
	return LINES_ONE;
}
