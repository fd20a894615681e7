/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"

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
