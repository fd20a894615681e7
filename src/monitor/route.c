/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"
#include "net/http.h"

#define JSON_BODY_MAX (1u << 20)
#define CURSOR_MAX    6144u
#define PATH_MAX_OUT  (2 * 3 * ROUTE_NAME_MAX + 3 * CURSOR_MAX + 1024)
#define SILENCE_MS    90000u
/* What walks trees or copies says nothing until it is done. */
#define WALK_MS 900000u

enum param {
	P_FROM,
	P_FOLLOW,
	P_OFFSET,
	P_END,
	P_PATH,
	P_MODE,
	P_OWNER,
	P_PARENTS,
	P_WATCH,
	P_TO,
	P_REPLACE,
	P_RECURSIVE,
	P_DEPTH,
	P_LIMIT,
	P_AFTER,
	P_FORMAT,
	P_PORT,
	P_MAX_
};

enum value { V_NUMBER, V_BIT, V_MODE, V_OWNER, V_NAME, V_CURSOR, V_FORMAT };

static const struct param_form {
	const char *name;
	enum value value;
	int64_t min, max; /* NUMBER */
	const char *expected;
} params[P_MAX_] = {
	[P_FROM] = { "from", V_NUMBER, 0, INT64_MAX, "a number of bytes" },
	[P_FOLLOW] = { "follow", V_BIT, 0, 0, "0 or 1" },
	[P_OFFSET] = { "offset", V_NUMBER, 0, INT64_MAX, "a number of bytes" },
	[P_END] = { "end", V_BIT, 0, 0, "0 or 1" },
	[P_PATH] = { "path", V_NAME, 0, 0,
		     "an absolute file name of 1 to 4096 bytes" },
	[P_MODE] = { "mode", V_MODE, 0, 0, "an octal mode" },
	[P_OWNER] = { "owner", V_OWNER, 0, 0, "user or user:group" },
	[P_PARENTS] = { "parents", V_BIT, 0, 0, "0 or 1" },
	[P_WATCH] = { "watch", V_BIT, 0, 0, "0 or 1" },
	[P_TO] = { "to", V_NAME, 0, 0,
		   "an absolute file name of 1 to 4096 bytes" },
	[P_REPLACE] = { "replace", V_BIT, 0, 0, "0 or 1" },
	[P_RECURSIVE] = { "recursive", V_BIT, 0, 0, "0 or 1" },
	[P_DEPTH] = { "depth", V_NUMBER, 1, 64, "a number from 1 to 64" },
	[P_LIMIT] = { "limit", V_NUMBER, 1, 1000, "a number from 1 to 1000" },
	[P_AFTER] = { "after", V_CURSOR, 0, 0,
		      "the cursor that the page before named as \"next\"" },
	[P_FORMAT] = { "format", V_FORMAT, 0, 0, "tar or tar.zst" },
	[P_PORT] = { "port", V_NUMBER, 1, 65535, "a number from 1 to 65535" },
};

#define BIT(p) (1u << (p))

