/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/test.h"

TEST(err_set_keeps_code_kind_and_words)
{
	struct err e = { 0 };

	T_INT(err_set(&e, -EBUSY, ERR_CONFLICT, "slot %d", 7), -EBUSY);
	T_INT(e.code, -EBUSY);
	T_INT(e.kind, ERR_CONFLICT);
	T_STR(e.msg, "slot 7");
}

TEST(err_set_without_object_only_returns)
{
	T_INT(err_set(NULL, -EIO, ERR_INTERNAL, "x"), -EIO);
	T_INT(err_errno(NULL, EIO, "x"), -EIO);
	T_TRUE(err_wrap(NULL, "x") < 0);
	err_clear(NULL);
}

TEST(err_set_may_quote_its_own_message)
{
	struct err e = { 0 };

	err_set(&e, -EIO, ERR_INTERNAL, "inner");
	err_set(&e, -EPROTO, ERR_INVALID, "outer: %s", e.msg);
	T_STR(e.msg, "outer: inner");
}

TEST(err_errno_appends_the_words_once)
{
	struct err e = { 0 };

	T_INT(err_errno(&e, ENOENT, "open %s", "/x"), -ENOENT);
	T_STR(e.msg, "open /x: No such file or directory");
	T_INT(e.kind, ERR_NOT_FOUND);
	errno = EIO; /* whatever ran in between */
	err_errno(&e, ENOENT, "open %s: %m", "/x");
	T_STR(e.msg, "open /x: No such file or directory");
}

TEST(err_errno_of_a_number_without_words)
{
	struct err e = { 0 };

	err_errno(&e, 4000, "call");
	T_STR(e.msg, "call: error 4000");
	T_INT(e.kind, ERR_INTERNAL);
}

TEST(err_wrap_puts_context_before)
{
	struct err e = { 0 };

	err_set(&e, -ENOSPC, ERR_EXHAUSTED, "no room");
	T_INT(err_wrap(&e, "sandbox %s", "sb1"), -ENOSPC);
	T_STR(e.msg, "sandbox sb1: no room");
	T_INT(e.kind, ERR_EXHAUSTED);
}

TEST(err_messages_are_cut_and_terminated)
{
	struct err e = { 0 };
	char big[2 * ERR_MSG_MAX];

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	err_set(&e, -EIO, ERR_INTERNAL, "%s", big);
	T_INT(strlen(e.msg), ERR_MSG_MAX - 1);
	err_wrap(&e, "context");
	T_INT(strlen(e.msg), ERR_MSG_MAX - 1);
	T_HAS(e.msg, "context: aaa");
	err_wrap(&e, "%s", big);
	T_INT(strlen(e.msg), ERR_MSG_MAX - 1);
}

TEST(err_clear_forgets)
{
	struct err e = { 0 };

	err_set(&e, -EIO, ERR_TIMEOUT, "x");
	err_clear(&e);
	T_INT(e.code, 0);
	T_INT(e.kind, ERR_INTERNAL);
	T_STR(e.msg, "");
}

TEST(err_kinds_have_distinct_names)
{
	for (int a = 0; a < ERR_KIND_MAX_; a++) {
		for (int b = a + 1; b < ERR_KIND_MAX_; b++)
			T_TRUE(strcmp(err_kind_name((enum err_kind)a),
				      err_kind_name((enum err_kind)b)) != 0);
	}
	T_STR(err_kind_name(ERR_NOT_FOUND), "not_found");
	T_STR(err_kind_name((enum err_kind)99), "internal");
}

TEST(err_kind_of_errno)
{
	T_INT(err_kind_of(ENOENT), ERR_NOT_FOUND);
	T_INT(err_kind_of(EACCES), ERR_DENIED);
	T_INT(err_kind_of(ENOSPC), ERR_EXHAUSTED);
	T_INT(err_kind_of(ECONNREFUSED), ERR_UNAVAILABLE);
	T_INT(err_kind_of(ETIMEDOUT), ERR_TIMEOUT);
	T_INT(err_kind_of(EOPNOTSUPP), ERR_UNSUPPORTED);
	T_INT(err_kind_of(123456), ERR_INTERNAL);
}
