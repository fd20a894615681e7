/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "net/json.h"

static void clean_env(void)
{
	static const char *const names[] = {
		"CAISSON_CONFIG",   "CAISSON_CONTEXT", "CAISSON_URL",
		"CAISSON_DATA_URL", "CAISSON_KEY",     "SUDO_UID",
		"SUDO_GID",	    "XDG_CONFIG_HOME"
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
}

static void open_at(struct context_file *f, const char *name)
{
	struct err e = { 0 };
	owned_str path = xasprintf("%s/%s", test_tmpdir(), name);

	clean_env();
	setenv("CAISSON_CONFIG", path, 1);
	T_INT(context_locate(f, &e), 0);
	T_INT(context_load(f, &e), 0);
}

static void put(struct context_file *f, const char *name, bool current)
{
	struct context c = { .name = xstrdup(name),
			     .url = xstrdup("http://127.0.0.1:7700"),
			     .data_url = xstrdup("http://127.0.0.1:7710"),
			     .key = xstrdup("e2b_0123") };

	context_put(f, &c, current);
	context_fini(&c);
}

TEST(context_file_that_is_absent_is_empty)
{
	struct context_file f;
	struct context c;
	struct err e = { 0 };

	open_at(&f, "none.json");
	T_INT(context_get(&f, NULL, &c, &e), -ENOENT);
	T_HAS(e.msg, "caisson up");
	context_file_fini(&f);
}

TEST(context_survives_a_round_trip)
{
	struct context_file f, g;
	struct context c;
	struct err e = { 0 };

	open_at(&f, "deep/er/config.json");
	put(&f, "local", true);
	T_INT(context_save(&f, &e), 0);
	open_at(&g, "deep/er/config.json");
	T_INT(context_get(&g, NULL, &c, &e), 0);
	T_STR(c.name, "local");
	T_STR(c.data_url, "http://127.0.0.1:7710");
	T_STR(c.key, "e2b_0123");
	context_fini(&c);
	context_file_fini(&f);
	context_file_fini(&g);
}

TEST(context_file_is_for_its_owner_only)
{
	struct context_file f;
	struct stat st;
	struct err e = { 0 };

	open_at(&f, "config.json");
	put(&f, "local", true);
	T_INT(context_save(&f, &e), 0);
	T_INT(stat(f.path, &st), 0);
	T_INT(st.st_mode & 07777, 0600);
	context_file_fini(&f);
}

TEST(context_file_open_to_others_is_refused)
{
	struct context_file f;
	struct err e = { 0 };

	open_at(&f, "config.json");
	put(&f, "local", true);
	T_INT(context_save(&f, &e), 0);
	T_INT(chmod(f.path, 0644), 0);
	T_INT(context_load(&f, &e), -EPERM);
	T_HAS(e.msg, "chmod 600");
	context_file_fini(&f);
}

TEST(context_file_that_is_no_json_is_named)
{
	struct context_file f;
	struct err e = { 0 };

	open_at(&f, "config.json");
	T_INT(file_write_atomic(f.path, "{", 1, 0600, &e), 0);
	T_INT(context_load(&f, &e), -EINVAL);
	T_HAS(e.msg, "config.json");
	T_INT(file_write_atomic(f.path, "[]", 2, 0600, &e), 0);
	T_INT(context_load(&f, &e), -EINVAL);
	context_file_fini(&f);
}

TEST(context_of_another_name_is_found_and_a_missing_one_is_named)
{
	struct context_file f;
	struct context c;
	struct err e = { 0 };

	open_at(&f, "c.json");
	put(&f, "a", true);
	put(&f, "b", false);
	T_STR(context_current(&f), "a");
	T_INT(context_get(&f, "b", &c, &e), 0);
	context_fini(&c);
	T_INT(context_get(&f, "nope", &c, &e), -ENOENT);
	T_HAS(e.msg, "\"nope\"");
	context_file_fini(&f);
}

TEST(environment_overrides_single_values)
{
	struct context_file f;
	struct context c;
	struct err e = { 0 };

	open_at(&f, "c.json");
	put(&f, "a", true);
	setenv("CAISSON_KEY", "other", 1);
	setenv("CAISSON_DATA_URL", "http://10.0.0.1:1", 1);
	T_INT(context_get(&f, NULL, &c, &e), 0);
	T_STR(c.key, "other");
	T_STR(c.data_url, "http://10.0.0.1:1");
	T_STR(c.url, "http://127.0.0.1:7700");
	context_fini(&c);
	context_file_fini(&f);
}

TEST(environment_alone_is_a_context)
{
	struct context_file f;
	struct context c;
	struct err e = { 0 };

	open_at(&f, "none.json");
	setenv("CAISSON_URL", "http://127.0.0.1:1", 1);
	T_INT(context_get(&f, NULL, &c, &e), 0);
	T_STR(c.url, "http://127.0.0.1:1");
	context_fini(&c);
	context_file_fini(&f);
}

TEST(removing_the_current_context_moves_to_another)
{
	struct context_file f;

	open_at(&f, "c.json");
	put(&f, "a", true);
	put(&f, "b", false);
	T_TRUE(context_remove(&f, "a"));
	T_STR(context_current(&f), "b");
	T_TRUE(context_remove(&f, "b"));
	T_TRUE(!context_current(&f));
	T_TRUE(!context_remove(&f, "b"));
	context_file_fini(&f);
}

TEST(using_a_context_that_is_not_there_changes_nothing)
{
	struct context_file f;
	struct err e = { 0 };

	open_at(&f, "c.json");
	put(&f, "a", true);
	T_INT(context_use(&f, "zz", &e), -ENOENT);
	T_STR(context_current(&f), "a");
	context_file_fini(&f);
}

TEST(under_sudo_the_invoking_user_owns_the_file)
{
	struct context_file f;
	struct stat st;
	struct err e = { 0 };

	if (geteuid() != 0)
		test_skip("needs root");
	open_at(&f, "sub/c.json");
	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "12346", 1);
	context_file_fini(&f);
	T_INT(context_locate(&f, &e), 0);
	T_INT(context_load(&f, &e), 0);
	put(&f, "a", true);
	T_INT(context_save(&f, &e), 0);
	T_INT(stat(f.path, &st), 0);
	T_INT(st.st_uid, 12345);
	T_INT(st.st_gid, 12346);
	clean_env();
	context_file_fini(&f);
}

TEST(sudo_ids_that_are_no_numbers_are_not_believed)
{
	struct context_file f;
	struct err e = { 0 };

	clean_env();
	setenv("SUDO_UID", "12x", 1);
	setenv("SUDO_GID", "0", 1);
	T_INT(context_locate(&f, &e), 0);
	T_INT(f.uid, geteuid());
	clean_env();
	context_file_fini(&f);
}

TEST(context_names_are_words)
{
	T_TRUE(context_name_valid("local-2.x"));
	T_TRUE(!context_name_valid(""));
	T_TRUE(!context_name_valid("../x"));
	T_TRUE(!context_name_valid("-x"));
	T_TRUE(!context_name_valid("a b"));
}

TEST(context_urls_are_scheme_and_host)
{
	T_TRUE(context_url_valid("http://127.0.0.1:7700"));
	T_TRUE(context_url_valid("https://caisson.example.org"));
	T_TRUE(context_url_valid("http://[::1]:7700"));
	T_TRUE(!context_url_valid("ftp://x"));
	T_TRUE(!context_url_valid("http://"));
	T_TRUE(!context_url_valid("http://user@host"));
	T_TRUE(!context_url_valid("http://host/path"));
}
