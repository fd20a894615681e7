/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "monitor/route.h"

#define TAG_MAX	   130u /* an entity tag with its quotes */
#define TAGS_MAX   1024u
#define COMMON_MAX 256u
#define DATE_LEN   29u /* "Tue, 01 Dec 2026 10:00:00 GMT" */

static int refuse(struct asked *a, int status, const char *field,
		  const char *expected, struct err *e)
{
	a->bad_field = field;
	a->bad_status = status;
	return err_set(e, -EINVAL, ERR_INVALID, "header \"%s\": expected %s",
		       field, expected);
}

/* The field's one value in *ret (NULL if absent); false if it comes twice. */
static bool single(const struct http_head *h, const char *name,
		   const char **ret)
{
	*ret = NULL;
	for (size_t i = 0; i < h->n_fields; i++) {
		if (strcmp(h->fields[i].name, name) != 0)
			continue;
		if (*ret)
			return false;
		*ret = h->fields[i].value;
	}
	return true;
}

/* ---- forms ---- */

/* Decimal digits at *s, at most 18; moves *s. */
static bool take_number(const char **s, uint64_t *ret)
{
	size_t n = strspn(*s, "0123456789");

	*ret = 0;
	if (n < 1 || n > 18)
		return false;
	for (size_t i = 0; i < n; i++)
		*ret = *ret * 10 + (uint64_t)((*s)[i] - '0');
	*s += n;
	return true;
}

static bool take_word(const char **s, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*s, word, n) != 0)
		return false;
	*s += n;
	return true;
}

/* "tag" or W/"tag": its length, or 0. */
static size_t tag_length(const char *s)
{
	const char *at = s;

	take_word(&at, "W/");
	if (*at++ != '"')
		return 0;
	while (*at == '!' || (*at >= 0x23 && *at <= 0x7e))
		at++;
	if (*at++ != '"' || (size_t)(at - s) > TAG_MAX)
		return 0;
	return (size_t)(at - s);
}

static bool is_tag(const char *s)
{
	size_t n = tag_length(s);

	return n > 0 && !s[n];
}

/* "*" or a list of tags, appended to out in canonical form. */
static bool take_tags(const char *s, struct buf *out)
{
	if (strcmp(s, "*") == 0)
		return buf_puts(out, s) == 0;
	for (;;) {
		size_t n = tag_length(s);

		if (n == 0 || (buf_len(out) && buf_puts(out, ", ") < 0) ||
		    buf_put(out, s, n) < 0)
			return false;
		s += n;
		s += strspn(s, " \t");
		if (*s == '\0')
			return true;
		if (*s++ != ',')
			return false;
		s += strspn(s, " \t");
	}
}

static bool is_date(const char *s)
{
	static const char form[] = "Aaa, 00 Aaa 0000 00:00:00 GMT";

	if (strlen(s) != DATE_LEN)
		return false;
	for (size_t i = 0; i < DATE_LEN; i++) {
		bool fits = s[i] == form[i];

		if (form[i] == '0')
			fits = s[i] >= '0' && s[i] <= '9';
		else if (form[i] == 'A' || (i < 3 && form[i] == 'a'))
			fits = (s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'z';
		else if (form[i] == 'a')
			fits = s[i] >= 'a' && s[i] <= 'z';
		if (!fits)
			return false;
	}
	return true;
}

static bool take_digest(const char *s, uint8_t ret[32])
{
	uint8_t sum[33];

	if (!take_word(&s, "sha-256=:") || strlen(s) != 45 || s[44] != ':' ||
	    text_unbase64(s, 44, sum) != 32)
		return false;
	memcpy(ret, sum, 32);
	return true;
}

static bool is_printable(const char *s, size_t max)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (s[n] < 0x20 || s[n] > 0x7e || n >= max)
			return false;
	return true;
}

/* ---- a client's fields ---- */

