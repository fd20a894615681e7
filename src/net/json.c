/* SPDX-License-Identifier: Apache-2.0 */
#include "net/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/check.h"
#include "base/text.h"

#define NAME_SHOWN_MAX 64 /* bytes of a peer's field name in a message */

/* The parser recurses, so the depth is checked before it runs. Strings need no
 * more than their quotes and escapes here; everything else is its work. */
static bool is_too_deep(const char *p, size_t n)
{
	unsigned depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < n; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '[' || p[i] == '{') {
			if (++depth > JSON_DEPTH_MAX)
				return true;
		} else if ((p[i] == ']' || p[i] == '}') && depth > 0) {
			depth--;
		}
	}
	return false;
}

int json_parse(const void *p, size_t n, json_t **ret, struct err *e)
{
	json_error_t je;
	json_t *v;

	if (n == 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "expected a JSON value, got nothing");
	if (is_too_deep(p, n))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "JSON nested deeper than %d levels",
			       JSON_DEPTH_MAX);
	v = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (!v)
		return err_set(e, -EINVAL, ERR_INVALID, "line %d column %d: %s",
			       je.line, je.column, je.text);
	*ret = v;
	return 0;
}

/* "path.name" in r->field, whole characters only. */
static void set_field(struct json_reader *r, const char *name)
{
	size_t n = strnlen(name, NAME_SHOWN_MAX);

	char shown[NAME_SHOWN_MAX + 1];

	n = text_utf8_prefix(name, n);
	memcpy(shown, name, n);
	shown[n] = 0;
	snprintf(r->field, sizeof(r->field), "%.90s%s%s", r->path,
		 r->path[0] && n ? "." : "", shown);
}

