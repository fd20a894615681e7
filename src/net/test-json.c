/* SPDX-License-Identifier: Apache-2.0 */
#include "net/json.h"

#include "base/test.h"

static struct err e;

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	err_clear(&e);
	if (json_parse(text, strlen(text), &v, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, e.msg);
	return v;
}

static int try_parse(const char *text, size_t n)
{
	json_t *v = NULL;
	int r;

	err_clear(&e);
	r = json_parse(text, n, &v, &e);
	json_decref(v);
	return r;
}

#define REFUSED(text) T_INT(try_parse(text, sizeof(text) - 1), -EINVAL)

TEST(json_parse_takes_any_value)
{
	T_INT(try_parse("{}", 2), 0);
	T_INT(try_parse(" [1, 2.5, null, true, \"\\u00e4\"] ", 32), 0);
	T_INT(try_parse("7", 1), 0);
	T_INT(try_parse("\"a\"", 3), 0);
}

TEST(json_parse_is_strict)
{
	REFUSED("");
	T_HAS(e.msg, "got nothing");
	REFUSED("{\"a\":1,\"a\":2}");
	T_HAS(e.msg, "line 1 column");
	REFUSED("{} x");
	REFUSED("{}{}");
	REFUSED("{'a':1}");
	REFUSED("[1,]");
	REFUSED("\"\xff\"");
	REFUSED("\"\xed\xa0\x80\"");
	REFUSED("\"a\\u0000b\"");
	REFUSED("\"a\0b\"");
	REFUSED("[1] \0");
	REFUSED("NaN");
	REFUSED("01");
	REFUSED("123456789012345678901234567890");
}

TEST(json_parse_error_names_line_and_column)
{
	REFUSED("{\n  \"a\": oops\n}");
	T_HAS(e.msg, "line 2 column ");
	T_INT(e.kind, ERR_INVALID);
}

TEST(json_parse_limits_depth)
{
	char deep[100001];

	memset(deep, '[', 32);
	memset(deep + 32, ']', 32);
	T_INT(try_parse(deep, 64), 0);
	memset(deep, '[', 33);
	memset(deep + 33, ']', 33);
	T_INT(try_parse(deep, 66), -EINVAL);
	T_STR(e.msg, "JSON nested deeper than 32 levels");
	memset(deep, '[', sizeof(deep));
	T_INT(try_parse(deep, sizeof(deep)), -EINVAL);
	/* brackets in strings do not count, and quotes in them end nothing */
	deep[0] = deep[2] = '"';
	deep[1] = '\\';
	deep[sizeof(deep) - 1] = '"';
	T_INT(try_parse(deep, sizeof(deep)), 0);
}

TEST(json_reader_reads_every_type)
{
	owned_json v = parse("{\"s\":\"x\",\"i\":5,\"b\":true,\"w\":\"two\","
			     "\"o\":{},\"a\":[1],\"m\":{\"k\":\"v\"},"
			     "\"l\":[\"p\",\"q\"],\"n\":null}");
	static const char *const words[] = { "one", "two", NULL };
	struct json_reader r;
	const char *s = NULL;
	int64_t i = 0;
	bool b = false, is_null = false;
	size_t w = 0;
	json_t *o, *a, *m, *l;

	json_reader_init(&r, v, "", &e);
	T_TRUE(json_str(&r, "s", 1, &s));
	T_STR(s, "x");
	T_TRUE(json_int(&r, "i", 5, 5, &i));
	T_INT(i, 5);
	T_TRUE(json_bool(&r, "b", &b) && b);
	T_TRUE(json_word(&r, "w", words, &w));
	T_INT(w, 1);
	T_TRUE(json_obj(&r, "o", &o));
	T_TRUE(json_arr(&r, "a", 1, &a));
	T_TRUE(json_strmap(&r, "m", 1, 1, 1, &m));
	T_TRUE(json_strlist(&r, "l", 2, 1, &l));
	T_TRUE(json_int_or_null(&r, "n", 0, 1, &i, &is_null));
	T_TRUE(is_null);
	T_INT(json_reader_end(&r), 0);
	T_INT(e.code, 0);
}