/* "{}" stands for an exec's id. */
static const struct call {
	const char *method, *pattern;
	enum route_kind kind;
	uint32_t silence_ms;
	uint64_t body_max; /* 0: none */
	unsigned params, required, fields;
} calls[] = {
	{ "POST", "/v1/execs", ROUTE_JSON, SILENCE_MS, JSON_BODY_MAX, 0, 0, 0 },
	{ "GET", "/v1/execs", ROUTE_JSON, SILENCE_MS, 0, 0, 0, 0 },
	{ "GET", "/v1/execs/{}", ROUTE_JSON, SILENCE_MS, 0, 0, 0, 0 },
	{ "DELETE", "/v1/execs/{}", ROUTE_JSON, SILENCE_MS, 0, 0, 0, 0 },
	{ "GET", "/v1/execs/{}/output", ROUTE_OUTPUT, SILENCE_MS, 0,
	  BIT(P_FROM) | BIT(P_FOLLOW), 0, 0 },
	{ "POST", "/v1/execs/{}/attach", ROUTE_ATTACH, SILENCE_MS, UINT64_MAX,
	  BIT(P_FROM) | BIT(P_WATCH), 0, 0 },
	{ "POST", "/v1/execs/{}/signal", ROUTE_JSON, SILENCE_MS, JSON_BODY_MAX,
	  0, 0, 0 },
	{ "POST", "/v1/execs/{}/size", ROUTE_JSON, SILENCE_MS, JSON_BODY_MAX, 0,
	  0, 0 },
	{ "POST", "/v1/execs/{}/stdin", ROUTE_JSON, 0, UINT64_MAX,
	  BIT(P_OFFSET) | BIT(P_END), 0, 0 },
	{ "GET", "/v1/files", ROUTE_FILE, SILENCE_MS, 0, BIT(P_PATH),
	  BIT(P_PATH), ROUTE_RANGE | ROUTE_MATCH },
	/* a range is GET's alone (RFC 9110 14.2) */
	{ "HEAD", "/v1/files", ROUTE_FILE, SILENCE_MS, 0, BIT(P_PATH),
	  BIT(P_PATH), ROUTE_MATCH },
	{ "PUT", "/v1/files", ROUTE_JSON, SILENCE_MS, UINT64_MAX,
	  BIT(P_PATH) | BIT(P_MODE) | BIT(P_OWNER) | BIT(P_PARENTS),
	  BIT(P_PATH), ROUTE_MATCH | ROUTE_DIGEST },
	{ "DELETE", "/v1/files", ROUTE_JSON, WALK_MS, 0,
	  BIT(P_PATH) | BIT(P_RECURSIVE), BIT(P_PATH), 0 },
	{ "GET", "/v1/files/list", ROUTE_JSON, WALK_MS, 0,
	  BIT(P_PATH) | BIT(P_DEPTH) | BIT(P_LIMIT) | BIT(P_AFTER), BIT(P_PATH),
	  0 },
	{ "GET", "/v1/files/stat", ROUTE_JSON, SILENCE_MS, 0,
	  BIT(P_PATH) | BIT(P_FOLLOW), BIT(P_PATH), 0 },
	{ "POST", "/v1/files/mkdir", ROUTE_JSON, SILENCE_MS, 0,
	  BIT(P_PATH) | BIT(P_MODE) | BIT(P_OWNER) | BIT(P_PARENTS),
	  BIT(P_PATH), 0 },
	{ "POST", "/v1/files/move", ROUTE_JSON, WALK_MS, 0,
	  BIT(P_PATH) | BIT(P_TO) | BIT(P_REPLACE), BIT(P_PATH) | BIT(P_TO),
	  0 },
	{ "GET", "/v1/archive", ROUTE_ARCHIVE, SILENCE_MS, 0,
	  BIT(P_PATH) | BIT(P_FORMAT), BIT(P_PATH), 0 },
	{ "PUT", "/v1/archive", ROUTE_JSON, WALK_MS, UINT64_MAX,
	  BIT(P_PATH) | BIT(P_FORMAT) | BIT(P_OWNER), BIT(P_PATH), 0 },
	{ "GET", "/v1/watch", ROUTE_WATCH, SILENCE_MS, 0,
	  BIT(P_PATH) | BIT(P_RECURSIVE), BIT(P_PATH), 0 },
	{ "POST", "/v1/tunnel", ROUTE_TUNNEL, SILENCE_MS, UINT64_MAX,
	  BIT(P_PORT), BIT(P_PORT), 0 },
	{ "GET", "/v1/metrics", ROUTE_JSON, SILENCE_MS, 0, 0, 0, 0 },
	{ "GET", "/v1/console", ROUTE_CONSOLE, 0, 0,
	  BIT(P_FROM) | BIT(P_FOLLOW), 0, 0 },
};

/* Does path (n bytes, no query) fit the pattern? Sets the exec's id. */
static bool fits(const char *pattern, const char *path, size_t n,
		 char ret_id[32])
{
	const char *hole = strstr(pattern, "{}");
	size_t head = hole ? (size_t)(hole - pattern) : strlen(pattern);
	size_t tail = hole ? strlen(hole + 2) : 0;
	size_t id;

	if (n < head + tail || memcmp(path, pattern, head) != 0)
		return false;
	if (!hole)
		return n == head;
	id = n - head - tail;
	if (id != 31 || memcmp(path + n - tail, hole + 2, tail) != 0)
		return false;
	memcpy(ret_id, path + head, id);
	ret_id[id] = '\0';
	return id_valid(ret_id, "ex_", 28);
}

static int invalid(struct err *e, enum param p, const char *expected)
{
	return err_set(e, -EINVAL, ERR_INVALID,
		       "query parameter \"%s\": expected %s", params[p].name,
		       expected);
}

static bool all_of(const char *s, const char *set, size_t max)
{
	size_t n = strlen(s);

	return n >= 1 && n <= max && strspn(s, set) == n;
}

#define ALNUM                                                                  \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"                 \
	"0123456789"

static bool is_value(enum value v, const char *s)
{
	switch (v) {
	case V_BIT:
		return all_of(s, "01", 1);
	case V_MODE:
		return all_of(s, "01234567", 5);
	case V_OWNER: /* what names of users hold */
		return all_of(s, ALNUM "_.-:", 128);
	case V_NAME:
		return s[0] == '/' && strlen(s) <= ROUTE_NAME_MAX;
	case V_CURSOR: /* the guest's own text: any printable */
		for (const char *c = s; *c; c++)
			if (*c <= 0x20 || *c >= 0x7f)
				return false;
		return s[0] && strlen(s) <= CURSOR_MAX;
	case V_FORMAT:
		return strcmp(s, "tar") == 0 || strcmp(s, "tar.zst") == 0;
	case V_NUMBER:
	default:
		return false;
	}
}