void json_field_error(struct json_reader *r, const char *name, const char *fmt,
		      ...)
{
	char text[ERR_MSG_MAX];
	va_list ap;

	if (r->r < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set_field(r, name);
	if (r->field[0])
		r->r = err_set(r->e, -EINVAL, ERR_INVALID, "field \"%s\": %s",
			       r->field, text);
	else
		r->r = err_set(r->e, -EINVAL, ERR_INVALID, "%s", text);
}

void json_reader_init(struct json_reader *r, json_t *obj, const char *path,
		      struct err *e)
{
	*r = (struct json_reader){ .obj = obj, .e = e };
	snprintf(r->path, sizeof(r->path), "%s", path);
	if (!json_is_object(obj)) {
		r->obj = NULL;
		json_field_error(r, "", "expected an object");
	}
}

static void remember(struct json_reader *r, const char *name)
{
	for (size_t i = 0; i < r->n_seen; i++) {
		if (strcmp(r->seen[i], name) == 0)
			return;
	}
	CHECK(r->n_seen < JSON_READER_FIELDS_MAX);
	r->seen[r->n_seen++] = name;
}

/* The field's value, null included; NULL if it is absent or all is lost. */
static json_t *look(struct json_reader *r, const char *name)
{
	remember(r, name);
	return r->r < 0 ? NULL : json_object_get(r->obj, name);
}

/* The same, with null as absent. */
static json_t *look_some(struct json_reader *r, const char *name)
{
	json_t *v = look(r, name);

	return json_is_null(v) ? NULL : v;
}

bool json_str(struct json_reader *r, const char *name, size_t max_bytes,
	      const char **ret)
{
	json_t *v = look_some(r, name);

	if (!v)
		return false;
	if (!json_is_string(v) || json_string_length(v) > max_bytes) {
		json_field_error(r, name,
				 "expected a string of at most %zu bytes",
				 max_bytes);
		return false;
	}
	*ret = json_string_value(v);
	return true;
}

static void int_error(struct json_reader *r, const char *name, int64_t min,
		      int64_t max, const char *or_null)
{
	long long lo = min, hi = max;

	if (min == INT64_MIN && max == INT64_MAX)
		json_field_error(r, name, "expected an integer%s", or_null);
	else if (max == INT64_MAX)
		json_field_error(r, name,
				 "expected an integer of at least "
				 "%lld%s",
				 lo, or_null);
	else if (min == INT64_MIN)
		json_field_error(r, name,
				 "expected an integer of at most "
				 "%lld%s",
				 hi, or_null);
	else
		json_field_error(r, name,
				 "expected an integer from %lld to "
				 "%lld%s",
				 lo, hi, or_null);
}

static bool read_int(struct json_reader *r, const char *name, json_t *v,
		     int64_t min, int64_t max, int64_t *ret,
		     const char *or_null)
{
	int64_t x = json_integer_value(v);

	if (!json_is_integer(v) || x < min || x > max) {
		int_error(r, name, min, max, or_null);
		return false;
	}
	*ret = x;
	return true;
}

bool json_int(struct json_reader *r, const char *name, int64_t min, int64_t max,
	      int64_t *ret)
{
	json_t *v = look_some(r, name);

	return v && read_int(r, name, v, min, max, ret, "");
}

bool json_int_or_null(struct json_reader *r, const char *name, int64_t min,
		      int64_t max, int64_t *ret, bool *ret_null)
{
	json_t *v = look(r, name);

	if (!v)
		return false;
	if (json_is_null(v)) {
		*ret_null = true;
		return true;
	}
	if (!read_int(r, name, v, min, max, ret, ", or null"))
		return false;
	*ret_null = false;
	return true;
}

bool json_bool(struct json_reader *r, const char *name, bool *ret)
{
	json_t *v = look_some(r, name);

	if (!v)
		return false;
	if (!json_is_boolean(v)) {
		json_field_error(r, name, "expected true or false");
		return false;
	}
	*ret = json_is_true(v);
	return true;
}

/* `expected "a", "b" or "c"` */
static void word_error(struct json_reader *r, const char *name,
		       const char *const *words, size_t n, const char *got)
{
	const char *near = got ? args_suggest(got, words, n) : NULL;
	struct buf b;

	buf_init(&b, ERR_MSG_MAX / 2);
	for (size_t i = 0; i < n; i++) {
		const char *sep = i == 0 ? "" : i + 1 < n ? ", " : " or ";

		(void)buf_printf(&b, "%s\"%s\"", sep, words[i]);
	}
	if (near)
		(void)buf_printf(&b, "; did you mean \"%s\"?", near);
	json_field_error(r, name, "expected %.*s", (int)buf_len(&b),
			 b.mem ? (const char *)buf_data(&b) : "");
	buf_fini(&b);
}

bool json_word(struct json_reader *r, const char *name,
	       const char *const *words, size_t *ret)
{
	json_t *v = look_some(r, name);
	const char *s;
	size_t n = 0;

	if (!v)
		return false;
	s = json_string_value(v); /* NULL if it is no string */
	for (; words[n]; n++) {
		if (s && strcmp(words[n], s) == 0) {
			*ret = n;
			return true;
		}
	}
	word_error(r, name, words, n, s);
	return false;
}

bool json_obj(struct json_reader *r, const char *name, json_t **ret)
{
	json_t *v = look_some(r, name);

	if (!v)
		return false;
	if (!json_is_object(v)) {
		json_field_error(r, name, "expected an object");
		return false;
	}
	*ret = v;
	return true;
}

bool json_arr(struct json_reader *r, const char *name, size_t max_items,
	      json_t **ret)
{
	json_t *v = look_some(r, name);

	if (!v)
		return false;
	if (!json_is_array(v) || json_array_size(v) > max_items) {
		json_field_error(r, name,
				 "expected an array of at most %zu items",
				 max_items);
		return false;
	}
	*ret = v;
	return true;
}

bool json_strmap(struct json_reader *r, const char *name, size_t max_items,
		 size_t max_key, size_t max_value, json_t **ret)
{
	json_t *v = look_some(r, name), *value;
	const char *key;

	if (!v)
		return false;
	if (!json_is_object(v) || json_object_size(v) > max_items) {
		json_field_error(r, name,
				 "expected an object of at most %zu strings",
				 max_items);
		return false;
	}
	json_object_foreach(v, key, value)
	{
		if (*key && strlen(key) <= max_key && json_is_string(value) &&
		    json_string_length(value) <= max_value)
			continue;
		json_field_error(r, name,
				 "expected an object of strings, with names of "
				 "1 to %zu bytes and values of at most %zu",
				 max_key, max_value);
		return false;
	}
	*ret = v;
	return true;
}

bool json_strlist(struct json_reader *r, const char *name, size_t max_items,
		  size_t max_bytes, json_t **ret)
{
	json_t *v, *item;
	size_t i;

	if (!json_arr(r, name, max_items, &v))
		return false;
	json_array_foreach(v, i, item)
	{
		if (json_is_string(item) &&
		    json_string_length(item) <= max_bytes)
			continue;
		json_field_error(r, name,
				 "expected an array of strings of at most %zu "
				 "bytes; item %zu is none",
				 max_bytes, i);
		return false;
	}
	*ret = v;
	return true;
}

void json_required(struct json_reader *r, const char *name)
{
	json_t *v = look_some(r, name);

	if (!v)
		json_field_error(r, name, "is required");
}

static bool was_seen(const struct json_reader *r, const char *key)
{
	for (size_t i = 0; i < r->n_seen; i++) {
		if (strcmp(r->seen[i], key) == 0)
			return true;
	}
	return false;
}

int json_reader_end(struct json_reader *r)
{
	const char *key, *near;
	json_t *value;

	if (r->r < 0)
		return r->r;
	json_object_foreach(r->obj, key, value)
	{
		(void)value;
		if (was_seen(r, key))
			continue;
		near = args_suggest(key, r->seen, r->n_seen);
		if (near)
			json_field_error(r, key,
					 "unknown; did you mean \"%s\"?", near);
		else
			json_field_error(r, key, "unknown");
		break;
	}
	return r->r;
}

char *json_text(const json_t *v)
{
	char *s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

	CHECK(s);
	return s;
}

void json_set_take(json_t *obj, const char *key, json_t *value_take)
{
	/* fails for a NULL value too: whoever made it ran out of memory */
	CHECK(json_object_set_new(obj, key, value_take) == 0);
}

json_t *json_str_lossy(const char *p, size_t n)
{
	struct buf b;
	json_t *v;

	buf_init(&b, 0);
	while (n > 0) {
		size_t good = text_utf8_prefix(p, n);
		const char *nul = good ? memchr(p, 0, good) : NULL;

		if (nul)
			good = (size_t)(nul - p);
		CHECK(buf_put(&b, p, good) == 0);
		p += good;
		n -= good;
		if (n > 0) {
			CHECK(buf_puts(&b, "\xef\xbf\xbd") == 0);
			p++;
			n--;
		}
	}
	v = json_stringn_nocheck(b.mem ? (const char *)buf_data(&b) : "",
				 buf_len(&b));
	buf_fini(&b);
	CHECK(v);
	return v;
}
