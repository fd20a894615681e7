/* SPDX-License-Identifier: Apache-2.0 */

/* Files of the machine: control groups, trees, logs, copies. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "cli/cg.h"
#include "cli/logfile.h"
#include "cli/storeclient.h"
#include "cli/tree.h"
#include "cli/upstatus.h"
#include "net/json.h"

static char *root_of(const char *mounts)
{
	return cg_find_root(mounts, strlen(mounts));
}

TEST(cgroup_root_on_a_unified_host)
{
	owned_str s = root_of("proc /proc proc rw 0 0\n"
			      "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");

	T_STR(s, "/sys/fs/cgroup");
}

TEST(cgroup_root_on_a_hybrid_host)
{
	owned_str s =
	    root_of("tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
		    "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"
		    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");

	T_STR(s, "/sys/fs/cgroup/unified");
}

TEST(cgroup_root_prefers_the_usual_place)
{
	owned_str s = root_of("c /mnt/x cgroup2 rw 0 0\n"
			      "c /sys/fs/cgroup cgroup2 rw 0 0\n"
			      "c /mnt/y cgroup2 rw 0 0");

	T_STR(s, "/sys/fs/cgroup");
}

TEST(no_cgroup_root_where_there_is_none)
{
	T_TRUE(!root_of(""));
	T_TRUE(!root_of("cgroup /sys/fs/cgroup/pids cgroup rw 0 0\n"));
	T_TRUE(!root_of("cgroup2\n\n cgroup2 \n"));
}

TEST(a_group_that_is_not_there_is_empty)
{
	struct err e = { 0 };

	T_TRUE(!cg_populated("/nonexistent/cg"));
	T_TRUE(!cg_has_pid("/nonexistent/cg", 1));
	T_TRUE(cg_wait_empty("/nonexistent/cg", 0));
	T_INT(cg_remove("/nonexistent/cg", &e), 0);
}

static void put(const char *path, const char *text)
{
	struct err e = { 0 };

	T_INT(file_write_atomic(path, text, strlen(text), 0644, &e), 0);
}

TEST(a_tree_is_removed_without_following_links)
{
	owned_str keep = xasprintf("%s/keep", test_tmpdir());
	owned_str kept = xasprintf("%s/file", keep);
	owned_str top = xasprintf("%s/top", test_tmpdir());
	owned_str deep = xasprintf("%s/a/b", top);
	owned_str file = xasprintf("%s/x", deep);
	owned_str link = xasprintf("%s/link", top);
	struct err e = { 0 };

	T_INT(mkdir_p(keep, 0755, &e), 0);
	T_INT(mkdir_p(deep, 0755, &e), 0);
	put(kept, "k");
	put(file, "f");
	T_INT(symlink(keep, link), 0);
	T_INT(tree_remove(top, &e), 0);
	T_TRUE(access(top, F_OK) < 0);
	T_INT(access(kept, F_OK), 0);
	T_INT(tree_remove(top, &e), 0); /* again is no error */
}

TEST(a_link_is_no_tree)
{
	owned_str keep = xasprintf("%s/keep", test_tmpdir());
	owned_str link = xasprintf("%s/link", test_tmpdir());
	struct err e = { 0 };

	T_INT(mkdir_p(keep, 0755, &e), 0);
	T_INT(symlink(keep, link), 0);
	T_TRUE(tree_remove(link, &e) < 0);
	T_INT(access(keep, F_OK), 0);
}

TEST(top_folders_are_never_removed)
{
	struct err e = { 0 };

	T_INT(tree_remove("/", &e), -EINVAL);
	T_INT(tree_remove("/nonexistent", &e), -EINVAL);
	T_INT(tree_remove("x/y", &e), -EINVAL);
	T_INT(tree_remove("/nonexistent/", &e), -EINVAL);
}

