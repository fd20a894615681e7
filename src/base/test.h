/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unit tests: TEST(name) registers itself; the program prints TAP and ends with
 * `N passed, N failed, N skipped` as a TAP comment. An assertion that fails
 * ends its test, not the program. With a word as argument only the tests whose
 * name contains it run. Why not cmocka: its TAP prints a skip as `not ok`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

void test_register(struct test *t);
__attribute__((noreturn)) void test_fail(const char *file, int line,
					 const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
__attribute__((noreturn)) void test_skip(const char *reason);
/* A fresh directory, removed after the test; valid until then. */
const char *test_tmpdir(void);

#define TEST(id)                                                               \
	static void test_##id(void);                                           \
	static struct test test_reg_##id = { #id, test_##id, NULL };           \
	__attribute__((constructor)) static void test_ctor_##id(void)          \
	{                                                                      \
		test_register(&test_reg_##id);                                 \
	}                                                                      \
	static void test_##id(void)

#define T_TRUE(x)                                                              \
	do {                                                                   \
		if (!(x))                                                      \
			test_fail(__FILE__, __LINE__, "%s", #x);               \
	} while (0)
#define T_INT(a, b)                                                            \
	do {                                                                   \
		long long t_a_ = (long long)(a), t_b_ = (long long)(b);        \
		if (t_a_ != t_b_)                                              \
			test_fail(__FILE__, __LINE__,                          \
				  "%s is %lld, expected %lld", #a, t_a_,       \
				  t_b_);                                       \
	} while (0)
#define T_STR(a, b)                                                            \
	do {                                                                   \
		const char *t_a_ = (a), *t_b_ = (b);                           \
		if (!t_a_ || strcmp(t_a_, t_b_) != 0)                          \
			test_fail(__FILE__, __LINE__,                          \
				  "%s is \"%s\", expected \"%s\"", #a,         \
				  t_a_ ? t_a_ : "(null)", t_b_);               \
	} while (0)
#define T_HAS(a, b)                                                            \
	do {                                                                   \
		const char *t_a_ = (a), *t_b_ = (b);                           \
		if (!t_a_ || !strstr(t_a_, t_b_))                              \
			test_fail(__FILE__, __LINE__,                          \
				  "%s is \"%s\", expected to hold \"%s\"", #a, \
				  t_a_ ? t_a_ : "(null)", t_b_);               \
	} while (0)
