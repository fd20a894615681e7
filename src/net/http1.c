/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1.h"

#include <errno.h>
#include <string.h>

#include "net/http_int.h"

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(uint8_t c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 9110, 5.6.2 */
static bool is_tchar(uint8_t c)
{
	return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool http1_is_token(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_tchar((uint8_t)p[i]))
			return false;
	}
	return n > 0;
}

bool http1_is_value(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

bool http1_is_path(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)p[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return false;
	}
	return n > 0 && p[0] == '/';
}

bool http1_is_authority(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)p[i];

		/* no user information: @ is how hosts get confused */
		if (!is_alnum(c) && (!c || !strchr("-._~%:[]!$&'()*+,;=", c)))
			return false;
	}
	return n > 0 && n <= 300;
}

bool http1_parse_length(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (!n || n > 18) /* 10^18 < 2^63 */
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit((uint8_t)p[i]))
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return true;
}

bool http1_is_hop_field(const char *name, size_t n)
{
	static const char *const hop[] = {
		"connection", "keep-alive",	   "proxy-connection", "te",
		"trailer",    "transfer-encoding", "upgrade",	       "host",
		"expect",     "http2-settings",
	};

	for (size_t i = 0; i < ARRAY_SIZE(hop); i++) {
		if (strlen(hop[i]) == n && !memcmp(hop[i], name, n))
			return true;
	}
	return false;
}

/* One byte of a head or trailer section: 1 at its end, 0, or a refusal. */
static int scan_byte(struct http1_scan *s, uint8_t c)
{
	if (s->cr) {
		if (c != '\n')
			return -400;
		s->cr = false;
		if (s->line == 0)
			return s->later ? 1 : -400;
		s->line = 0;
		s->later = true;
		return 0;
	}
	if (c == '\r') {
		s->cr = true;
		return 0;
	}
	if (c == '\n' || c == '\0')
		return -400;
	if (s->line == 0 && (c == ' ' || c == '\t'))
		return -400; /* obsolete folding */
	s->line++;
	if (!s->later && s->line > HTTP1_LINE_MAX)
		return -414;
	return 0;
}

ssize_t http1_scan(struct http1_scan *s, const uint8_t *p, size_t n, size_t max)
{
	while (s->pos < n) {
		int r;

		if (s->pos >= max)
			return -431;
		r = scan_byte(s, p[s->pos]);
		if (r < 0)
			return r;
		s->pos++;
		if (r > 0)
			return (ssize_t)s->pos;
	}
	return 0;
}

/* The next line without its CRLF; http1_scan() saw that it is there. */
static struct view take_line(struct view *rest)
{
	const char *lf = memchr(rest->p, '\n', rest->n);
	struct view line = { rest->p, 0 };

	CHECK(lf && lf > rest->p);
	line.n = (size_t)(lf - rest->p) - 1;
	rest->p = lf + 1;
	rest->n -= line.n + 2;
	return line;
}

/* What the fields say, gathered before it is judged. */
struct parse {
	const struct http1_limits *lim;
	struct http_head *head;
	struct http1_msg *msg;
	const char *why;
	struct view te;
	size_t bytes;
	size_t n_fields;
	unsigned n_host, n_length, n_te, n_upgrade;
	bool connection_upgrade; /* Connection names Upgrade */
	bool is_1_0;		 /* a response of HTTP/1.0 */
};

static int refuse(struct parse *p, int status, const char *why)
{
	p->why = why;
	return -status;
}

static bool next_item(struct view *list, struct view *ret)
{
	const char *comma;

	if (!list->p)
		return false;
	comma = list->n ? memchr(list->p, ',', list->n) : NULL;
	ret->p = list->p;
	ret->n = comma ? (size_t)(comma - list->p) : list->n;
	if (comma) {
		list->p = comma + 1;
		list->n -= ret->n + 1;
	} else {
		list->p = NULL;
		list->n = 0;
	}
	while (ret->n && (*ret->p == ' ' || *ret->p == '\t')) {
		ret->p++;
		ret->n--;
	}
	while (ret->n &&
	       (ret->p[ret->n - 1] == ' ' || ret->p[ret->n - 1] == '\t'))
		ret->n--;
	return true;
}

static int on_connection(struct parse *p, struct view value)
{
	struct view item;

	while (next_item(&value, &item)) {
		if (view_eq_nocase(item, "close"))
			p->msg->close = true;
		else if (view_eq_nocase(item, "upgrade"))
			p->connection_upgrade = true;
		else if (item.n && !http1_is_token(item.p, item.n))
			return refuse(p, 400, "malformed Connection field");
	}
	return 0;
}

/* Several offers, or one that is no name, are as none: a server may ignore
 * Upgrade, and chooses nothing for the client. */
