/* SPDX-License-Identifier: Apache-2.0 */

/* Lists and single entries. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "guestd/test-files_rig.h"
#include "net/json.h"

static json_t *answer;

static json_t *get(const char *call, const char *name, const char *query,
		   int status)
{
	struct err e = { 0 };

	json_decref(answer);
	answer = NULL;
	T_INT(file_call_with(call, "GET", name, query, NULL, NULL, 0), status);
	T_INT(json_parse(buf_data(&p.body), buf_len(&p.body), &answer, &e), 0);
	rig_reply_fini(&p);
	return answer;
}

static void folder(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(mkdir(path, 0755), 0);
}

static const char *str(const json_t *v, const char *key)
{
	const char *s = json_string_value(json_object_get(v, key));

	return s ? s : "(none)";
}

/* The names of a whole list, page by page, with one blank behind each. */
static char *names(const char *query, unsigned *pages)
{
	char *all = xstrdup(""), *next = xstrdup("");

	*pages = 0;
	do {
		owned_str q =
		    xasprintf("%s%s%s", query, *next ? "&after=" : "", next);
		json_t *v = get("files/list", "", q, 200);
		const json_t *items = json_object_get(v, "items");

		for (size_t i = 0; i < json_array_size(items); i++) {
			char *more =
			    xasprintf("%s%s ", all,
				      str(json_array_get(items, i), "name"));

			free(all);
			all = more;
		}
		free(next);
		next = xstrdup(json_is_null(json_object_get(v, "next"))
				   ? ""
				   : str(v, "next"));
		(*pages)++;
	} while (*next && *pages < 1000);
	free(next);
	return all;
}

TEST(entries_are_sorted_by_bytes)
{
	owned_str all = NULL;
	unsigned pages;

	guest_up(&r);
	make_file("b", "");
	make_file("B", "");
	make_file("a", "");
	make_file("10", "");
	make_file("2", "");
	all = names("", &pages);
	T_STR(all, "10 2 B a b ");
	T_INT(pages, 1);
	rig_fini(&r);
}

TEST(depth_first_and_no_deeper)
{
	owned_str one = NULL;
	owned_str two = NULL;
	owned_str three = NULL;
	unsigned pages;

	folder("d");
	folder("d/e");
	make_file("d/e/f", "");
	make_file("d/a", "");
	make_file("c", "");
	make_file("z", "");
	guest_up(&r);
	one = names("", &pages);
	T_STR(one, "c d z ");
	two = names("&depth=2", &pages);
	T_STR(two, "c d a e z ");
	three = names("&depth=3", &pages);
	T_STR(three, "c d a e f z ");
	rig_fini(&r);
}

TEST(pages_hold_everything_once)
{
	owned_str whole = NULL;
	unsigned pages;

	for (int i = 0; i < 5; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d%d", i);
		folder(name);
		for (int k = 0; k < 4; k++) {
			snprintf(name, sizeof(name), "d%d/f%d", i, k);
			make_file(name, "");
		}
	}
	guest_up(&r);
	whole = names("&depth=2", &pages);
	T_INT(pages, 1);
	for (int limit = 1; limit < 8; limit++) {
		char query[40];
		owned_str paged = NULL;

		snprintf(query, sizeof(query), "&depth=2&limit=%d", limit);
		paged = names(query, &pages);
		T_STR(paged, whole);
		T_INT(pages, (25 + limit - 1) / limit);
	}
	rig_fini(&r);
}

TEST(page_goes_on_after_what_was_deleted)
{
	owned_str next = NULL;
	owned_str query = NULL;
	owned_str b = in_tmp("b");

	make_file("a", "");
	make_file("b", "");
	make_file("c", "");
	guest_up(&r);
	next = xstrdup(str(get("files/list", "", "&limit=2", 200), "next"));
	T_INT(unlink(b), 0);
	query = xasprintf("&after=%s", next);
	T_STR(
	    str(json_array_get(
		    json_object_get(get("files/list", "", query, 200), "items"),
		    0),
		"name"),
	    "c");
	rig_fini(&r);
}

