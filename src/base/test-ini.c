/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ini.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

static char *name;
static bool flag;
static int64_t count, size, wait_ms;

static const struct ini_key keys[] = {
	{ "node", "name", INI_STR, &name, 0, 0 },
	{ "node", "flag", INI_BOOL, &flag, 0, 0 },
	{ "node", "count", INI_INT, &count, -5, 10 },
	{ "limits", "memory", INI_SIZE, &size, 1024, 1LL << 40 },
	{ "limits", "wait", INI_TIME, &wait_ms, 0, 0 },
};

static struct err e;

static int parse(const char *text)
{
	err_clear(&e);
	free(name);
	name = NULL;
	flag = false;
	count = size = wait_ms = 0;
	return ini_parse("t.conf", text, strlen(text), keys, ARRAY_SIZE(keys),
			 &e);
}

TEST(ini_reads_every_type)
{
	T_INT(parse("# comment\n"
		    "; other\n"
		    "[node]\n"
		    "name = node one = 1 # not a comment\r\n"
		    "  flag=on\n"
		    "count\t=\t-5\n"
		    "\n"
		    "[limits]\n"
		    "memory = 512M\n"
		    "wait = 5m"),
	      0);
	T_STR(name, "node one = 1 # not a comment");
	T_TRUE(flag);
	T_INT(count, -5);
	T_INT(size, 512LL << 20);
	T_INT(wait_ms, 300000);
}

TEST(ini_later_value_replaces)
{
	T_INT(parse("[node]\nname=a\nname=b\n[limits]\nwait=1s\n[node]\n"
		    "flag=yes\nflag=no\n"),
	      0);
	T_STR(name, "b");
	T_TRUE(!flag);
	T_INT(wait_ms, 1000);
}

TEST(ini_unknown_key_gets_a_suggestion)
{
	T_INT(parse("[node]\n\nnmae = x\n"), -EINVAL);
	T_STR(e.msg, "t.conf:3: key \"nmae\": unknown; did you mean \"name\"?");
	T_INT(parse("[node]\nzzzzzz = x\n"), -EINVAL);
	T_STR(e.msg, "t.conf:2: key \"zzzzzz\": unknown");
	/* of another section */
	T_INT(parse("[node]\nmemory = 1M\n"), -EINVAL);
}

TEST(ini_unknown_section)
{
	T_INT(parse("[limit]\n"), -EINVAL);
	T_STR(e.msg,
	      "t.conf:1: section \"limit\": unknown; did you mean \"limits\"?");
}

TEST(ini_values_have_their_borders)
{
	T_INT(parse("[node]\ncount = 10\n"), 0);
	T_INT(parse("[node]\ncount = 11\n"), -EINVAL);
	T_STR(e.msg, "t.conf:2: key \"count\": expected -5 to 10");
	T_INT(parse("[node]\ncount = -6\n"), -EINVAL);
	T_INT(parse("[limits]\nmemory = 1023\n"), -EINVAL);
	T_HAS(e.msg, "bytes");
	T_INT(parse("[limits]\nmemory = 1K\n"), 0);
	T_INT(parse("[limits]\nmemory = 9223372036854775807T\n"), -EINVAL);
	T_INT(parse("[limits]\nwait = 99999999999999999999ms\n"), -EINVAL);
}

TEST(ini_bad_values_say_what_is_expected)
{
	T_INT(parse("[node]\nflag = maybe\n"), -EINVAL);
	T_HAS(e.msg, "expected yes or no");
	T_INT(parse("[node]\ncount = 1x\n"), -EINVAL);
	T_HAS(e.msg, "expected a number");
	T_INT(parse("[limits]\nmemory = 1m\n"), -EINVAL);
	T_HAS(e.msg, "expected a size like 512M");
	T_INT(parse("[limits]\nwait = 10\n"), -EINVAL); /* no unit */
	T_HAS(e.msg, "expected a time like 250ms");
	T_INT(parse("[limits]\nwait = -1s\n"), -EINVAL);
	T_INT(parse("[limits]\nwait =\n"), -EINVAL);
}

TEST(ini_structure_errors_name_the_line)
{
	T_INT(parse("name = x\n"), -EINVAL);
	T_STR(e.msg, "t.conf:1: a key before any [section]");
	T_INT(parse("[node]\nname\n"), -EINVAL);
	T_STR(e.msg, "t.conf:2: expected key = value");
	T_INT(parse("[node\n"), -EINVAL);
	T_STR(e.msg, "t.conf:1: expected [section]");
	T_INT(parse("[]\n"), -EINVAL);
}

TEST(ini_refuses_nul_and_endless_words)
{
	static const char nul[] = "[node]\nname = a\0b\n";
	char big[4096];

	T_INT(ini_parse("t", nul, sizeof(nul) - 1, keys, ARRAY_SIZE(keys), &e),
	      -EINVAL);
	T_HAS(e.msg, "NUL");
	memset(big, 'a', sizeof(big));
	memcpy(big, "[node]\nname=", 12);
	big[sizeof(big) - 1] = 0;
	T_INT(parse(big), -EINVAL);
	T_HAS(e.msg, "value is longer than 1023 bytes");
}

TEST(ini_load_a_file)
{
	owned_str path = xasprintf("%s/x.conf", test_tmpdir());

	err_clear(&e);
	T_INT(ini_load(path, keys, ARRAY_SIZE(keys), &e), -ENOENT);
	T_HAS(e.msg, "x.conf");
	T_INT(file_write_atomic(path, "[node]\nname=f\n", 14, 0600, &e), 0);
	T_INT(ini_load(path, keys, ARRAY_SIZE(keys), &e), 0);
	T_STR(name, "f");
}

TEST(ini_empty_text_is_fine)
{
	T_INT(ini_parse("t", NULL, 0, keys, ARRAY_SIZE(keys), &e), 0);
	T_INT(parse("\n\n   \n"), 0);
}
