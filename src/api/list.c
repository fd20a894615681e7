/* SPDX-License-Identifier: Apache-2.0 */
#include "api/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/cursor.h"
#include "api/url.h"
#include "base/own.h"

#define LIST_WORDS_MAX 16u

static bool limit_of(struct req *r, int64_t *ret)
{
	return req_query_int(r, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT, ret);
}

bool list_query(struct req *r, char kind, struct list_query *ret)
{
	owned_str after = req_query(r, "after");
	int64_t seq;
	struct fault f;

	*ret = (struct list_query){ 0 };
	if (!limit_of(r, &ret->limit_asked))
		return false;
	snprintf(ret->limit, sizeof(ret->limit), "%" PRId64,
		 ret->limit_asked + 1);
	if (!after)
		return true;
	if (!cursor_decode(kind, after, &seq)) {
		fault_set(&f, "bad_cursor", "request",
			  "use `next` of the page before, of the same list",
			  "after: this is not a cursor of this list");
		snprintf(f.field, sizeof(f.field), "after");
		req_fault(r, &f);
		return false;
	}
	snprintf(ret->after, sizeof(ret->after), "%" PRId64, seq);
	return true;
}

static bool is_word(const char *const *words, const char *s)
{
	for (; *words; words++)
		if (strcmp(*words, s) == 0)
			return true;
	return false;
}

static void no_such_word(struct req *r, const char *name,
			 const char *const *words)
{
	struct buf b;
	struct fault f;

	buf_init(&b, 400);
	for (size_t i = 0; words[i]; i++)
		buf_printf(&b, "%s%s", i ? ", " : "", words[i]);
	fault_set(&f, "invalid_field", "request",
		  "repeat the parameter to allow several",
		  "%s: expected one of %s", name, buf_cstr(&b));
	snprintf(f.field, sizeof(f.field), "%s", name);
	req_fault(r, &f);
	buf_fini(&b);
}

bool list_words(struct req *r, const char *name, const char *const *words,
		char **ret)
{
	struct buf b;

	*ret = NULL;
	buf_init(&b, 0);
	for (unsigned i = 0; i <= LIST_WORDS_MAX; i++) {
		owned_str v = url_query_nth(req_path(r), name, i);

		if (!v)
			break;
		if (i == LIST_WORDS_MAX || !is_word(words, v)) {
			buf_fini(&b);
			no_such_word(r, name, words);
			return false;
		}
		buf_printf(&b, "%s%s", i ? "," : "{", v);
	}
	if (buf_len(&b)) {
		buf_puts(&b, "}");
		*ret = xstrdup(buf_cstr(&b));
	}
	buf_fini(&b);
	return true;
}

void list_answer(struct req *r, char kind, const struct pg_result *res)
{
	int64_t limit = LIST_LIMIT;
	char cursor[CURSOR_TEXT];
	struct buf b;
	int n = pg_rows(res);
	bool more;

	if (!limit_of(r, &limit))
		return;
	more = n > limit;
	if (more)
		n = (int)limit;
	buf_init(&b, 0);
	buf_puts(&b, "{\"items\":[");
	for (int i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", pg_text(res, i, 1));
	if (more && n > 0) {
		cursor_encode(kind, pg_int(res, n - 1, 0, 0), cursor);
		buf_printf(&b, "],\"next\":\"%s\"}", cursor);
	} else {
		buf_puts(&b, "],\"next\":null}");
	}
	req_json(r, 200, buf_cstr(&b));
	buf_fini(&b);
}