TEST(json_reader_absent_and_null_are_no_errors)
{
	owned_json v = parse("{\"s\":null,\"i\":null}");
	struct json_reader r;
	const char *s = "kept";
	int64_t i = 7;
	bool is_null = false;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_str(&r, "s", 1, &s));
	T_TRUE(!json_int(&r, "i", 0, 1, &i));
	T_TRUE(!json_int_or_null(&r, "other", 0, 1, &i, &is_null));
	T_STR(s, "kept");
	T_INT(i, 7);
	T_TRUE(!is_null);
	T_INT(json_reader_end(&r), 0);
}

/* Read one field of `text` and return the message. */
static const char *int_error(const char *text, int64_t min, int64_t max,
			     bool or_null)
{
	owned_json v = parse(text);
	struct json_reader r;
	int64_t i;
	bool n;

	json_reader_init(&r, v, "lifetime", &e);
	if (or_null)
		json_int_or_null(&r, "ttl_s", min, max, &i, &n);
	else
		json_int(&r, "ttl_s", min, max, &i);
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(r.field, "lifetime.ttl_s");
	return e.msg;
}

TEST(json_reader_integer_messages)
{
	T_STR(int_error("{\"ttl_s\":0}", 1, INT64_MAX, true),
	      "field \"lifetime.ttl_s\": expected an integer of at least 1, or "
	      "null");
	T_STR(int_error("{\"ttl_s\":\"x\"}", 1, INT64_MAX, false),
	      "field \"lifetime.ttl_s\": expected an integer of at least 1");
	T_STR(int_error("{\"ttl_s\":11}", 1, 10, false),
	      "field \"lifetime.ttl_s\": expected an integer from 1 to 10");
	T_STR(int_error("{\"ttl_s\":1.0}", INT64_MIN, INT64_MAX, false),
	      "field \"lifetime.ttl_s\": expected an integer");
	T_STR(int_error("{\"ttl_s\":1}", INT64_MIN, 0, false),
	      "field \"lifetime.ttl_s\": expected an integer of at most 0");
	T_STR(int_error("{\"ttl_s\":true}", 0, 1, false),
	      "field \"lifetime.ttl_s\": expected an integer from 0 to 1");
}

TEST(json_reader_unknown_field_gets_a_suggestion)
{
	owned_json v = parse("{\"tll_s\":5}");
	struct json_reader r;
	int64_t i;

	json_reader_init(&r, v, "lifetime", &e);
	json_int(&r, "ttl_s", 1, 9, &i);
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg,
	      "field \"lifetime.tll_s\": unknown; did you mean \"ttl_s\"?");
	T_STR(r.field, "lifetime.tll_s");
}

TEST(json_reader_unknown_field_far_from_all)
{
	owned_json v = parse("{\"frobnicate\":5}");
	struct json_reader r;
	int64_t i;

	json_reader_init(&r, v, "", &e);
	json_int(&r, "ttl_s", 1, 9, &i);
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg, "field \"frobnicate\": unknown");
}

TEST(json_reader_keeps_the_first_error)
{
	owned_json v = parse("{\"a\":1,\"b\":2,\"c\":3}");
	struct json_reader r;
	const char *s;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_str(&r, "a", 5, &s));
	T_TRUE(!json_str(&r, "b", 5, &s));
	json_required(&r, "d");
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg, "field \"a\": expected a string of at most 5 bytes");
	T_STR(r.field, "a");
}

TEST(json_reader_strings_have_a_limit)
{
	owned_json v = parse("{\"a\":\"12345\"}");
	struct json_reader r;
	const char *s;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_str(&r, "a", 4, &s));
	T_INT(json_reader_end(&r), -EINVAL);
}

TEST(json_reader_words)
{
	static const char *const words[] = { "stop", "delete", "pause", NULL };
	owned_json v = parse("{\"a\":\"detele\"}");
	owned_json no_str = parse("{\"a\":5}");
	struct json_reader r;
	size_t w;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_word(&r, "a", words, &w));
	T_STR(e.msg, "field \"a\": expected \"stop\", \"delete\" or \"pause\"; "
		     "did you mean \"delete\"?");
	json_reader_init(&r, no_str, "", &e);
	T_TRUE(!json_word(&r, "a", words, &w));
	T_STR(e.msg, "field \"a\": expected \"stop\", \"delete\" or \"pause\"");
}

