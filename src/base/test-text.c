/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

TEST(text_hex_both_ways)
{
	uint8_t in[] = { 0x00, 0x7f, 0xff, 0xa5 }, back[4];
	char s[9];

	text_hex(in, 4, s);
	T_STR(s, "007fffa5");
	T_TRUE(text_unhex("007FffA5", 4, back));
	T_TRUE(memcmp(in, back, 4) == 0);
	T_TRUE(!text_unhex("007fffa", 4, back));
	T_TRUE(!text_unhex("007fffa5a", 4, back));
	T_TRUE(!text_unhex("007fffg5", 4, back));
	T_TRUE(text_unhex("", 0, back));
}

TEST(text_base64_rfc4648_vectors)
{
	static const char *const plain[] = { "",     "f",     "fo",    "foo",
					     "foob", "fooba", "foobar" };
	static const char *const coded[] = {
		"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"
	};
	char s[16], back[16];

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		size_t n = strlen(plain[i]);

		text_base64(plain[i], n, s);
		T_STR(s, coded[i]);
		T_INT(text_base64_len(n), strlen(coded[i]));
		T_INT(text_unbase64(s, strlen(s), back), n);
		T_TRUE(memcmp(back, plain[i], n) == 0);
	}
}

TEST(text_unbase64_is_strict)
{
	static const char *const bad[] = { "Zg",   "Zg=",  "Zg===",    "Z===",
					   "Zh==", "Zm9=", "Zg==Zg==", "Zm9v\n",
					   "Zm-v", "====", "Z=g=",     " Zm9" };
	char out[16];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_INT(text_unbase64(bad[i], strlen(bad[i]), out), -1);
}

TEST(text_percent_decodes_exactly)
{
	char out[8];

	T_INT(text_unpercent("a%2Fb+c", 7, out, 7), 5);
	T_STR(out, "a/b+c");
	T_INT(text_unpercent("%", 1, out, 7), -EINVAL);
	T_INT(text_unpercent("%2", 2, out, 7), -EINVAL);
	T_INT(text_unpercent("%zz", 3, out, 7), -EINVAL);
	T_INT(text_unpercent("%00", 3, out, 7), -EINVAL);
	T_INT(text_unpercent("12345678", 8, out, 7), -ENOBUFS);
	T_INT(text_unpercent("", 0, out, 7), 0);
	T_STR(out, "");
}

TEST(text_percent_decodes_once_and_in_place)
{
	char s[] = "a%20b%2Fc%c3%A9%2541";

	T_INT(text_unpercent(s, strlen(s), s, strlen(s)), 10);
	T_STR(s, "a b/c\xc3\xa9%41");
}