static void on_upgrade(struct parse *p, struct view value)
{
	if (p->n_upgrade++ || value.n > HTTP1_UPGRADE_MAX ||
	    !http1_is_token(value.p, value.n)) {
		p->msg->upgrade[0] = 0;
		return;
	}
	memcpy(p->msg->upgrade, value.p, value.n);
}

/* Fields that decide how the message is read. */
static int on_framing_field(struct parse *p, struct view name,
			    struct view value)
{
	if (view_eq(name, "host")) {
		if (p->n_host++)
			return refuse(p, 400, "more than one Host field");
		if (!http1_is_authority(value.p, value.n))
			return refuse(p, 400, "malformed Host field");
		free(p->head->authority);
		p->head->authority = xstrndup(value.p, value.n);
	} else if (view_eq(name, "content-length")) {
		if (p->n_length++)
			return refuse(p, 400, "more than one Content-Length");
		if (!http1_parse_length(value.p, value.n, &p->msg->length))
			return refuse(p, 400, "malformed Content-Length");
	} else if (view_eq(name, "transfer-encoding")) {
		if (p->n_te++)
			return refuse(p, 400,
				      "more than one Transfer-Encoding");
		p->te = value;
	} else if (view_eq(name, "connection")) {
		return on_connection(p, value);
	} else if (view_eq(name, "expect")) {
		if (!view_eq_nocase(value, "100-continue"))
			return refuse(p, 417, "unknown expectation");
		p->msg->expect = true;
	} else if (view_eq(name, "upgrade")) {
		on_upgrade(p, value);
	}
	return 0;
}

