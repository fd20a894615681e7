/* SPDX-License-Identifier: Apache-2.0 */

/* Making, moving and removing. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-files_rig.h"

static bool is_there(const char *name)
{
	owned_str path = in_tmp(name);
	struct stat st;

	return lstat(path, &st) == 0;
}

static void folder(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(mkdir(path, 0755), 0);
}

static int move(const char *from, const char *to, const char *more)
{
	owned_str query = xasprintf("&to=%s/%s%s", test_tmpdir(), to, more);

	return file_status("files/move", "POST", from, query);
}

TEST(folder_is_made)
{
	owned_str path = in_tmp("d");
	struct stat st;

	guest_up(&r);
	T_INT(file_status("files/mkdir", "POST", "d", "&mode=0700&owner=5"),
	      201);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0700);
	T_INT(st.st_uid, 5);
	rig_fini(&r);
}

TEST(folder_that_is_there)
{
	guest_up(&r);
	folder("d");
	make_file("f", "");
	T_INT(file_call_with("files/mkdir", "POST", "d", "", NULL, NULL, 0),
	      409);
	T_STR(error_code(&p), "name_taken");
	rig_reply_fini(&p);
	T_INT(file_status("files/mkdir", "POST", "d", "&parents=1"), 200);
	T_INT(file_status("files/mkdir", "POST", "f", "&parents=1"), 409);
	rig_fini(&r);
}

TEST(folders_above_are_made_when_told)
{
	guest_up(&r);
	T_INT(file_status("files/mkdir", "POST", "a/b/c", ""), 404);
	T_INT(file_status("files/mkdir", "POST", "a/b/c", "&parents=1"), 201);
	T_TRUE(is_there("a/b/c"));
	rig_fini(&r);
}

TEST(move_is_a_rename)
{
	guest_up(&r);
	make_file("f", "x");
	T_INT(move("f", "g", ""), 200);
	T_TRUE(!is_there("f"));
	T_STR(content_of("g"), "x");
	rig_fini(&r);
}

TEST(move_replaces_only_when_told)
{
	guest_up(&r);
	make_file("f", "new");
	make_file("g", "old");
	T_INT(move("f", "g", ""), 409);
	T_STR(content_of("g"), "old");
	T_INT(move("f", "g", "&replace=1"), 200);
	T_STR(content_of("g"), "new");
	rig_fini(&r);
}

TEST(move_moves_links_themselves)
{
	owned_str link = in_tmp("l");

	guest_up(&r);
	make_file("f", "x");
	T_INT(symlink("f", link), 0);
	T_INT(move("l", "m", ""), 200);
	T_TRUE(is_there("f") && is_there("m") && !is_there("l"));
	rig_fini(&r);
}

TEST(move_of_nothing)
{
	guest_up(&r);
	T_INT(move("f", "g", ""), 404);
	folder("d");
	T_INT(move("d", "d/e", ""), 400);
	T_INT(move("d", ".", ""), 400);
	rig_fini(&r);
}

static void other_disk(const char *name)
{
	owned_str path = in_tmp(name);

	folder(name);
	if (mount("none", path, "tmpfs", 0, "size=1m") < 0)
		test_skip("may not mount");
}

static void no_other_disk(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(umount2(path, MNT_DETACH), 0);
}

TEST(move_to_another_file_system)
{
	owned_str fifo = in_tmp("d/fifo");
	owned_str link = in_tmp("d/l");
	owned_str file = in_tmp("disk/d/f");
	struct stat st;

	other_disk("disk");
	guest_up(&r);
	folder("d");
	make_file("d/f", "content");
	T_INT(mkfifo(fifo, 0600), 0);
	T_INT(symlink("f", link), 0);
	T_INT(move("d", "disk/d", ""), 200);
	T_TRUE(!is_there("d"));
	T_STR(content_of("disk/d/l"), "content");
	T_TRUE(is_there("disk/d/fifo"));
	T_INT(stat(file, &st), 0);
	T_INT(st.st_mode & 07777, 0644);
	T_INT(move("disk/d", "d", ""), 200);
	T_STR(content_of("d/f"), "content");
	rig_fini(&r);
	no_other_disk("disk");
}

TEST(move_to_a_full_file_system_changes_nothing)
{
	size_t n = 2u << 20;
	owned_str text = xcalloc(1, n + 1);

	memset(text, 'x', n);
	other_disk("disk");
	guest_up(&r);
	make_file("f", text);
	T_INT(move("f", "disk/f", ""), 507);
	T_TRUE(is_there("f"));
	T_INT(file_call_with("files/list", "GET", "disk", "", NULL, NULL, 0),
	      200);
	T_HAS(buf_cstr(&p.body), "\"items\":[]");
	rig_reply_fini(&p);
	rig_fini(&r);
	no_other_disk("disk");
}

TEST(tree_is_removed_when_told)
{
	guest_up(&r);
	folder("d");
	folder("d/e");
	make_file("d/e/f", "");
	T_INT(file_call_with("files", "DELETE", "d", "", NULL, NULL, 0), 409);
	T_HAS(buf_cstr(&p.body), "recursive=1");
	rig_reply_fini(&p);
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 204);
	T_TRUE(!is_there("d"));
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 404);
	rig_fini(&r);
}

TEST(removing_follows_no_link)
{
	owned_str in = in_tmp("d/l");
	owned_str top = in_tmp("top");

	guest_up(&r);
	folder("keep");
	make_file("keep/f", "x");
	folder("d");
	T_INT(symlink("../keep", in), 0);
	T_INT(symlink("keep", top), 0);
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 204);
	T_INT(file_status("files", "DELETE", "top", "&recursive=1"), 204);
	T_TRUE(!is_there("top"));
	T_STR(content_of("keep/f"), "x");
	rig_fini(&r);
}

/* mkdir -p of many levels, one by one: the whole path is longer than any */
static void deep(const char *name, int levels)
{
	owned_str top = in_tmp(name);
	int at;

	T_INT(mkdir(top, 0755), 0);
	at = open(top, O_PATH | O_CLOEXEC);
	for (int i = 0; i < levels; i++) {
		int next;

		T_INT(mkdirat(at, "dddddddd", 0755), 0);
		next = openat(at, "dddddddd", O_PATH | O_CLOEXEC);
		T_TRUE(next >= 0);
		fd_close(at);
		at = next;
	}
	fd_close(at);
}

