/* SPDX-License-Identifier: Apache-2.0 */
#include "api/list.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/cursor.h"
#include "base/own.h"

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
