/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>

#include "base/test.h"

TEST(buf_is_a_queue)
{
	struct buf b;

	buf_init(&b, 0);
	T_INT(buf_puts(&b, "hello "), 0);
	T_INT(buf_put(&b, "world", 5), 0);
	T_INT(buf_len(&b), 11);
	buf_consume(&b, 6);
	T_STR(buf_cstr(&b), "world");
	T_INT(buf_len(&b), 5);
	buf_fini(&b);
	T_INT(buf_len(&b), 0);
}

TEST(buf_says_no_over_its_limit_and_stays_as_it_was)
{
	struct buf b;

	buf_init(&b, 8);
	T_INT(buf_puts(&b, "12345"), 0);
	T_INT(buf_puts(&b, "6789"), -ENOBUFS);
	T_TRUE(!buf_reserve(&b, 4));
	T_INT(buf_printf(&b, "%d", 6789), -ENOBUFS);
	T_STR(buf_cstr(&b), "12345");
	T_INT(buf_puts(&b, "678"), 0);
	T_INT(buf_len(&b), 8);
	T_STR(buf_cstr(&b), "12345678");
	buf_fini(&b);
}

TEST(buf_limit_counts_what_is_held_not_what_passed)
{
	struct buf b;

	buf_init(&b, 4);
	for (int i = 0; i < 10000; i++) {
		T_INT(buf_put(&b, "abcd", 4), 0);
		buf_consume(&b, 4);
	}
	T_TRUE(b.cap <= 256);
	buf_fini(&b);
}

TEST(buf_refuses_sizes_that_overflow)
{
	struct buf b;

	buf_init(&b, 0);
	T_INT(buf_put(&b, "x", 1), 0);
	T_TRUE(!buf_reserve(&b, SIZE_MAX));
	T_TRUE(!buf_reserve(&b, SIZE_MAX - 1));
	buf_fini(&b);
	buf_init(&b, 10);
	T_TRUE(!buf_reserve(&b, SIZE_MAX));
	buf_fini(&b);
}

TEST(buf_reserve_then_commit)
{
	struct buf b;
	uint8_t *p;

	buf_init(&b, 0);
	p = buf_reserve(&b, 100);
	T_TRUE(p);
	memset(p, 'a', 3);
	T_INT(buf_len(&b), 0);
	buf_commit(&b, 3);
	T_STR(buf_cstr(&b), "aaa");
	buf_fini(&b);
}

TEST(buf_content_survives_growth_and_moves)
{
	struct buf b;
	uint32_t in = 0, out = 0, v;

	buf_init(&b, 0);
	srandom(1);
	while (out < 20000) {
		for (long k = random() % 7; k > 0; k--, in++)
			T_INT(buf_put(&b, &in, sizeof(in)), 0);
		for (long k = random() % 7; k > 0 && out < in; k--, out++) {
			memcpy(&v, buf_data(&b), sizeof(v));
			T_INT(v, out);
			buf_consume(&b, sizeof(v));
		}
	}
	buf_fini(&b);
}

TEST(buf_printf_appends)
{
	struct buf b;

	buf_init(&b, 0);
	T_INT(buf_printf(&b, "%s", ""), 0);
	T_INT(buf_printf(&b, "%s=%d", "a", 1), 0);
	T_INT(buf_printf(&b, "%0500d", 7), 0);
	T_INT(buf_len(&b), 503);
	buf_fini(&b);
}

TEST(buf_cstr_of_nothing_is_empty)
{
	struct buf b;

	buf_init(&b, 0);
	T_STR(buf_cstr(&b), "");
	T_INT(buf_put(&b, NULL, 0), 0);
	buf_fini(&b);
}

TEST(view_compares_whole)
{
	T_TRUE(view_eq(view_of("abc"), "abc"));
	T_TRUE(!view_eq(view_of("abc"), "ab"));
	T_TRUE(!view_eq(view_of("ab"), "abc"));
	T_TRUE(view_eq((struct view){ NULL, 0 }, ""));
	T_TRUE(view_eq_nocase(view_of("Content-Length"), "content-length"));
	T_TRUE(!view_eq_nocase(view_of("@"), "`"));
	T_TRUE(!view_eq_nocase(view_of("["), "{"));
}
