/* SPDX-License-Identifier: Apache-2.0 */

/* What the header fields of a file call mean. */

#include <errno.h>
#include <stdlib.h>

#include "base/test.h"
#include "guestd/archives.h"
#include "guestd/files_head.h"
#include "guestd/list.h"

static uint64_t from, n;

/* 1: applies, with from and n; 0: unsatisfiable; < 0: malformed */
static int range(const char *field, uint64_t size)
{
	struct file_range r;
	int error = file_range_parse(field, &r);

	if (error < 0)
		return error;
	return file_range_apply(&r, size, &from, &n);
}

#define RANGE_IS(field, size, f, k)                                            \
	do {                                                                   \
		T_INT(range(field, size), 1);                                  \
		T_INT(from, f);                                                \
		T_INT(n, k);                                                   \
	} while (0)

TEST(ranges_of_all_three_forms)
{
	RANGE_IS("bytes=0-0", 10, 0, 1);
	RANGE_IS("bytes=2-5", 10, 2, 4);
	RANGE_IS("bytes=2-", 10, 2, 8);
	RANGE_IS("bytes=-3", 10, 7, 3);
}

TEST(a_range_ends_where_the_file_does)
{
	RANGE_IS("bytes=5-100", 10, 5, 5);
	RANGE_IS("bytes=-100", 10, 0, 10);
	RANGE_IS("bytes=9-999999999999999999", 10, 9, 1);
}

TEST(ranges_beyond_the_end)
{
	T_INT(range("bytes=10-", 10), 0);
	T_INT(range("bytes=10-11", 10), 0);
	T_INT(range("bytes=-0", 10), 0);
	T_INT(range("bytes=0-", 0), 0);
	T_INT(range("bytes=-1", 0), 0);
}