static bool parse_range(const char *s, struct asked *a)
{
	if (!take_word(&s, "bytes="))
		return false;
	if (*s == '-') {
		s++;
		a->range = RANGE_LAST;
		return take_number(&s, &a->last) && !*s && a->last > 0;
	}
	a->range = RANGE_FROM;
	if (!take_number(&s, &a->first) || *s++ != '-')
		return false;
	if (!*s)
		return true;
	a->range = RANGE_FROM_TO;
	return take_number(&s, &a->last) && !*s && a->first <= a->last;
}

static int ask_range(const struct http_head *from, struct http_head *to,
		     struct asked *a, struct err *e)
{
	const char *v;
	char text[64];

	if (!single(from, "range", &v) || (v && !parse_range(v, a)))
		return refuse(a, 416, "range",
			      "one range of bytes, as bytes=FIRST-LAST, "
			      "bytes=FIRST- or bytes=-LENGTH",
			      e);
	if (!v)
		return 0;
	if (a->range == RANGE_FROM_TO)
		snprintf(text, sizeof(text), "bytes=%llu-%llu",
			 (unsigned long long)a->first,
			 (unsigned long long)a->last);
	else if (a->range == RANGE_FROM)
		snprintf(text, sizeof(text), "bytes=%llu-",
			 (unsigned long long)a->first);
	else
		snprintf(text, sizeof(text), "bytes=-%llu",
			 (unsigned long long)a->last);
	http_head_add(to, "range", text);
	if (!single(from, "if-range", &v) || (v && !is_tag(v) && !is_date(v)))
		return refuse(a, 400, "if-range",
			      "one entity tag in quotes, or a date", e);
	if (v)
		http_head_add(to, "if-range", v);
	a->has_if_range = v != NULL;
	return 0;
}

static int ask_match(const struct http_head *from, const char *name,
		     struct http_head *to, struct asked *a, bool *ret_has,
		     struct err *e)
{
	struct buf b;
	const char *v;
	bool fits;

	buf_init(&b, TAGS_MAX);
	fits = single(from, name, &v) && (!v || take_tags(v, &b));
	if (fits && v)
		http_head_add(to, name, buf_cstr(&b));
	buf_fini(&b);
	*ret_has = v != NULL;
	if (!fits)
		return refuse(a, 400, name,
			      "* or entity tags in quotes, at most 1024 bytes",
			      e);
	return 0;
}

static int ask_digest(const struct http_head *from, struct http_head *to,
		      struct asked *a, struct err *e)
{
	const char *v;

	if (!single(from, "content-digest", &v) ||
	    (v && !take_digest(v, a->digest)))
		return refuse(a, 400, "content-digest",
			      "sha-256=:BASE64: of 32 bytes, and no other "
			      "algorithm",
			      e);
	if (v)
		http_head_add(to, "content-digest", v);
	a->has_digest = v != NULL;
	return 0;
}

/* What goes with every call. Hints that are no use are left out. */
static int ask_common(const struct http_head *from, struct http_head *to,
		      struct asked *a, struct err *e)
{
	static const char *const hints[] = { "content-type", "traceparent",
					     "accept" };
	const char *v;

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		v = http_head_get(from, hints[i]);
		if (v && is_printable(v, COMMON_MAX) &&
		    !http_head_get(to, hints[i]))
			http_head_add(to, hints[i], v);
	}
	if (!single(from, "idempotency-key", &v) ||
	    (v && (!*v || !is_printable(v, 128))))
		return refuse(a, 400, "idempotency-key",
			      "1 to 128 printable characters", e);
	if (v)
		http_head_add(to, "idempotency-key", v);
	return 0;
}

