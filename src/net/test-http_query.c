/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"

static bool decode(const char *text, bool allow_nul, char *ret, size_t *ret_n)
{
	*ret_n = strlen(text);
	memcpy(ret, text, *ret_n + 1);
	if (!http_percent_decode(ret, ret_n, allow_nul))
		return false;
	ret[*ret_n] = 0;
	return true;
}

TEST(percent_decodes)
{
	char s[64];
	size_t n;

	T_TRUE(decode("a%20b%2Fc%c3%A9", false, s, &n));
	T_STR(s, "a b/c\xc3\xa9");
	T_TRUE(decode("", false, s, &n));
	T_INT(n, 0);
	T_TRUE(decode("a+b", false, s, &n));
	T_STR(s, "a+b");
	T_TRUE(decode("%2541", false, s, &n)); /* once, not twice */
	T_STR(s, "%41");
}

TEST(percent_refuses_bad_triplets)
{
	static const char *const bad[] = { "%",	  "a%",	  "%4",	 "%zz",
					   "%4g", "%%41", "a%-1" };
	char s[64];
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_TRUE(!decode(bad[i], true, s, &n));
}

TEST(percent_refuses_nul_unless_asked)
{
	char s[64];
	size_t n;

	T_TRUE(!decode("a%00b", false, s, &n));
	T_TRUE(decode("a%00b", true, s, &n));
	T_INT(n, 3);
	T_INT(s[1], 0);
}

static const char *query(const char *path, const char *name)
{
	static char text[64];
	owned_str v = http_query_get(path, name);

	if (!v)
		return "(none)";
	snprintf(text, sizeof(text), "%s", v);
	return text;
}

TEST(query_finds_values)
{
	T_STR(query("/a?x=1&y=2", "x"), "1");
	T_STR(query("/a?x=1&y=2", "y"), "2");
	T_STR(query("/a?x=a%26b+c", "x"), "a&b c");
	T_STR(query("/a?x=1=2", "x"), "1=2");
	T_STR(query("/a?x=", "x"), "");
	T_STR(query("/a?x", "x"), "");
	T_STR(query("/a?x&y=1", "x"), "");
	T_STR(query("/a?&&x=3", "x"), "3");
}

TEST(query_takes_the_first)
{
	T_STR(query("/a?x=1&x=2", "x"), "1");
}

TEST(query_misses_what_is_not_there)
{
	T_STR(query("/a", "x"), "(none)");
	T_STR(query("/a?", "x"), "(none)");
	T_STR(query("/x=1", "x"), "(none)");
	T_STR(query("/a?xx=1", "x"), "(none)");
	T_STR(query("/a?x=1", "xx"), "(none)");
	T_STR(query("/a?ax=1", "x"), "(none)");
}

TEST(query_refuses_malformed_values)
{
	T_STR(query("/a?x=%zz", "x"), "(none)");
	T_STR(query("/a?x=%00", "x"), "(none)");
	T_STR(query("/a?x=%4", "x"), "(none)");
}
