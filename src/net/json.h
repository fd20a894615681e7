/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON over jansson: strict parsing and typed access to objects, with messages
 * a user can act on: `field "lifetime.ttl_s": expected an integer of at least
 * 1, or null`. A reader keeps its first error and remembers which fields were
 * asked for, so json_reader_end() can name an unknown one.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

#define JSON_DEPTH_MAX 32

/* One JSON value of at most JSON_DEPTH_MAX levels; no duplicate keys, no
 * trailing bytes, UTF-8 only, no U+0000. New reference. -EINVAL with *e ("line
 * 1 column 7: …"). */
int json_parse(const void *p, size_t n, json_t **ret, struct err *e);

#define JSON_READER_FIELDS_MAX 64
struct json_reader {
	json_t *obj; /* borrowed */
	char path[160];
	const char *seen[JSON_READER_FIELDS_MAX];
	size_t n_seen;
	int r;		 /* first error, or 0 */
	char field[160]; /* the field it is about, "" if none */
	struct err *e;
};

/* obj NULL or not an object is an error ("expected an object"). path is the
 * prefix of field names ("" at the top). */
void json_reader_init(struct json_reader *r, json_t *obj, const char *path,
		      struct err *e);

/* Each returns true if the field is there (and valid), false if it is absent or
 * null (which is the same, but for json_int_or_null) or an error was kept. */
bool json_str(struct json_reader *r, const char *name, size_t max_bytes,
	      const char **ret); /* borrowed from the object */
bool json_int(struct json_reader *r, const char *name, int64_t min, int64_t max,
	      int64_t *ret);
/* null is allowed: sets *ret_null. */
bool json_int_or_null(struct json_reader *r, const char *name, int64_t min,
		      int64_t max, int64_t *ret, bool *ret_null);
bool json_bool(struct json_reader *r, const char *name, bool *ret);
/* One of the words (NULL-terminated): *ret is its index. */
bool json_word(struct json_reader *r, const char *name,
	       const char *const *words, size_t *ret);
bool json_obj(struct json_reader *r, const char *name, json_t **ret);
bool json_arr(struct json_reader *r, const char *name, size_t max_items,
	      json_t **ret);
/* An object of strings, e.g. labels or env. */
bool json_strmap(struct json_reader *r, const char *name, size_t max_items,
		 size_t max_key, size_t max_value, json_t **ret);
/* An array of strings. */
bool json_strlist(struct json_reader *r, const char *name, size_t max_items,
		  size_t max_bytes, json_t **ret);
/* The field must be there, and not null. */
void json_required(struct json_reader *r, const char *name);
/* Keep an error about a field; fmt begins with what was expected. */
void json_field_error(struct json_reader *r, const char *name, const char *fmt,
		      ...) __attribute__((format(printf, 3, 4)));
/* Unknown fields are errors (with a suggestion). Returns r->r. */
int json_reader_end(struct json_reader *r);

/* Compact text, allocated, never NULL. */
char *json_text(const json_t *v);
/* json_pack-like helper that consumes values and aborts on failure. */
void json_set_take(json_t *obj, const char *key, json_t *value_take);
/* String that may hold any bytes: invalid UTF-8 and NUL (which json_parse()
 * refuses) become U+FFFD. New reference. */
json_t *json_str_lossy(const char *p, size_t n);

static inline void json_decref_p(json_t **p)
{
	json_decref(*p);
}
#define owned_json OWNED(json_decref_p) json_t *
