/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "cli/names.h"

static void shows(const char *raw, const char *want)
{
	owned_str s = name_shown_str(raw);

	T_STR(s, want);
}

TEST(plain_names_are_shown_as_they_are)
{
	shows("a b-c_d.tar.gz", "a b-c_d.tar.gz");
	shows("Grüße – 日本", "Grüße – 日本");
	shows(NULL, "");
}

TEST(control_characters_are_escaped)
{
	shows("a\x1b[31m\n\r\t\x7f", "a\\x1b[31m\\x0a\\x0d\\x09\\x7f");
}

TEST(backslash_is_escaped_so_that_names_differ)
{
	shows("\\x1b", "\\x5cx1b");
}

TEST(eight_bit_controls_are_escaped)
{
	shows("\xc2\x9b"
	      "31m",
	      "\\xc2\\x9b"
	      "31m");
}

TEST(direction_marks_are_escaped)
{
	shows("a\xe2\x80\xae"
	      "b",
	      "a\\xe2\\x80\\xae"
	      "b");
	shows("\xe2\x81\xa6", "\\xe2\\x81\\xa6");
}

TEST(bytes_that_are_no_utf8_are_escaped)
{
	shows("\xff"
	      "a\xc3",
	      "\\xff"
	      "a\\xc3");
	shows("\xc3\xff\xc3\xa4", "\\xc3\\xff"
				  "ä");
	shows("\xed\xa0\x80", "\\xed\\xa0\\x80");
}

static void entry(const char *raw, int want_r, const char *want)
{
	char name[NAME_PATH_MAX] = "untouched";

	T_INT(name_of_entry(raw, name), want_r);
	if (want_r == 0)
		T_STR(name, want);
}

TEST(entry_names_are_cleaned)
{
	entry("a/b", 0, "a/b");
	entry("./a//./b/", 0, "a/b");
	entry(".", 0, "");
	entry("./", 0, "");
	entry("...", 0, "...");
	entry("a/..b/b..", 0, "a/..b/b..");
}

TEST(entry_names_that_climb_are_refused)
{
	entry("..", -EINVAL, NULL);
	entry("../x", -EINVAL, NULL);
	entry("a/../x", -EINVAL, NULL);
	entry("a/..", -EINVAL, NULL);
	entry("./..//x", -EINVAL, NULL);
}

TEST(absolute_and_empty_entry_names_are_refused)
{
	entry("/etc/passwd", -EINVAL, NULL);
	entry("//x", -EINVAL, NULL);
	entry("", -EINVAL, NULL);
}

TEST(long_entry_names_are_refused)
{
	char part[300];
	char *deep = xcalloc(30000, 1);

	memset(part, 'a', sizeof(part));
	part[299] = '\0';
	entry(part, -ENAMETOOLONG, NULL);
	for (int i = 0; i < 10000; i++)
		memcpy(deep + 2 * i, "d/", 3);
	entry(deep, -ENAMETOOLONG, NULL);
	free(deep);
}

TEST(links_inside_the_tree_stay)
{
	T_TRUE(name_link_stays("a", "b"));
	T_TRUE(name_link_stays("d/a", "../b"));
	T_TRUE(name_link_stays("d/e/a", "../../b/c"));
	T_TRUE(name_link_stays("d/a", "./x"));
	T_TRUE(name_link_stays("d/a", "..")); /* the top itself */
}

TEST(links_out_of_the_tree_do_not)
{
	T_TRUE(!name_link_stays("a", "/etc/passwd"));
	T_TRUE(!name_link_stays("a", ".."));
	T_TRUE(!name_link_stays("d/a", "../../b"));
	T_TRUE(!name_link_stays("a", ""));
}

TEST(links_that_climb_behind_a_name_do_not)
{
	/* the name may be a link by then */
	T_TRUE(!name_link_stays("d/e/a", "x/../../b"));
	T_TRUE(!name_link_stays("d/a", "../x/.."));
}
