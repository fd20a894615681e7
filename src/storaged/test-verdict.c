/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/verdict.h"

#include "base/test.h"

static struct stat some(void)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	st.st_dev = 1;
	st.st_ino = 2;
	st.st_size = 3;
	st.st_mtim.tv_nsec = 4;
	st.st_ctim.tv_nsec = 5;
	return st;
}

TEST(verdict_holds_while_nothing_changed)
{
	struct stat st = some();
	struct verdict v = verdict_of(&st);

	T_TRUE(verdict_holds(&v, &st));
}

TEST(each_change_ends_it)
{
	struct stat st = some(), other;
	struct verdict v = verdict_of(&st);

	other = st;
	other.st_dev++;
	T_TRUE(!verdict_holds(&v, &other));
	other = st;
	other.st_ino++;
	T_TRUE(!verdict_holds(&v, &other));
	other = st;
	other.st_size++;
	T_TRUE(!verdict_holds(&v, &other));
	other = st;
	other.st_mtim.tv_nsec++;
	T_TRUE(!verdict_holds(&v, &other));
	other = st;
	other.st_ctim.tv_nsec++;
	T_TRUE(!verdict_holds(&v, &other));
}

TEST(record_of_another_length_is_none)
{
	struct stat st = some();
	struct verdict v = verdict_of(&st), got;

	T_TRUE(verdict_decode(&v, sizeof(v), &got));
	T_TRUE(!verdict_decode(&v, sizeof(v) - 1, &got));
	T_TRUE(!verdict_decode(&v, 0, &got));
}

TEST(record_without_magic_is_none)
{
	struct stat st = some();
	struct verdict v = verdict_of(&st), got;

	v.magic++;
	T_TRUE(!verdict_decode(&v, sizeof(v), &got));
}
