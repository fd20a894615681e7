/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "base/test.h"
#include "cli/copyspec.h"

static void is(const char *word, enum copy_place place, const char *sandbox,
	       const char *path)
{
	struct copyspec s;

	T_TRUE(copyspec_parse(word, &s));
	T_INT(s.place, place);
	if (sandbox)
		T_STR(s.sandbox, sandbox);
	if (path)
		T_STR(s.path, path);
	copyspec_fini(&s);
}

TEST(a_word_with_a_colon_is_of_a_sandbox)
{
	is("box:/work", COPY_SANDBOX, "box", "/work");
	is("box:a:b", COPY_SANDBOX, "box", "a:b");
}

TEST(a_path_is_of_this_machine)
{
	is("./a:b", COPY_HERE, NULL, "./a:b");
	is("/tmp/a:b", COPY_HERE, NULL, "/tmp/a:b");
	is("plain", COPY_HERE, NULL, "plain");
	is(":x", COPY_HERE, NULL, ":x");
}

TEST(a_dash_is_a_stream)
{
	is("-", COPY_STREAM, NULL, NULL);
}

TEST(a_sandbox_without_a_path_is_refused)
{
	struct copyspec s;

	T_TRUE(!copyspec_parse("box:", &s));
	copyspec_fini(&s);
	T_TRUE(!copyspec_parse("", &s));
	copyspec_fini(&s);
}

static void ends_at(const char *src, bool tree, const char *dest,
		    enum copy_there there, const char *want)
{
	const char *why = NULL;
	owned_str target = copy_target(src, tree, dest, there, &why);

	if (want)
		T_STR(target, want);
	else
		T_TRUE(!target && why);
}

TEST(file_to_a_new_name)
{
	ends_at("/a/f", false, "/b/g", COPY_ABSENT, "/b/g");
	ends_at("/a/f", false, "/b/g", COPY_FILE, "/b/g");
}

TEST(file_into_a_folder_that_is_there)
{
	ends_at("/a/f", false, "/b", COPY_FOLDER, "/b/f");
	ends_at("/a/f", false, "/b/", COPY_FOLDER, "/b/f");
	ends_at("f", false, "/", COPY_FOLDER, "/f");
}

TEST(file_into_a_folder_that_is_absent_is_refused)
{
	ends_at("/a/f", false, "/b/", COPY_ABSENT, NULL);
	ends_at("/a/f", false, "/b/", COPY_FILE, NULL);
}

TEST(tree_to_a_new_name_and_into_a_folder)
{
	ends_at("/a/t", true, "/b", COPY_ABSENT, "/b");
	ends_at("/a/t/", true, "/b/", COPY_ABSENT, "/b/");
	ends_at("/a/t/", true, "/b", COPY_FOLDER, "/b/t");
}

TEST(contents_of_a_tree_into_a_folder)
{
	ends_at("/a/t/.", true, "/b", COPY_FOLDER, "/b");
	ends_at(".", true, "/b", COPY_FOLDER, "/b");
	ends_at("/", true, "/b", COPY_FOLDER, "/b");
}

TEST(tree_over_a_file_is_refused)
{
	ends_at("/a/t", true, "/b", COPY_FILE, NULL);
}

TEST(stream_needs_a_name)
{
	ends_at("", false, "/b", COPY_FOLDER, NULL);
	ends_at("", false, "/b/x", COPY_ABSENT, "/b/x");
}

TEST(a_range_that_makes_no_sense_is_none)
{
	static const char *const bad[] = {
		"",
		"bytes",
		"bytes */5",
		"bytes 3-2/9",
		"bytes 0-9/9",
		"bytes 5-6/3",
		"bytes -1-2/3",
		"bytes 0-1/",
		"bytes 0-1/2x",
		"bytes 0-1/99999999999999999999",
		"lines 0-1/2",
	};
	uint64_t from = 7, all = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		T_TRUE(!copy_range(bad[i], &from, &all));
	T_TRUE(copy_range("bytes 3-8/9", &from, &all));
	T_INT((int)from, 3);
	T_INT((int)all, 9);
}