/* Append the value as it is written anew. */
static int take_value(enum param p, const char *s, struct buf *out,
		      struct route *r, struct err *e)
{
	const struct param_form *f = &params[p];
	int64_t n = 0;

	if (f->value == V_NUMBER) {
		if (!all_of(s, "0123456789", 18) ||
		    !text_int(s, f->min, f->max, &n))
			return invalid(e, p, f->expected);
		buf_printf(out, "%lld", (long long)n);
	} else if (is_value(f->value, s)) {
		text_percent(out, s, strlen(s), true);
	} else {
		return invalid(e, p, f->expected);
	}
	if (p == P_FROM)
		r->from = (uint64_t)n;
	else if (p == P_FOLLOW)
		r->follow = s[0] == '1';
	else if (p == P_FORMAT)
		r->is_zstd = strcmp(s, "tar.zst") == 0;
	return 0;
}

static enum param param_of(const char *s, size_t n)
{
	for (unsigned p = 0; p < P_MAX_; p++)
		if (strlen(params[p].name) == n &&
		    memcmp(params[p].name, s, n) == 0)
			return (enum param)p;
	return P_MAX_;
}

/* One name=value of the query, checked and appended to the canonical path. */
static int take_param(const struct call *c, const char *s, size_t n,
		      unsigned *seen, struct buf *out, struct route *r,
		      struct err *e)
{
	const char *eq = memchr(s, '=', n);
	size_t name_n = eq ? (size_t)(eq - s) : n;
	enum param p = param_of(s, name_n);
	owned_str value = NULL;
	size_t value_n;

	if (p == P_MAX_ || !(c->params & BIT(p)))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unknown query parameter for %s %s", c->method,
			       c->pattern);
	r->bad = params[p].name;
	if (*seen & BIT(p))
		return invalid(e, p, "one value, not two");
	value = eq ? xstrndup(eq + 1, n - name_n - 1) : xstrdup("");
	value_n = strlen(value);
	if (text_unpercent(value, value_n, value, value_n) < 0)
		return invalid(e, p, "percent-encoded bytes without NUL");
	buf_printf(out, "%c%s=", *seen ? '&' : '?', params[p].name);
	*seen |= BIT(p);
	return take_value(p, value, out, r, e);
}

static int take_query(const struct call *c, const char *q, struct buf *out,
		      struct route *r, struct err *e)
{
	unsigned seen = 0;
	int rc;

	while (q && *q) {
		size_t n = strcspn(q, "&");

		rc = take_param(c, q, n, &seen, out, r, e);
		if (rc < 0)
			return rc;
		r->bad = NULL;
		q += n;
		if (*q == '&')
			q++;
	}
	for (unsigned p = 0; p < P_MAX_; p++) {
		if (!(c->required & BIT(p)) || (seen & BIT(p)))
			continue;
		r->bad = params[p].name;
		return err_set(e, -EINVAL, ERR_INVALID,
			       "query parameter \"%s\" is missing", r->bad);
	}
	return 0;
}

static int build(const struct call *c, const char *id, const char *query,
		 struct route *ret, struct err *e)
{
	struct route r = { .kind = c->kind,
			   .method = c->method,
			   .has_body = c->body_max > 0,
			   .body_max = c->body_max,
			   .fields = c->fields,
			   .silence_ms = c->silence_ms };
	const char *hole = strstr(c->pattern, "{}");
	struct buf out;
	int rc;

	buf_init(&out, PATH_MAX_OUT);
	if (hole)
		buf_printf(&out, "%.*s%s%s", (int)(hole - c->pattern),
			   c->pattern, id, hole + 2);
	else
		buf_puts(&out, c->pattern);
	rc = take_query(c, query, &out, &r, e);
	if (rc == 0) {
		r.path = xstrdup(buf_cstr(&out));
		*ret = r;
	} else {
		ret->bad = r.bad;
	}
	buf_fini(&out);
	return rc;
}

int route_parse(const char *method, const char *path, struct route *ret,
		struct err *e)
{
	size_t n = strcspn(path, "?");
	const char *query = path[n] ? path + n + 1 : NULL;
	bool has_path = false;
	char id[32];

	ret->bad = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (!fits(calls[i].pattern, path, n, id))
			continue;
		has_path = true;
		if (strcmp(calls[i].method, method) == 0)
			return build(&calls[i], id, query, ret, e);
	}
	if (has_path)
		return err_set(e, -ENOTSUP, ERR_UNSUPPORTED,
			       "this path has no such method");
	return err_set(e, -ENOENT, ERR_NOT_FOUND,
		       "no such call on a sandbox's data plane");
}

void route_fini(struct route *r)
{
	free(r->path);
	r->path = NULL;
}
