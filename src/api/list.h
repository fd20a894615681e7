/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists: {items, next}. Keyset by a row's sequence number. */

#include "api/req.h"

#define LIST_LIMIT_MAX 200
#define LIST_LIMIT     50

struct list_query {
	char after[24]; /* decimal, or "" */
	char limit[24]; /* one more than asked for */
	int64_t limit_asked;
};

/* Reads limit and after. kind: the cursor's letter. false: answered 400. */
bool list_query(struct req *r, char kind, struct list_query *ret);
static inline const char *list_after(const struct list_query *q)
{
	return q->after[0] ? q->after : NULL;
}
/* A filter that may be repeated (state=a&state=b: either), as a text array
 * literal; NULL if it is absent. Every value must be one of the words (NULL-
 * terminated). false: answered 400. */
bool list_words(struct req *r, const char *name, const char *const *words,
		char **ret);
/* Columns: seq, item (JSON). */
void list_answer(struct req *r, char kind, const struct pg_result *res);