int fields_ask(const struct http_head *from, unsigned fields,
	       struct http_head *to, struct asked *ret, struct err *e)
{
	bool has;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = ask_common(from, to, ret, e);
	if (r == 0 && (fields & ROUTE_RANGE))
		r = ask_range(from, to, ret, e);
	if (r == 0 && (fields & ROUTE_MATCH))
		r = ask_match(from, "if-match", to, ret, &has, e);
	if (r == 0 && (fields & ROUTE_MATCH))
		r = ask_match(from, "if-none-match", to, ret,
			      &ret->has_if_none_match, e);
	if (r == 0 && (fields & ROUTE_DIGEST))
		r = ask_digest(from, to, ret, e);
	return r;
}

/* ---- a guest's fields ---- */

static int wrong(struct err *e, const char *what)
{
	return err_set(e, -EBADMSG, ERR_UNAVAILABLE,
		       "the guest answered a file call wrongly: %s", what);
}

/* bytes FIRST-LAST/TOTAL, against what was asked. */
static int answer_part(const struct http_head *from, const struct asked *a,
		       struct http_head *to, int64_t *ret_length, struct err *e)
{
	const char *v;
	uint64_t first, last, total;
	char text[80];

	if (!single(from, "content-range", &v) || !v)
		return wrong(e, "a part without content-range");
	if (!take_word(&v, "bytes ") || !take_number(&v, &first) ||
	    *v++ != '-' || !take_number(&v, &last) || *v++ != '/' ||
	    !take_number(&v, &total) || *v || first > last || last >= total)
		return wrong(e, "a malformed content-range");
	if (a->range != RANGE_LAST && first != a->first)
		return wrong(e, "another part than was asked");
	if (a->range == RANGE_FROM_TO ? last > a->last : last != total - 1)
		return wrong(e, "another part than was asked");
	if (a->range == RANGE_LAST && last - first >= a->last)
		return wrong(e, "more bytes than were asked");
	*ret_length = (int64_t)(last - first + 1);
	if (http_head_length(from) >= 0 &&
	    http_head_length(from) != *ret_length)
		return wrong(e, "content-length is not content-range's");
	snprintf(text, sizeof(text), "bytes %llu-%llu/%llu",
		 (unsigned long long)first, (unsigned long long)last,
		 (unsigned long long)total);
	http_head_add(to, "content-range", text);
	return 0;
}

static int answer_whole(const struct http_head *from, const struct asked *a,
			int64_t *ret_length, struct err *e)
{
	*ret_length = http_head_length(from);
	if (*ret_length < 0)
		return wrong(e, "no content-length");
	if (a->range != RANGE_NONE && !a->has_if_range &&
	    !(a->range == RANGE_FROM && a->first == 0))
		return wrong(e, "more bytes than were asked");
	return 0;
}

/* "bytes *" "/TOTAL"; optional. */
static void answer_unsatisfied(const struct http_head *from,
			       struct http_head *to)
{
	const char *v = http_head_get(from, "content-range");
	uint64_t total;
	char text[48];

	if (!v || !take_word(&v, "bytes */") || !take_number(&v, &total) || *v)
		return;
	snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)total);
	http_head_add(to, "content-range", text);
}

int fields_answer(const struct http_head *from, const struct asked *asked,
		  struct http_head *to, int64_t *ret_length, struct err *e)
{
	const char *v;
	int r = 0;

	*ret_length = -1;
	if (from->status == 206)
		r = answer_part(from, asked, to, ret_length, e);
	else if (from->status == 200)
		r = answer_whole(from, asked, ret_length, e);
	else if (from->status == 416)
		answer_unsatisfied(from, to);
	if (r < 0)
		return r;
	if (!single(from, "etag", &v) || (v && !is_tag(v)))
		return wrong(e, "a malformed etag");
	if (v)
		http_head_add(to, "etag", v);
	if (from->status == 416)
		return 0;
	/* years beyond 9999 have no form: left out */
	v = http_head_get(from, "last-modified");
	if (v && is_date(v))
		http_head_add(to, "last-modified", v);
	http_head_add(to, "accept-ranges", "bytes");
	return 0;
}
