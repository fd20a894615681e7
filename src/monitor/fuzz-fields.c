/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/fields.h"

#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "monitor/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_text(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* "name: value" lines into a head, what HTTP itself would let through. */
static void fill(struct http_head *h, char *text)
{
	char *save = NULL;

	for (char *l = strtok_r(text, "\n", &save); l && h->n_fields < 50;
	     l = strtok_r(NULL, "\n", &save)) {
		char *colon = strstr(l, ": ");

		if (!colon)
			continue;
		*colon = '\0';
		if (*l && is_text(l) && is_text(colon + 2) &&
		    strspn(l, "abcdefghijklmnopqrstuvwxyz-") == strlen(l))
			http_head_add(h, l, colon + 2);
	}
}

/* What was accepted is accepted again and stays as it is. */
static void check_ask(const struct http_head *from, struct asked *ret)
{
	const unsigned all = ROUTE_RANGE | ROUTE_MATCH | ROUTE_DIGEST;
	struct http_head to, again;
	struct err e = { 0 };
	struct asked a;

	http_head_init(&to);
	http_head_init(&again);
	if (fields_ask(from, all, &to, ret, &e) == 0) {
		CHECK(fields_ask(&to, all, &again, &a, &e) == 0);
		CHECK(again.n_fields == to.n_fields);
		CHECK(a.range == ret->range && a.first == ret->first &&
		      a.last == ret->last);
		for (size_t i = 0; i < to.n_fields; i++)
			CHECK(strcmp(again.fields[i].value,
				     to.fields[i].value) == 0);
	} else {
		CHECK(e.msg[0] && ret->bad_field && ret->bad_status >= 400);
	}
	http_head_fini(&to);
	http_head_fini(&again);
}

static void check_answer(struct http_head *from, const struct asked *a,
			 int status)
{
	struct http_head to;
	struct err e = { 0 };
	int64_t length;

	http_head_init(&to);
	from->status = status;
	if (fields_answer(from, a, &to, &length, &e) == 0) {
		CHECK((status == 200 || status == 206) == (length >= 0));
		if (status == 206 && a->range == RANGE_FROM_TO)
			CHECK((uint64_t)length <= a->last - a->first + 1);
		if (status == 206 && a->range == RANGE_LAST)
			CHECK((uint64_t)length <= a->last);
	} else {
		CHECK(e.msg[0]);
	}
	http_head_fini(&to);
}

/* A client's fields, a line "--", a guest's fields. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = { 200, 206, 304, 416 };
	owned_str text = xcalloc(1, size + 1);
	struct http_head client, guest;
	struct asked a;
	char *second;

	memcpy(text, data, size);
	second = strstr(text, "\n--\n");
	if (second)
		*second = '\0';
	http_head_init(&client);
	http_head_init(&guest);
	fill(&client, text);
	if (second)
		fill(&guest, second + 4);
	check_ask(&client, &a);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i] != 206 || a.range != RANGE_NONE)
			check_answer(&guest, &a, statuses[i]);
	http_head_fini(&client);
	http_head_fini(&guest);
	return 0;
}
