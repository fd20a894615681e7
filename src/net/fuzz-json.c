/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_fields(json_t *v, const char *path, int depth);

static void read_nested(struct json_reader *r)
{
	json_t *inner;

	if (json_obj(r, "inner", &inner))
		read_fields(inner, r->path[0] ? r->path : "inner", 1);
}

static void read_fields(json_t *v, const char *path, int depth)
{
	static const char *const words[] = { "stop", "delete", NULL };
	struct err e = { 0 };
	struct json_reader r;
	const char *s = "";
	int64_t i = 1;
	bool b, is_null = false;
	size_t w = 0;
	json_t *list, *map;

	json_reader_init(&r, v, path, &e);
	if (json_str(&r, "name", 10, &s))
		CHECK(strlen(s) <= 10);
	if (json_int(&r, "count", 1, 9, &i))
		CHECK(i >= 1 && i <= 9);
	if (json_int_or_null(&r, "ttl_s", 1, 9, &i, &is_null))
		CHECK(is_null || (i >= 1 && i <= 9));
	json_bool(&r, "flag", &b);
	if (json_word(&r, "mode", words, &w))
		CHECK(w < 2);
	if (json_strlist(&r, "cmd", 3, 8, &list))
		CHECK(json_array_size(list) <= 3);
	if (json_strmap(&r, "env", 3, 8, 8, &map))
		CHECK(json_object_size(map) <= 3);
	json_required(&r, "name");
	if (depth == 0)
		read_nested(&r);
	if (json_reader_end(&r) < 0)
		CHECK(e.code == -EINVAL && e.msg[0]);
	else
		CHECK(e.code == 0);
}

/* What is accepted is written as something that is accepted and equal; lossy
 * text of any bytes is text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v = NULL, *again = NULL, *lossy;
	struct err e = { 0 };
	char *text;

	lossy = json_str_lossy((const char *)data, size);
	text = json_text(lossy);
	CHECK(json_parse(text, strlen(text), &again, &e) == 0);
	CHECK(json_equal(lossy, again));
	json_decref(again);
	json_decref(lossy);
	free(text);
	if (json_parse(data, size, &v, &e) < 0) {
		CHECK(e.code == -EINVAL && e.msg[0]);
		return 0;
	}
	text = json_text(v);
	again = NULL;
	CHECK(json_parse(text, strlen(text), &again, &e) == 0);
	CHECK(json_equal(v, again));
	read_fields(v, "", 0);
	json_decref(again);
	json_decref(v);
	free(text);
	return 0;
}
