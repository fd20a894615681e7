/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/test.h"
#include "monitor/route.h"

#define ALL (ROUTE_RANGE | ROUTE_MATCH | ROUTE_DIGEST)

static struct asked asked;
static struct err err;

static const char *text_of(struct http_head *h)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < h->n_fields; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s: %s\n",
				      h->fields[i].name, h->fields[i].value);
	http_head_fini(h);
	return text;
}

/* What one field becomes, or the status it is refused with. */
static const char *ask(unsigned fields, const char *name, const char *value)
{
	struct http_head from, to;
	int r;

	http_head_init(&from);
	http_head_init(&to);
	err_clear(&err);
	http_head_add(&from, name, value);
	r = fields_ask(&from, fields, &to, &asked, &err);
	http_head_fini(&from);
	if (r == 0)
		return text_of(&to);
	http_head_fini(&to);
	T_STR(asked.bad_field, name);
	return asked.bad_status == 416 ? "416" : "400";
}

TEST(ranges_are_written_anew)
{
	T_STR(ask(ALL, "range", "bytes=007-0099"), "range: bytes=7-99\n");
	T_STR(ask(ALL, "range", "bytes=7-"), "range: bytes=7-\n");
	T_STR(ask(ALL, "range", "bytes=-7"), "range: bytes=-7\n");
	T_INT(asked.range, RANGE_LAST);
	T_INT(asked.last, 7);
}