TEST(a_log_is_rotated_when_it_is_large_and_its_writer_goes_on)
{
	owned_str log = xasprintf("%s/x.log", test_tmpdir());
	owned_str old = xasprintf("%s.1", log);
	owned_str text = NULL;
	owned_fd fd =
	    open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	struct err e = { 0 };
	size_t n;

	T_INT(write_all(fd, "0123456789", 10), 0);
	T_INT(logfile_rotate(log, 10), 0);
	T_INT(logfile_rotate(log, 9), 1);
	T_INT(write_all(fd, "new", 3), 0);
	T_INT(file_read(log, 100, &text, &n, &e), 0);
	T_STR(text, "new");
	free(TAKE(text));
	T_INT(file_read(old, 100, &text, &n, &e), 0);
	T_STR(text, "0123456789");
}

TEST(the_tail_of_a_log_is_its_last_lines)
{
	owned_str log = xasprintf("%s/x.log", test_tmpdir());
	struct buf b;

	put(log, "one\ntwo\nthree\n");
	buf_init(&b, 0);
	T_INT(logfile_tail(log, 2, &b), 0);
	T_STR(buf_cstr(&b), "two\nthree\n");
	buf_clear(&b);
	T_INT(logfile_tail(log, 9, &b), 0);
	T_STR(buf_cstr(&b), "one\ntwo\nthree\n");
	buf_fini(&b);
	T_TRUE(logfile_tail("/nonexistent/log", 1, &b) < 0);
}

TEST(a_copy_keeps_its_holes_and_its_bytes)
{
	owned_str from = xasprintf("%s/from", test_tmpdir());
	owned_str to = xasprintf("%s/to", test_tmpdir());
	owned_fd a = open(from, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	owned_fd b = open(to, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	struct err e = { 0 };
	char got[4] = "";

	T_INT(pwrite(a, "head", 4, 0), 4);
	T_INT(pwrite(a, "mid!", 4, 8 << 20), 4);
	T_INT(ftruncate(a, 64 << 20), 0);
	T_INT(copy_sparse(a, b, NULL, NULL, &e), 0);
	T_INT(fstat(b, &st), 0);
	T_INT(st.st_size, 64 << 20);
	T_TRUE(st.st_blocks * 512 < 1 << 20);
	T_INT(pread(b, got, 4, 8 << 20), 4);
	T_TRUE(!memcmp(got, "mid!", 4));
}

static int stop_at_once(void *arg, uint64_t done, uint64_t total)
{
	int *calls = arg;

	(*calls)++;
	T_TRUE(done <= total);
	return 1;
}

TEST(a_copy_can_be_stopped)
{
	owned_str from = xasprintf("%s/from", test_tmpdir());
	owned_str to = xasprintf("%s/to", test_tmpdir());
	owned_fd a = -1;
	owned_fd b = open(to, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct err e = { 0 };
	int calls = 0;

	put(from, "abc");
	a = open(from, O_RDONLY | O_CLOEXEC);
	T_INT(copy_sparse(a, b, stop_at_once, &calls, &e), -ECANCELED);
	T_INT(calls, 1);
}

TEST(units_are_said_in_words)
{
	static const char text[] =
	    "{\"units\":[{\"name\":\"migrate\",\"state\":\"ready\","
	    "\"task\":true},{\"name\":\"noded\",\"state\":\"ready\"},"
	    "{\"name\":\"api\",\"state\":\"waiting\","
	    "\"last_end\":\"exit status 1\"}]}";
	owned_json v = NULL;
	struct err e = { 0 };
	struct buf b;

	T_INT(json_parse(text, sizeof(text) - 1, &v, &e), 0);
	buf_init(&b, 0);
	upstatus_units(v, &b);
	T_HAS(buf_cstr(&b), "noded ready");
	T_HAS(buf_cstr(&b), "api waiting (exit status 1)");
	T_TRUE(!strstr(buf_cstr(&b), "migrate"));
	buf_fini(&b);
}
