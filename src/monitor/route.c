/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"
#include "net/http.h"

#define JSON_BODY_MAX (1u << 20)

enum param {
	P_FROM,
	P_FOLLOW,
	P_OFFSET,
	P_END,
	P_PATH,
	P_MODE,
	P_OWNER,
	P_PARENTS,
	P_MAX_
};

static const char *const param_names[P_MAX_] = {
	"from", "follow", "offset", "end", "path", "mode", "owner", "parents",
};

#define BIT(p) (1u << (p))

/* "{}" stands for an exec's id. */
static const struct call {
	const char *method, *pattern;
	enum route_kind kind;
	bool has_body;
	uint64_t body_max;
	unsigned params, required;
} calls[] = {
	{ "POST", "/v1/execs", ROUTE_JSON, true, JSON_BODY_MAX, 0, 0 },
	{ "GET", "/v1/execs", ROUTE_JSON, false, 0, 0, 0 },
	{ "GET", "/v1/execs/{}", ROUTE_JSON, false, 0, 0, 0 },
	{ "DELETE", "/v1/execs/{}", ROUTE_JSON, false, 0, 0, 0 },
	{ "GET", "/v1/execs/{}/output", ROUTE_OUTPUT, false, 0,
	  BIT(P_FROM) | BIT(P_FOLLOW), 0 },
	{ "POST", "/v1/execs/{}/signal", ROUTE_JSON, true, JSON_BODY_MAX, 0,
	  0 },
	{ "POST", "/v1/execs/{}/stdin", ROUTE_JSON, true, UINT64_MAX,
	  BIT(P_OFFSET) | BIT(P_END), 0 },
	{ "GET", "/v1/files", ROUTE_FILE, false, 0, BIT(P_PATH), BIT(P_PATH) },
	{ "HEAD", "/v1/files", ROUTE_FILE, false, 0, BIT(P_PATH), BIT(P_PATH) },
	{ "PUT", "/v1/files", ROUTE_JSON, true, UINT64_MAX,
	  BIT(P_PATH) | BIT(P_MODE) | BIT(P_OWNER) | BIT(P_PARENTS),
	  BIT(P_PATH) },
	{ "DELETE", "/v1/files", ROUTE_JSON, false, 0, BIT(P_PATH),
	  BIT(P_PATH) },
	{ "GET", "/v1/metrics", ROUTE_JSON, false, 0, 0, 0 },
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

static int invalid(struct err *e, const char *name, const char *expected)
{
	return err_set(e, -EINVAL, ERR_INVALID,
		       "query parameter \"%s\": expected %s", name, expected);
}

static bool digits(const char *s, const char *set, size_t max)
{
	size_t n = strlen(s);

	return n >= 1 && n <= max && strspn(s, set) == n;
}

/* Letters, digits and what user names hold. */
static bool is_owner(const char *s)
{
	const char *const set = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
				"UVWXYZ0123456789_.-:";

	return digits(s, set, 128);
}

static int check_value(enum param p, const char *v, struct err *e)
{
	switch (p) {
	case P_FROM:
	case P_OFFSET:
		/* 18 digits stay below 2^63 */
		return digits(v, "0123456789", 18)
			   ? 0
			   : invalid(e, param_names[p], "a number of bytes");
	case P_FOLLOW:
	case P_END:
	case P_PARENTS:
		return digits(v, "01", 1)
			   ? 0
			   : invalid(e, param_names[p], "0 or 1");
	case P_MODE:
		return digits(v, "01234567", 5)
			   ? 0
			   : invalid(e, param_names[p], "an octal mode");
	case P_OWNER:
		return is_owner(v)
			   ? 0
			   : invalid(e, param_names[p], "user or user:group");
	case P_PATH:
		return *v && strlen(v) <= ROUTE_NAME_MAX
			   ? 0
			   : invalid(e, param_names[p],
				     "a file name of 1 to 4096 bytes");
	case P_MAX_:
	default:
		return -EINVAL;
	}
}

static enum param param_of(const char *s, size_t n)
{
	for (unsigned p = 0; p < P_MAX_; p++)
		if (strlen(param_names[p]) == n &&
		    memcmp(param_names[p], s, n) == 0)
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
	int rc;

	if (p == P_MAX_ || !(c->params & BIT(p)))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unknown query parameter for %s %s", c->method,
			       c->pattern);
	if (*seen & BIT(p))
		return invalid(e, param_names[p], "one value, not two");
	value = eq ? xstrndup(eq + 1, n - name_n - 1) : xstrdup("");
	value_n = strlen(value);
	if (text_unpercent(value, value_n, value, value_n) < 0)
		return invalid(e, param_names[p],
			       "percent-encoded bytes without NUL");
	rc = check_value(p, value, e);
	if (rc < 0)
		return rc;
	buf_printf(out, "%c%s=", *seen ? '&' : '?', param_names[p]);
	text_percent(out, value, strlen(value), true);
	*seen |= BIT(p);
	if (p == P_FROM)
		r->from = strtoull(value, NULL, 10);
	return 0;
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
		q += n;
		if (*q == '&')
			q++;
	}
	for (unsigned p = 0; p < P_MAX_; p++)
		if ((c->required & BIT(p)) && !(seen & BIT(p)))
			return err_set(e, -EINVAL, ERR_INVALID,
				       "query parameter \"%s\" is missing",
				       param_names[p]);
	return 0;
}

static int build(const struct call *c, const char *id, const char *query,
		 struct route *ret, struct err *e)
{
	struct route r = { .kind = c->kind,
			   .method = c->method,
			   .has_body = c->has_body,
			   .body_max = c->body_max };
	const char *hole = strstr(c->pattern, "{}");
	struct buf out;
	int rc;

	buf_init(&out, 3 * ROUTE_NAME_MAX + 1024);
	if (hole)
		buf_printf(&out, "%.*s%s%s", (int)(hole - c->pattern),
			   c->pattern, id, hole + 2);
	else
		buf_puts(&out, c->pattern);
	rc = take_query(c, query, &out, &r, e);
	if (rc == 0) {
		r.path = xstrdup(buf_cstr(&out));
		*ret = r;
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