static int parse_field(struct parse *p, struct view line)
{
	const char *colon = memchr(line.p, ':', line.n);
	struct view name = { line.p, 0 }, value, rest;
	char lower[256];
	int r;

	if (!colon)
		return refuse(p, 400, "field without a colon");
	name.n = (size_t)(colon - line.p);
	if (!http1_is_token(name.p, name.n) || name.n >= sizeof(lower))
		return refuse(p, 400, "malformed field name");
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		lower[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	}
	name.p = lower;

	value.p = colon + 1;
	value.n = line.n - name.n - 1;
	while (value.n && (*value.p == ' ' || *value.p == '\t')) {
		value.p++;
		value.n--;
	}
	while (value.n &&
	       (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t'))
		value.n--;
	if (!http1_is_value(value.p, value.n))
		return refuse(p, 400, "control character in a field value");

	p->bytes += name.n + value.n;
	p->n_fields++;
	if (p->bytes > p->lim->head_bytes || p->n_fields > p->lim->fields)
		return refuse(p, 431, "request head too large");
	rest = value;
	r = on_framing_field(p, name, rest);
	if (r == 0 && !http1_is_hop_field(name.p, name.n))
		http_head_put(p->head, name, value);
	return r;
}

static int parse_fields(struct parse *p, struct view rest)
{
	for (;;) {
		struct view line = take_line(&rest);
		int r;

		if (line.n == 0)
			return 0;
		r = parse_field(p, line);
		if (r < 0)
			return r;
	}
}

/* "HTTP/1.1", or why not. */
static int check_version(struct parse *p, struct view v)
{
	if (view_eq(v, "HTTP/1.1"))
		return 0;
	if (v.n == 8 && !memcmp(v.p, "HTTP/", 5) && is_digit((uint8_t)v.p[5]) &&
	    v.p[6] == '.' && is_digit((uint8_t)v.p[7]))
		return refuse(p, 505, "only HTTP/1.1 and HTTP/2 are spoken");
	return refuse(p, 400, "malformed HTTP version");
}

static int parse_request_line(struct parse *p, struct view line,
			      struct view *ret_target)
{
	const char *sp1 = memchr(line.p, ' ', line.n), *sp2;
	struct view method = { line.p, 0 }, version;
	int r;

	if (!sp1)
		return refuse(p, 400, "malformed request line");
	method.n = (size_t)(sp1 - line.p);
	if (!http1_is_token(method.p, method.n) || method.n > 32)
		return refuse(p, 400, "malformed method");
	ret_target->p = sp1 + 1;
	ret_target->n = line.n - method.n - 1;
	sp2 = memchr(ret_target->p, ' ', ret_target->n);
	if (!sp2)
		return refuse(p, 400, "request line without a version");
	version.p = sp2 + 1;
	version.n = (size_t)(line.p + line.n - version.p);
	ret_target->n = (size_t)(sp2 - ret_target->p);
	r = check_version(p, version);
	if (r < 0)
		return r;
	p->head->method = xstrndup(method.p, method.n);
	if (view_eq(method, "CONNECT"))
		return refuse(p, 501, "CONNECT is not served");
	return 0;
}

/* Origin form, or absolute form for the very host that Host names. */
static int parse_target(struct parse *p, struct view t)
{
	const char *host = p->head->authority;
	size_t n = strlen(host);

	if (t.n > 7 && !memcmp(t.p, "http://", 7)) {
		t.p += 7;
		t.n -= 7;
		if (t.n < n || memcmp(t.p, host, n) != 0)
			return refuse(p, 400, "target and Host differ");
		t.p += n;
		t.n -= n;
	}
	if (!http1_is_path(t.p, t.n))
		return refuse(p, 400, "malformed request target");
	p->head->path = xstrndup(t.p, t.n);
	return 0;
}

static int judge_framing(struct parse *p)
{
	struct http1_msg *m = p->msg;

	if (p->n_te && p->n_length)
		return refuse(p, 400,
			      "both Content-Length and Transfer-Encoding");
	if (p->n_te) {
		if (!view_eq_nocase(p->te, "chunked"))
			return refuse(p, 501, "unknown transfer coding");
		m->framing = HTTP1_CHUNKED;
	} else if (p->n_length) {
		m->framing = m->length ? HTTP1_LENGTH : HTTP1_NONE;
	}
	/* a body would have to come before the other protocol's bytes */
	if (!p->connection_upgrade || m->framing != HTTP1_NONE)
		m->upgrade[0] = 0;
	return 0;
}

static int parse_request(struct parse *p, struct view rest)
{
	struct view target = { NULL, 0 };
	int r;

	r = parse_request_line(p, take_line(&rest), &target);
	if (r < 0)
		return r;
	r = parse_fields(p, rest);
	if (r < 0)
		return r;
	if (!p->n_host)
		return refuse(p, 400, "no Host field");
	r = parse_target(p, target);
	if (r < 0)
		return r;
	return judge_framing(p);
}

int http1_parse_request(const uint8_t *p, size_t n,
			const struct http1_limits *lim, struct http_head *ret,
			struct http1_msg *ret_msg, const char **ret_why)
{
	struct parse st = { .lim = lim, .head = ret, .msg = ret_msg };
	int r;

	memset(ret_msg, 0, sizeof(*ret_msg));
	r = parse_request(&st, (struct view){ (const char *)p, n });
	*ret_why = st.why;
	return r;
}

/* "HTTP/1.1 200 Reason", the reason possibly empty. Servers, unlike clients,
 * may be of HTTP/1.0: small ones in sandboxes often are. */
static int parse_status_line(struct parse *p, struct view line)
{
	struct view version = { line.p, 8 };
	int r;

	if (line.n < 12 || line.p[8] != ' ')
		return refuse(p, 400, "malformed status line");
	p->is_1_0 = view_eq(version, "HTTP/1.0");
	r = p->is_1_0 ? 0 : check_version(p, version);
	if (r < 0)
		return r;
	for (size_t i = 9; i < 12; i++) {
		if (!is_digit((uint8_t)line.p[i]))
			return refuse(p, 400, "malformed status");
		p->head->status = p->head->status * 10 + (line.p[i] - '0');
	}
	if (p->head->status < 100 || p->head->status > 599)
		return refuse(p, 400, "status out of range");
	if (line.n > 12 && line.p[12] != ' ')
		return refuse(p, 400, "malformed status line");
	if (!http1_is_value(line.p, line.n))
		return refuse(p, 400, "control character in a status line");
	return 0;
}

/* HTTP/1.0 knows no chunks and no interim answers, and its answer ends with the
 * connection, whatever else it says. */
static int judge_1_0(struct parse *p)
{
	if (!p->is_1_0)
		return 0;
	if (p->n_te)
		return refuse(p, 400, "Transfer-Encoding in HTTP/1.0");
	if (p->head->status < 200)
		return refuse(p, 400, "interim response in HTTP/1.0");
	p->msg->close = true;
	return 0;
}

int http1_parse_response(const uint8_t *p, size_t n, const char *method,
			 const struct http1_limits *lim, struct http_head *ret,
			 struct http1_msg *ret_msg, const char **ret_why)
{
	struct parse st = { .lim = lim, .head = ret, .msg = ret_msg };
	struct view rest = { (const char *)p, n };
	int r;

	memset(ret_msg, 0, sizeof(*ret_msg));
	ret->status = 0;
	r = parse_status_line(&st, take_line(&rest));
	if (r == 0)
		r = parse_fields(&st, rest);
	if (r == 0)
		r = judge_framing(&st);
	if (r == 0)
		r = judge_1_0(&st);
	*ret_why = st.why;
	if (r < 0)
		return r;
	if (http_no_body(method, ret->status))
		ret_msg->framing = HTTP1_NONE;
	else if (!st.n_te && !st.n_length)
		ret_msg->framing = HTTP1_UNTIL_EOF;
	return 0;
}
