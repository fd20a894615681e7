/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/values.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/own.h"

#define WORD_MAX  64u
#define STAMP_MAX 40u

enum form {
	FORM_NUMBER,
	FORM_WORD,  /* an id, a state, a reason: [a-z0-9_]+ */
	FORM_NAME,  /* one component of a path */
	FORM_MODE,  /* 0644 */
	FORM_STAMP, /* RFC 3339, of its characters */
	FORM_TEXT,
	FORM_BOOL,
};

/* Names that mean two things in two places ("bytes", "code", "pty") are not
 * here: of these only the numbers are looked at. */
static const struct known {
	const char *name;
	enum form form;
} known[] = {

	{ "begin", FORM_NUMBER },
	{ "cpu_count", FORM_NUMBER },
	{ "cpu_ms", FORM_NUMBER },
	{ "cpu_used_ms", FORM_NUMBER },
	{ "created_at", FORM_STAMP },
	{ "cwd", FORM_TEXT },
	{ "disk_total_bytes", FORM_NUMBER },
	{ "disk_used_bytes", FORM_NUMBER },
	{ "dropped_bytes", FORM_NUMBER },
	{ "end", FORM_NUMBER },
	{ "ended_at", FORM_STAMP },
	{ "entries", FORM_NUMBER },
	{ "etag", FORM_TEXT },
	{ "gid", FORM_NUMBER },
	{ "group", FORM_TEXT },
	{ "id", FORM_WORD },
	{ "max_rss_bytes", FORM_NUMBER },
	{ "mem_total_bytes", FORM_NUMBER },
	{ "mem_used_bytes", FORM_NUMBER },
	{ "mode", FORM_MODE },
	{ "mtime", FORM_STAMP },
	{ "name", FORM_NAME },
	{ "name_b64", FORM_TEXT },
	{ "not_started", FORM_TEXT },
	{ "oom_kills", FORM_NUMBER },
	{ "overflow", FORM_WORD },
	{ "path", FORM_TEXT },
	{ "path_b64", FORM_TEXT },
	{ "pid", FORM_NUMBER },
	{ "processes", FORM_NUMBER },
	{ "reason", FORM_WORD },
	{ "sha256", FORM_WORD },
	{ "size", FORM_NUMBER },
	{ "started_at", FORM_STAMP },
	{ "state", FORM_WORD },
	{ "stdin", FORM_BOOL },
	{ "stdin_offset", FORM_NUMBER },
	{ "target", FORM_TEXT },
	{ "target_b64", FORM_TEXT },
	{ "type", FORM_WORD },
	{ "uid", FORM_NUMBER },
	{ "uptime_ms", FORM_NUMBER },
	{ "user", FORM_TEXT },
	{ "wall_ms", FORM_NUMBER },
	{ "watchers", FORM_NUMBER },
	{ "writer", FORM_BOOL },
};

static bool is_made_of(const char *s, const char *set, size_t max)
{
	size_t n = strlen(s);

	return n > 0 && n <= max && strspn(s, set) == n;
}

static bool is_name(const char *s)
{
	return *s && strcmp(s, ".") != 0 && strcmp(s, "..") != 0 &&
	       !strchr(s, '/');
}

static bool has_form(const json_t *v, enum form form)
{
	const char *s = json_string_value(v);

	if (json_is_null(v)) /* nothing is said */
		return true;
	if (form == FORM_NUMBER)
		return json_is_integer(v);
	if (form == FORM_BOOL)
		return json_is_boolean(v);
	if (!s)
		return false;
	switch (form) {
	case FORM_WORD:
		return is_made_of(s, "abcdefghijklmnopqrstuvwxyz0123456789_",
				  WORD_MAX);
	case FORM_NAME:
		return is_name(s);
	case FORM_MODE:
		return is_made_of(s, "01234567", 5);
	case FORM_STAMP:
		return is_made_of(s, "0123456789-:.TZ+", STAMP_MAX);
	case FORM_TEXT:
	case FORM_NUMBER:
	case FORM_BOOL:
	default:
		return true;
	}
}

static int refuse(const char *name, const char *why, struct err *e)
{
	return err_set(e, -EBADMSG, ERR_INVALID,
		       "the guest's answer: field \"%.40s\" %s", name, why);
}

static int check_field(const char *name, json_t *v, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return has_form(v, known[i].form)
				   ? 0
				   : refuse(name, "has not its form", e);
	return 0;
}

/* Bounded: json_parse() has counted the depth. */
static int check(const char *name, json_t *v, struct err *e)
{
	const char *key;
	json_t *sub;
	size_t i;
	int r = 0;

	if (json_is_real(v) ||
	    (json_is_integer(v) && json_integer_value(v) < 0))
		return refuse(name, "is no number of 0 or more", e);
	if (json_is_array(v)) {
		for (i = 0; r == 0 && i < json_array_size(v); i++)
			r = check(name, json_array_get(v, i), e);
		return r;
	}
	json_object_foreach(v, key, sub)
	{
		r = check_field(key, sub, e);
		if (r == 0)
			r = check(key, sub, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int values_check(json_t *v, struct err *e)
{
	return check("answer", v, e);
}