TEST(json_reader_required)
{
	owned_json v = parse("{\"b\":null}");
	struct json_reader r;

	json_reader_init(&r, v, "", &e);
	json_required(&r, "a");
	T_STR(e.msg, "field \"a\": is required");
	json_reader_init(&r, v, "", &e);
	json_required(&r, "b");
	T_STR(e.msg, "field \"b\": is required");
}

TEST(json_reader_of_something_else)
{
	owned_json v = parse("[1]");
	struct json_reader r;
	const char *s;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_str(&r, "a", 4, &s));
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg, "expected an object");
	json_reader_init(&r, NULL, "network", &e);
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg, "field \"network\": expected an object");
	T_STR(r.field, "network");
}

static const char *map_error(const char *text)
{
	owned_json v = parse(text);
	struct json_reader r;
	json_t *m;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_strmap(&r, "m", 2, 3, 4, &m));
	return e.msg;
}

TEST(json_reader_maps_of_strings)
{
	T_HAS(map_error("{\"m\":[]}"), "expected an object of at most 2");
	T_HAS(map_error("{\"m\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}"),
	      "at most 2 strings");
	T_HAS(map_error("{\"m\":{\"a\":1}}"), "object of strings");
	T_HAS(map_error("{\"m\":{\"\":\"x\"}}"), "names of 1 to 3 bytes");
	T_HAS(map_error("{\"m\":{\"abcd\":\"x\"}}"), "names of 1 to 3 bytes");
	T_HAS(map_error("{\"m\":{\"a\":\"12345\"}}"), "values of at most 4");
}

TEST(json_reader_lists_of_strings)
{
	owned_json v = parse("{\"a\":[\"x\",5],\"b\":[1,2,3]}");
	struct json_reader r;
	json_t *l;

	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_strlist(&r, "a", 5, 9, &l));
	T_HAS(e.msg, "strings of at most 9 bytes; item 1 is none");
	json_reader_init(&r, v, "", &e);
	T_TRUE(!json_arr(&r, "b", 2, &l));
	T_HAS(e.msg, "expected an array of at most 2 items");
}

TEST(json_reader_peers_names_are_cut_at_a_character)
{
	owned_json v = json_object();
	struct json_reader r;
	char name[301];

	for (int i = 0; i < 300; i += 3)
		memcpy(name + i, "\xe2\x82\xac", 3);
	name[300] = 0;
	json_set_take(v, name, json_integer(1));
	json_reader_init(&r, v, "", &e);
	T_INT(json_reader_end(&r), -EINVAL);
	T_INT(strlen(r.field), 63); /* 21 whole characters */
}

TEST(json_field_error_for_rules_of_the_caller)
{
	owned_json v = parse("{\"cpus\":3}");
	struct json_reader r;

	json_reader_init(&r, v, "vm", &e);
	json_field_error(&r, "cpus", "expected a power of %d", 2);
	T_INT(json_reader_end(&r), -EINVAL);
	T_STR(e.msg, "field \"vm.cpus\": expected a power of 2");
}

TEST(json_text_is_compact)
{
	owned_json v = parse("{\"a\": [1, \"x\"]}");
	owned_str s = json_text(v);

	T_STR(s, "{\"a\":[1,\"x\"]}");
}

TEST(json_str_lossy_replaces_what_is_no_text)
{
	static const char *const want = "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd";
	owned_json v = json_str_lossy("a\xff\xc3\xa4\xc3", 5);
	owned_json nul = json_str_lossy("a\0b", 3);
	owned_json none = json_str_lossy(NULL, 0);

	T_STR(json_string_value(v), want);
	T_STR(json_string_value(nul), "a\xef\xbf\xbd"
				      "b");
	T_STR(json_string_value(none), "");
	/* so what we write is what we read */
	owned_str s = json_text(nul);
	T_INT(try_parse(s, strlen(s)), 0);
}