TEST(tree_of_3000_levels_is_removed)
{
	guest_up(&r);
	deep("d", 3000);
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 204);
	T_TRUE(!is_there("d"));
	rig_fini(&r);
}

TEST(tree_of_many_files_is_removed)
{
	owned_str path = in_tmp("d");
	owned_fd dir = -1;
	char name[32];

	guest_up(&r);
	folder("d");
	dir = open(path, O_PATH | O_CLOEXEC);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		T_INT(mknodat(dir, name, S_IFREG | 0644, 0), 0);
	}
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 204);
	T_TRUE(!is_there("d"));
	rig_fini(&r);
}

TEST(mount_point_is_not_entered)
{
	guest_up(&r);
	folder("d");
	other_disk("d/disk");
	make_file("d/disk/f", "x");
	T_INT(file_status("files", "DELETE", "d", "&recursive=1"), 409);
	T_STR(content_of("d/disk/f"), "x");
	no_other_disk("d/disk");
	rig_fini(&r);
}

TEST(root_is_not_deleted)
{
	guest_up(&r);
	T_INT(rig_call(&r, &p, "DELETE", "/v1/files?path=/&recursive=1", NULL),
	      400);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "DELETE", "/v1/files?path=/tmp/..", NULL), 400);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "POST", "/v1/files", NULL), 405);
	rig_reply_fini(&p);
	rig_fini(&r);
}
