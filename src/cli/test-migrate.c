/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate.h"

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

static struct migration mig(int version, const char *sha256)
{
	struct migration m = { .version = version };

	snprintf(m.file, sizeof(m.file), "%03d_x.sql", version);
	snprintf(m.sha256, sizeof(m.sha256), "%s", sha256);
	return m;
}

TEST(names_of_migrations)
{
	struct migration m;

	T_TRUE(migration_parse_name("001_init.sql", &m));
	T_INT(m.version, 1);
	T_STR(m.name, "init");
	T_TRUE(migration_parse_name("042_more_tables-2.sql", &m));
	T_INT(m.version, 42);
}

TEST(names_that_are_none)
{
	static const char *const bad[] = {
		"README.md",   "1_init.sql", "0001_init.sql",  "001init.sql",
		"001_.sql",    "001_a.sql~", "000_zero.sql",   "001_A.sql",
		"001_a b.sql", ".001_a.sql", "001_a.sql.orig", "",
	};
	struct migration m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		T_TRUE(!migration_parse_name(bad[i], &m));
}

TEST(files_are_put_in_order)
{
	struct migration v[] = { mig(3, "c"), mig(1, "a"), mig(2, "b") };
	struct migrations m = { v, 3 };
	struct err e = { 0 };

	T_INT(migrations_order(&m, &e), 0);
	T_INT(v[0].version, 1);
	T_INT(v[2].version, 3);
}

TEST(a_missing_number_is_refused)
{
	struct migration v[] = { mig(1, "a"), mig(3, "c") };
	struct migrations m = { v, 2 };
	struct err e = { 0 };

	T_INT(migrations_order(&m, &e), -EINVAL);
	T_HAS(e.msg, "002");
}

TEST(a_number_twice_is_refused)
{
	struct migration v[] = { mig(1, "a"), mig(1, "b") };
	struct migrations m = { v, 2 };
	struct err e = { 0 };

	T_INT(migrations_order(&m, &e), -EINVAL);
	T_HAS(e.msg, "same number");
}

TEST(no_files_is_an_error)
{
	struct migrations m = { 0 };
	struct err e = { 0 };

	T_INT(migrations_order(&m, &e), -ENOENT);
}

TEST(plan_applies_what_is_new)
{
	struct migration f[] = { mig(1, "a"), mig(2, "b"), mig(3, "c") };
	struct migration d[] = { mig(1, "a") };
	struct migrations files = { f, 3 }, done = { d, 1 };
	struct err e = { 0 };
	size_t n = 9;

	T_INT(migrations_plan(&files, &done, &n, &e), 0);
	T_INT(n, 1);
	done.n = 0;
	T_INT(migrations_plan(&files, &done, &n, &e), 0);
	T_INT(n, 0);
}

TEST(plan_refuses_a_changed_file)
{
	struct migration f[] = { mig(1, "a2"), mig(2, "b") };
	struct migration d[] = { mig(1, "a") };
	struct migrations files = { f, 2 }, done = { d, 1 };
	struct err e = { 0 };
	size_t n;

	T_INT(migrations_plan(&files, &done, &n, &e), -EINVAL);
	T_HAS(e.msg, "001_x.sql");
	T_HAS(e.msg, "never change");
}

TEST(plan_refuses_a_newer_database)
{
	struct migration f[] = { mig(1, "a") };
	struct migration d[] = { mig(1, "a"), mig(2, "b") };
	struct migrations files = { f, 1 }, done = { d, 2 };
	struct err e = { 0 };
	size_t n;

	T_INT(migrations_plan(&files, &done, &n, &e), -EINVAL);
	T_HAS(e.msg, "newer");
}

TEST(plan_refuses_a_database_with_a_hole)
{
	struct migration f[] = { mig(1, "a"), mig(2, "b") };
	struct migration d[] = { mig(2, "b") };
	struct migrations files = { f, 2 }, done = { d, 1 };
	struct err e = { 0 };
	size_t n;

	T_INT(migrations_plan(&files, &done, &n, &e), -EINVAL);
	T_HAS(e.msg, "001");
}

TEST(a_folder_is_read_with_digests)
{
	owned_str one = xasprintf("%s/001_a.sql", test_tmpdir());
	owned_str two = xasprintf("%s/002_b.sql", test_tmpdir());
	owned_str readme = xasprintf("%s/README.md", test_tmpdir());
	struct migrations m;
	struct err e = { 0 };

	T_INT(file_write_atomic(two, "x", 1, 0644, &e), 0);
	T_INT(file_write_atomic(one, "abc", 3, 0644, &e), 0);
	T_INT(file_write_atomic(readme, "x", 1, 0644, &e), 0);
	T_INT(migrations_load(&m, test_tmpdir(), &e), 0);
	T_INT(m.n, 2);
	T_STR(m.v[0].sha256, "ba7816bf8f01cfea414140de5dae2223"
			     "b00361a396177a9cb410ff61f20015ad");
	migrations_fini(&m);
}

TEST(a_folder_that_is_not_there_is_named)
{
	struct migrations m;
	struct err e = { 0 };

	T_INT(migrations_load(&m, "/nonexistent/sql", &e), -ENOENT);
	T_HAS(e.msg, "/nonexistent/sql");
}