TEST(text_percent_refuses_bad_triplets)
{
	static const char *const bad[] = { "%",	  "a%",	  "%4",	 "%zz",
					   "%4g", "%%41", "a%-1" };
	char s[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_INT(text_unpercent(bad[i], strlen(bad[i]), s, 63), -EINVAL);
}

TEST(text_percent_encodes_all_but_unreserved)
{
	struct buf b;

	buf_init(&b, 0);
	T_INT(text_percent(&b, "/a b~\xff", 6, true), 0);
	T_STR(buf_cstr(&b), "/a%20b~%FF");
	buf_clear(&b);
	T_INT(text_percent(&b, "/a", 2, false), 0);
	T_STR(buf_cstr(&b), "%2Fa");
	buf_fini(&b);
}

TEST(text_int_takes_whole_numbers_only)
{
	int64_t v = 0;

	T_TRUE(text_int("-5", -10, 10, &v));
	T_INT(v, -5);
	T_TRUE(text_int("9223372036854775807", 0, INT64_MAX, &v));
	T_TRUE(!text_int("9223372036854775808", 0, INT64_MAX, &v));
	T_TRUE(!text_int("", 0, 10, &v));
	T_TRUE(!text_int(" 1", 0, 10, &v));
	T_TRUE(!text_int("+1", 0, 10, &v));
	T_TRUE(!text_int("1 ", 0, 10, &v));
	T_TRUE(!text_int("1x", 0, 10, &v));
	T_TRUE(!text_int("0x1", 0, 10, &v));
	T_TRUE(!text_int("11", 0, 10, &v));
	T_TRUE(!text_int("-", -10, 10, &v));
}

TEST(text_utf8_prefix_knows_the_borders)
{
	T_INT(text_utf8_prefix("abc", 3), 3);
	T_INT(text_utf8_prefix("\xc3\xa4", 2), 2);
	T_INT(text_utf8_prefix("a\xc3", 2), 1);	       /* cut */
	T_INT(text_utf8_prefix("\xc0\x80", 2), 0);     /* overlong */
	T_INT(text_utf8_prefix("\xe0\x9f\xbf", 3), 0); /* overlong */
	T_INT(text_utf8_prefix("\xed\xa0\x80", 3), 0); /* surrogate */
	T_INT(text_utf8_prefix("\xf4\x8f\xbf\xbf", 4), 4);
	T_INT(text_utf8_prefix("\xf4\x90\x80\x80", 4), 0); /* > U+10FFFF */
	T_INT(text_utf8_prefix("\x80", 1), 0);
	T_INT(text_utf8_prefix("", 0), 0);
}

TEST(text_rfc3339_times)
{
	char s[25];

	text_rfc3339(0, s);
	T_STR(s, "1970-01-01T00:00:00.000Z");
	text_rfc3339(1796119200123, s);
	T_STR(s, "2026-12-01T10:00:00.123Z");
	text_rfc3339(-1, s);
	T_STR(s, "1969-12-31T23:59:59.999Z");
	text_rfc3339(INT64_MAX, s);
	T_STR(s, "9999-12-31T23:59:59.999Z");
	text_rfc3339(INT64_MIN, s);
	T_STR(s, "0000-01-01T00:00:00.000Z");
}

TEST(text_clocks_go_forward)
{
	uint64_t a = now_mono_us();

	T_TRUE(now_mono_us() >= a);
	T_TRUE(now_unix_ms() > 1500000000000);
}

TEST(random_ids_are_valid_and_differ)
{
	char a[21], b[21], id[23];

	random_id(a, 20);
	random_id(b, 20);
	T_TRUE(strcmp(a, b) != 0);
	snprintf(id, sizeof(id), "sb%s", a);
	T_TRUE(id_valid(id, "sb", 20));
}

TEST(random_ids_use_every_letter)
{
	bool seen[256] = { false };
	char s[4001];
	int n = 0;

	random_id(s, 4000);
	for (size_t i = 0; i < 4000; i++)
		seen[(unsigned char)s[i]] = true;
	for (int c = 0; c < 256; c++)
		n += seen[c];
	T_INT(n, 36);
}

TEST(id_valid_refuses_near_misses)
{
	T_TRUE(id_valid("op_abc1", "op_", 4));
	T_TRUE(!id_valid("op_abc", "op_", 4));
	T_TRUE(!id_valid("op_abc12", "op_", 4));
	T_TRUE(!id_valid("op_abC1", "op_", 4));
	T_TRUE(!id_valid("op_ab/1", "op_", 4));
	T_TRUE(!id_valid("ex_abc1", "op_", 4));
	T_TRUE(!id_valid("", "op_", 4));
}

TEST(equal_consttime_is_equality)
{
	T_TRUE(equal_consttime("abc", "abc", 3));
	T_TRUE(!equal_consttime("abc", "abd", 3));
	T_TRUE(!equal_consttime("abc", "Abc", 3));
	T_TRUE(equal_consttime("abc", "xyz", 0));
}

TEST(file_write_then_read)
{
	owned_str path = xasprintf("%s/f", test_tmpdir());
	owned_str back = NULL;
	struct err e = { 0 };
	struct stat st;
	size_t n = 0;

	T_INT(file_write_atomic(path, "one\0two", 7, 0640, &e), 0);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0640);
	T_INT(file_read(path, 7, &back, &n, &e), 0);
	T_INT(n, 7);
	T_TRUE(memcmp(back, "one\0two", 8) == 0); /* NUL behind */
	T_INT(file_write_atomic(path, "", 0, 0600, &e), 0);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_size, 0);
}

TEST(file_read_has_a_limit)
{
	owned_str path = xasprintf("%s/f", test_tmpdir());
	char *back = NULL;
	struct err e = { 0 };
	size_t n;

	T_INT(file_write_atomic(path, "12345678", 8, 0600, &e), 0);
	T_INT(file_read(path, 7, &back, &n, &e), -EFBIG);
	T_HAS(e.msg, "larger than 7 bytes");
	T_INT(file_read("/dev/zero", 100000, &back, &n, &e), -EFBIG);
	T_TRUE(!back);
}

TEST(file_read_names_the_file_that_is_missing)
{
	char *back = NULL;
	struct err e = { 0 };

	T_INT(file_read("/no/such", 7, &back, NULL, &e), -ENOENT);
	T_STR(e.msg, "open /no/such: No such file or directory");
}

TEST(file_write_leaves_nothing_when_it_fails)
{
	owned_str dir = xasprintf("%s/d", test_tmpdir());
	struct err e = { 0 };
	char cmd[128];

	/* a directory cannot be replaced by a file */
	T_INT(mkdir_p(dir, 0700, &e), 0);
	T_TRUE(file_write_atomic(dir, "x", 1, 0600, &e) < 0);
	snprintf(cmd, sizeof(cmd), "%s", test_tmpdir());
	T_INT(rmdir(dir), 0);
	T_INT(rmdir(cmd), 0); /* empty: no temp file */
}

TEST(mkdir_p_makes_all_and_is_idempotent)
{
	owned_str path = xasprintf("%s/a/b//c", test_tmpdir());
	owned_str under = xasprintf("%s/f/x", test_tmpdir());
	owned_str file = xasprintf("%s/f", test_tmpdir());
	struct err e = { 0 };
	struct stat st;

	T_INT(mkdir_p(path, 0750, &e), 0);
	T_INT(mkdir_p(path, 0750, &e), 0);
	T_INT(stat(path, &st), 0);
	T_TRUE(S_ISDIR(st.st_mode));
	T_INT(file_write_atomic(file, "x", 1, 0600, &e), 0);
	T_TRUE(mkdir_p(under, 0700, &e) < 0);
	T_INT(mkdir_p(file, 0700, &e), -ENOTDIR);
	T_HAS(e.msg, "not a directory");
}

TEST(write_all_reports_a_closed_pipe)
{
	int p[2];

	T_INT(pipe2(p, O_CLOEXEC), 0);
	T_INT(write_all(p[1], "abc", 3), 0);
	close(p[1]);
	T_INT(write_all(p[1], "abc", 3), -EBADF);
	close(p[0]);
}