TEST(names_of_any_byte)
{
	owned_str path = in_tmp("\xff\n");
	const json_t *v;

	T_INT(symlink("\xfe", path), 0);
	guest_up(&r);
	v = json_array_get(
	    json_object_get(get("files/list", "", "", 200), "items"), 0);
	T_STR(str(v, "name_b64"), "/wo=");
	T_STR(str(v, "name"), "(none)");
	T_STR(str(v, "target_b64"), "/g==");
	T_TRUE(json_is_string(json_object_get(v, "path_b64")));
	rig_fini(&r);
}

TEST(links_are_entries_and_not_ways)
{
	owned_str path = in_tmp("l");
	owned_str all = NULL;
	unsigned pages;

	T_INT(symlink("/etc", path), 0);
	guest_up(&r);
	all = names("&depth=5", &pages);
	T_STR(all, "l ");
	rig_fini(&r);
}

TEST(what_is_no_folder)
{
	make_file("f", "");
	guest_up(&r);
	T_INT(file_status("files/list", "GET", "f", ""), 409);
	T_INT(file_status("files/list", "GET", "none", ""), 404);
	rig_fini(&r);
}

TEST(queries_of_lists_are_checked)
{
	guest_up(&r);
	T_INT(file_status("files/list", "GET", "", "&depth=0"), 400);
	T_INT(file_status("files/list", "GET", "", "&depth=65"), 400);
	T_INT(file_status("files/list", "GET", "", "&limit=1001"), 400);
	T_INT(file_status("files/list", "GET", "", "&limit=x"), 400);
	T_INT(file_status("files/list", "GET", "", "&after=Li4"), 400);
	rig_fini(&r);
}

TEST(large_pages_end_in_time)
{
	unsigned pages;
	owned_str all = NULL;
	char name[260];

	for (int i = 0; i < 999; i++) {
		memset(name, '\x01', 200);
		snprintf(name + 200, 16, "%d", i);
		make_file(name, "");
	}
	guest_up(&r);
	all = names("&limit=1000", &pages);
	/* 999 names of 200 bytes that JSON writes in six each, twice */
	T_TRUE(pages > 1);
	T_INT(strlen(all), 999 * 201 + 10 + 2 * 90 + 3 * 899);
	rig_fini(&r);
}

TEST(stat_of_a_file)
{
	const json_t *v;

	make_file("f", "hello");
	guest_up(&r);
	v = get("files/stat", "f", "", 200);
	T_STR(str(v, "name"), "f");
	T_STR(str(v, "type"), "file");
	T_STR(str(v, "mode"), "0644");
	T_INT(json_integer_value(json_object_get(v, "size")), 5);
	T_STR(str(v, "user"), "root");
	T_STR(str(v, "group"), "root");
	T_INT(strlen(str(v, "mtime")), 24);
	T_TRUE(str(v, "etag")[0] == '"');
	rig_fini(&r);
}

TEST(stat_follows_unless_told)
{
	owned_str path = in_tmp("l");

	make_file("f", "hello");
	T_INT(symlink("f", path), 0);
	guest_up(&r);
	T_STR(str(get("files/stat", "l", "", 200), "type"), "file");
	T_STR(str(get("files/stat", "l", "&follow=0", 200), "type"), "symlink");
	T_STR(str(answer, "target"), "f");
	T_INT(file_status("files/stat", "GET", "l", "&follow=2"), 400);
	rig_fini(&r);
}

TEST(stat_of_a_fifo_opens_nothing)
{
	owned_str path = in_tmp("fifo");

	T_INT(mkfifo(path, 0600), 0);
	guest_up(&r);
	T_STR(str(get("files/stat", "fifo", "", 200), "type"), "fifo");
	rig_fini(&r);
}