TEST(malformed_ranges)
{
	static const char *const bad[] = {
		"",
		"bytes",
		"bytes=",
		"bytes=-",
		"bytes=--1",
		"bytes=5-2",
		"bytes=a-b",
		"lines=0-1",
		"bytes=0-1,3-4",
		"bytes=0-1,",
		"bytes= -",
		"bytes=0x1-2",
		"bytes=1 -2",
		"bytes=0-1 x",
		"bytes=+1-2",
		"bytes=99999999999999999999-",
		"bytes=0-18446744073709551616",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		T_INT(range(bad[i], 10), -EINVAL);
}

TEST(no_range_is_none)
{
	struct file_range r;

	T_INT(file_range_parse(NULL, &r), 0);
	T_TRUE(!r.given);
}

TEST(lists_of_tags)
{
	T_INT(file_etag_listed("\"a\"", "\"a\"", false), 1);
	T_INT(file_etag_listed("\"b\", \"a\"", "\"a\"", false), 1);
	T_INT(file_etag_listed("\"b\",\"c\"", "\"a\"", false), 0);
	T_INT(file_etag_listed("*", "\"a\"", false), 1);
	T_INT(file_etag_listed("\"ab\"", "\"a\"", false), 0);
	T_INT(file_etag_listed("\"a,b\"", "\"a\"", false), 0);
}

TEST(weak_tags_count_only_where_they_may)
{
	T_INT(file_etag_listed("W/\"a\"", "\"a\"", false), 0);
	T_INT(file_etag_listed("W/\"a\"", "\"a\"", true), 1);
}

TEST(malformed_lists_of_tags)
{
	static const char *const bad[] = { "",	      "a",	     "\"a",
					   "*,",      "\"a\",",	     ",\"a\"",
					   "w/\"a\"", "\"a\" \"b\"", "* *" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		T_INT(file_etag_listed(bad[i], "\"a\"", true), -EINVAL);
}

TEST(tags_differ_with_each_part)
{
	struct stat a = { .st_dev = 1, .st_ino = 2, .st_size = 3 }, b = a;
	char x[FILE_ETAG_MAX], y[FILE_ETAG_MAX];

	file_etag(&a, x);
	b.st_mtim.tv_nsec = 1;
	file_etag(&b, y);
	T_TRUE(strcmp(x, y) != 0);
	b = a;
	b.st_ctim.tv_nsec = 1;
	file_etag(&b, y);
	T_TRUE(strcmp(x, y) != 0);
	b = a;
	b.st_ino = 9;
	file_etag(&b, y);
	T_TRUE(strcmp(x, y) != 0);
}

TEST(dates_are_http_dates)
{
	char s[FILE_DATE_MAX];

	file_date(784111777, s);
	T_STR(s, "Sun, 06 Nov 1994 08:49:37 GMT");
	file_date(0, s);
	T_STR(s, "Thu, 01 Jan 1970 00:00:00 GMT");
	file_date(-5, s);
	T_STR(s, "Thu, 01 Jan 1970 00:00:00 GMT");
	file_date(INT64_MAX, s);
	T_STR(s, "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST(if_range_needs_the_very_content)
{
	T_TRUE(file_if_range("\"a\"", "\"a\"", "d"));
	T_TRUE(file_if_range("d", "\"a\"", "d"));
	T_TRUE(!file_if_range("W/\"a\"", "\"a\"", "d"));
	T_TRUE(!file_if_range("\"b\"", "\"a\"", "d"));
}

#define SUM ":LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:"

TEST(digests)
{
	uint8_t sum[32];

	T_INT(file_digest_parse("sha-256=" SUM, sum), 1);
	T_INT(sum[0], 0x2c);
	T_INT(sum[31], 0x24);
	T_INT(file_digest_parse("sha-512=:AAAA:, sha-256=" SUM, sum), 1);
	T_INT(file_digest_parse("md5=:AAAA:", sum), 0);
}

TEST(malformed_digests)
{
	static const char *const bad[] = {
		"",
		"sha-256",
		"sha-256=",
		"sha-256=::",
		"sha-256=:AAAA:",
		"sha-256=" SUM ",sha-256=" SUM,
		"sha-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
		"sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmC*=:",
		"sha-256=" SUM ",",
	};
	uint8_t sum[32];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		T_INT(file_digest_parse(bad[i], sum), -EINVAL);
}

/* ---- names in archives ---- */

static const char *name(const char *text)
{
	static char out[FILE_PATH_MAX];

	return archive_name(text, out) == 0 ? out : "refused";
}

TEST(names_of_entries)
{
	T_STR(name("a"), "a");
	T_STR(name("./a//b/./c/"), "a/b/c");
	T_STR(name("./"), "");
	T_STR(name("..."), "...");
	T_STR(name("a/..b"), "a/..b");
}

TEST(names_that_leave)
{
	T_STR(name("/etc/passwd"), "refused");
	T_STR(name(".."), "refused");
	T_STR(name("a/../b"), "refused");
	T_STR(name("./../x"), "refused");
	T_STR(name("a/.."), "refused");
	T_STR(name(""), "refused");
}

TEST(names_that_are_too_long)
{
	static char text[20002];
	char out[FILE_PATH_MAX];

	memset(text, 'a', 256);
	T_INT(archive_name(text, out), -ENAMETOOLONG);
	text[255] = '\0';
	T_INT(archive_name(text, out), 0);
	for (size_t i = 0; i < 20000; i += 2)
		memcpy(text + i, "d/", 3);
	T_INT(archive_name(text, out), -ENAMETOOLONG);
}

TEST(links_that_stay)
{
	T_TRUE(archive_link_stays("/t", "a", "b"));
	T_TRUE(archive_link_stays("/t", "a/b/c", "../../x"));
	T_TRUE(archive_link_stays("/t", "a/b", ".././x"));
	T_TRUE(archive_link_stays("/t", "a", "/t/b"));
	T_TRUE(archive_link_stays("/", "a", "/etc/passwd"));
}

TEST(links_that_leave)
{
	T_TRUE(!archive_link_stays("/t", "a", ".."));
	T_TRUE(!archive_link_stays("/t", "a/b", "../../x"));
	T_TRUE(!archive_link_stays("/t", "a", "/etc/passwd"));
	T_TRUE(!archive_link_stays("/t", "a", "/tx/b"));
	T_TRUE(!archive_link_stays("/t", "a", "/t/../etc"));
	T_TRUE(!archive_link_stays("/t", "a", ""));
	/* another link on the way may lead to the top */
	T_TRUE(!archive_link_stays("/t", "x", "a/b/c/link/../.."));
}

TEST(cursors_come_back)
{
	static const char *const paths[] = { "a", "a/b", "\xff\n/x", "...",
					     "a.b/..c" };
	char out[FILE_PATH_MAX];

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		char *text = list_cursor(paths[i]);

		T_INT(list_cursor_parse(text, out), 0);
		T_STR(out, paths[i]);
		free(text);
	}
}

TEST(cursors_that_are_none)
{
	static const char *const bad[] = { "",	   "A",	  "a b", "YQ==",
					   "Li4",  "L2E", "YS8", "YS8vYg",
					   "YQBi", "YR",  "Lg" };
	char out[FILE_PATH_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		T_INT(list_cursor_parse(bad[i], out), -EINVAL);
}
