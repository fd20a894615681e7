/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/name.h"

#include "base/test.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(names_of_plain_characters_are_taken)
{
	T_TRUE(name_valid("a"));
	T_TRUE(name_valid("sb0123456789abcdefghij"));
	T_TRUE(name_valid("boot-1.2_x"));
}

TEST(names_that_leave_the_folder_are_refused)
{
	T_TRUE(!name_valid(".."));
	T_TRUE(!name_valid("."));
	T_TRUE(!name_valid("../x"));
	T_TRUE(!name_valid("a/b"));
	T_TRUE(!name_valid("/etc/passwd"));
}

TEST(hidden_and_empty_names_are_refused)
{
	T_TRUE(!name_valid(""));
	T_TRUE(!name_valid(".x"));
}

TEST(other_characters_are_refused)
{
	T_TRUE(!name_valid("A"));
	T_TRUE(!name_valid("a b"));
	T_TRUE(!name_valid("a\n"));
	T_TRUE(!name_valid("\xc3\xa4"));
}

TEST(longest_name)
{
	char s[ST_NAME_MAX + 1];

	memset(s, 'a', sizeof(s));
	s[ST_NAME_MAX] = 0;
	T_TRUE(!name_valid(s));
	s[ST_NAME_MAX - 1] = 0;
	T_TRUE(name_valid(s));
}

TEST(digest_is_64_lower_case_hex_digits)
{
	T_TRUE(digest_valid(HEX));
	T_TRUE(!digest_valid(""));
	T_TRUE(!digest_valid(HEX "0"));
	T_TRUE(!digest_valid("ABCDEF"));
	T_TRUE(!digest_valid("../" HEX));
}

TEST(digest_with_other_letters_is_refused)
{
	char s[ST_DIGEST_MAX] = HEX;

	s[63] = 'g';
	T_TRUE(!digest_valid(s));
	s[63] = 'F';
	T_TRUE(!digest_valid(s));
}

static struct st_req req(uint32_t op)
{
	return (struct st_req){ .hdr = { .op = op, .seq = 1 } };
}

TEST(request_without_strings_passes)
{
	struct st_req q = req(ST_SPACE);
	struct err e = { 0 };

	T_INT(request_check(&q, sizeof(q), &e), 0);
}

TEST(string_without_end_is_no_request)
{
	struct st_req q = req(ST_SPACE);
	struct err e = { 0 };

	memset(q.name, 'a', sizeof(q.name));
	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
	q = req(ST_OPEN);
	memset(q.digest, 'a', sizeof(q.digest));
	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
}

TEST(text_must_be_as_long_as_it_says)
{
	struct st_req q = req(ST_REF_SET);
	struct err e = { 0 };

	q.name[0] = 'a';
	q.text_n = 1;
	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
	q.text_n = UINT32_MAX;
	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
	q.text_n = 0;
	T_INT(request_check(&q, sizeof(q), &e), 0);
}

TEST(unknown_operation_is_no_request)
{
	struct st_req q = req(ST_OP_MAX_);
	struct err e = { 0 };

	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
	q = req(0);
	T_INT(request_check(&q, sizeof(q), &e), -EBADMSG);
	T_INT(request_check(&q, sizeof(q) - 1, &e), -EBADMSG);
}

TEST(bad_name_is_answered_not_cut_off)
{
	struct st_req q = req(ST_OVERLAY_NEW);
	struct err e = { 0 };

	snprintf(q.name, sizeof(q.name), "../x");
	T_INT(request_check(&q, sizeof(q), &e), -EINVAL);
	T_HAS(e.msg, "[a-z0-9_.-]");
}

TEST(commit_may_leave_the_digest_out)
{
	struct st_req q = req(ST_DRAFT_COMMIT);
	struct err e = { 0 };

	T_INT(request_check(&q, sizeof(q), &e), 0);
	snprintf(q.digest, sizeof(q.digest), "abc");
	T_INT(request_check(&q, sizeof(q), &e), -EINVAL);
}