TEST(other_ranges_are_416)
{
	static const char *const bad[] = {
		"bytes=",
		"bytes=-",
		"bytes=5-2",
		"bytes=0-1,3-4",
		"bytes=-0",
		"lines=1-2",
		"bytes=1",
		"bytes= 1-2",
		"bytes=1-2 ",
		"bytes=-1-2",
		"bytes=0x1-2",
		"Bytes=1-2",
		"bytes=1-2-3",
		"bytes=+1-2",
		"",
		"bytes=18446744073709551616-",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		T_STR(ask(ALL, "range", bad[i]), "416");
}

TEST(ten_thousand_ranges_are_416)
{
	static char text[60000] = "bytes=";
	size_t n = strlen(text);

	for (int i = 0; i < 10000 && n < sizeof(text) - 8; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%d-%d,",
				      i % 10, i % 10);
	T_STR(ask(ALL, "range", text), "416");
}

TEST(a_range_goes_only_where_it_belongs)
{
	T_STR(ask(ROUTE_MATCH, "range", "bytes=0-1"), "");
	T_STR(ask(0, "if-match", "\"a\""), "");
	T_STR(ask(ROUTE_RANGE, "content-digest", "x"), "");
}

TEST(conditions_are_tags)
{
	T_STR(ask(ALL, "if-match", "\"a\" ,W/\"b\""),
	      "if-match: \"a\", W/\"b\"\n");
	T_STR(ask(ALL, "if-none-match", "*"), "if-none-match: *\n");
	T_TRUE(asked.has_if_none_match);
	T_STR(ask(ALL, "if-match", "a"), "400");
	T_STR(ask(ALL, "if-match", "\"a"), "400");
	T_STR(ask(ALL, "if-match", ""), "400");
	T_STR(ask(ALL, "if-match", "\"a\","), "400");
	T_STR(ask(ALL, "if-match", "\"a\" \"b\""), "400");
	T_STR(ask(ALL, "if-match", "*, \"a\""), "400");
}

TEST(conditions_are_bounded)
{
	static char tag[200], many[3000];
	size_t n = 0;

	memset(tag, 'x', sizeof(tag) - 1);
	tag[0] = tag[sizeof(tag) - 2] = '"';
	T_STR(ask(ALL, "if-match", tag), "400");
	while (n < 2000)
		n += (size_t)snprintf(many + n, sizeof(many) - n, "%s\"a\"",
				      n ? "," : "");
	T_STR(ask(ALL, "if-match", many), "400");
}

TEST(a_condition_that_comes_twice_is_refused)
{
	struct http_head from, to;

	http_head_init(&from);
	http_head_init(&to);
	err_clear(&err);
	http_head_add(&from, "if-match", "\"a\"");
	http_head_add(&from, "if-match", "\"b\"");
	T_INT(fields_ask(&from, ALL, &to, &asked, &err), -EINVAL);
	http_head_fini(&from);
	http_head_fini(&to);
}

TEST(digests_are_sha_256)
{
	const char *good =
	    "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";

	T_HAS(ask(ALL, "content-digest", good), good);
	T_STR(ask(ALL, "content-digest", "sha-256=:AAAA:"), "400");
	T_STR(ask(ALL, "content-digest", "sha-512=:AAAA:"), "400");
	T_STR(ask(ALL, "content-digest", "sha-256=x"), "400");
}

TEST(keys_are_never_dropped_in_silence)
{
	static char key[200];

	T_STR(ask(0, "idempotency-key", "k 1"), "idempotency-key: k 1\n");
	memset(key, 'k', sizeof(key) - 1);
	T_STR(ask(0, "idempotency-key", key), "400");
	T_STR(ask(0, "idempotency-key", ""), "400");
}

/* ---- answers ---- */

struct given {
	const char *range; /* asked, or NULL */
	int status;
	const char *name[3], *value[3];
};

/* The answer's fields, or "502". */
static const char *answer(const struct given *g)
{
	struct http_head from, to;
	int64_t length;
	int r;

	ask(ALL, g->range ? "range" : "x", g->range ? g->range : "x");
	http_head_init(&from);
	http_head_init(&to);
	err_clear(&err);
	from.status = g->status;
	for (int i = 0; i < 3 && g->name[i]; i++)
		http_head_add(&from, g->name[i], g->value[i]);
	r = fields_answer(&from, &asked, &to, &length, &err);
	http_head_fini(&from);
	if (r == 0)
		return text_of(&to);
	http_head_fini(&to);
	T_TRUE(err.msg[0]);
	return "502";
}

#define PART(range, part)                                                      \
	answer(&(struct given){ range, 206, { "content-range" }, { part } })

TEST(a_part_fits_its_range)
{
	T_STR(PART("bytes=5-9", "bytes 5-9/100"),
	      "content-range: bytes 5-9/100\naccept-ranges: bytes\n");
	T_HAS(PART("bytes=5-200", "bytes 5-99/100"), "5-99/100");
	T_HAS(PART("bytes=5-", "bytes 5-99/100"), "5-99/100");
	T_HAS(PART("bytes=-5", "bytes 95-99/100"), "95-99/100");
	T_HAS(PART("bytes=-500", "bytes 0-99/100"), "0-99/100");
}

TEST(a_part_beyond_its_range_is_refused)
{
	T_STR(PART("bytes=5-9", "bytes 5-10/100"), "502");
	T_STR(PART("bytes=5-9", "bytes 4-9/100"), "502");
	T_STR(PART("bytes=5-", "bytes 5-98/100"), "502");
	T_STR(PART("bytes=-5", "bytes 94-99/100"), "502");
	T_STR(PART("bytes=-5", "bytes 90-94/100"), "502");
}

TEST(malformed_parts_are_refused)
{
	T_STR(PART("bytes=5-9", "bytes 5-9/*"), "502");
	T_STR(PART("bytes=5-9", "bytes 5-9/9"), "502");
	T_STR(PART("bytes=5-9", "5-9/100"), "502");
	T_STR(PART("bytes=5-9", "bytes 5-9/100 "), "502");
	T_STR(PART("bytes=5-9", "bytes -5-9/100"), "502");
	T_STR(answer(&(struct given){ "bytes=5-9", 206, { 0 }, { 0 } }), "502");
	T_STR(answer(&(struct given){ "bytes=5-9",
				      206,
				      { "content-range", "content-length" },
				      { "bytes 5-9/100", "6" } }),
	      "502");
}

TEST(a_whole_file_has_a_length)
{
	T_STR(answer(&(struct given){ NULL, 200, { "etag" }, { "\"a\"" } }),
	      "502");
	T_STR(answer(&(struct given){
		  NULL, 200, { "content-length", "etag" }, { "3", "\"a\"" } }),
	      "etag: \"a\"\naccept-ranges: bytes\n");
}

TEST(a_whole_file_is_no_answer_to_a_range)
{
	T_STR(answer(&(struct given){
		  "bytes=5-9", 200, { "content-length" }, { "100" } }),
	      "502");
	T_HAS(answer(&(struct given){
		  "bytes=0-", 200, { "content-length" }, { "100" } }),
	      "accept-ranges");
}

TEST(tags_of_the_guest_are_checked)
{
	T_STR(answer(&(struct given){
		  NULL, 200, { "content-length", "etag" }, { "3", "a" } }),
	      "502");
	T_STR(answer(&(struct given){
		  NULL, 200, { "content-length", "etag" }, { "3", "\"a\"b" } }),
	      "502");
}

TEST(dates_of_the_guest_are_checked)
{
	T_HAS(
	    answer(&(struct given){ NULL,
				    200,
				    { "content-length", "last-modified" },
				    { "3", "Tue, 01 Dec 2026 10:00:00 GMT" } }),
	    "last-modified: Tue, 01 Dec 2026 10:00:00 GMT\n");
	T_STR(answer(&(struct given){ NULL,
				      200,
				      { "content-length", "last-modified" },
				      { "3", "yesterday" } }),
	      "accept-ranges: bytes\n");
}

TEST(no_other_field_passes)
{
	T_STR(answer(&(struct given){
		  NULL,
		  200,
		  { "content-length", "set-cookie", "location" },
		  { "3", "x", "http://evil" } }),
	      "accept-ranges: bytes\n");
}
