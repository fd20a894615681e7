/* SPDX-License-Identifier: Apache-2.0 */

/* Changes as they are told, and what the kernel's bytes mean. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "guestd/test-files_rig.h"
#include "guestd/watch.h"
#include "net/json.h"

static struct rig_reply w;

static void start_watch(const char *name, const char *query)
{
	owned_str path =
	    xasprintf("/v1/watch?path=%s/%s%s", test_tmpdir(), name, query);

	rig_start(&r, &w, "GET", path, NULL, NULL, 0);
	for (int i = 0; i < 3000 && !w.closed; i++) {
		if (strstr(buf_cstr(&w.body), "ready"))
			return;
		rig_run(&r, 10, &w.closed);
	}
	T_HAS(buf_cstr(&w.body), "ready");
}

/* Until a line {type, path in the test's folder} came. */
static bool told(const char *type, const char *name)
{
	owned_str path = in_tmp(name);
	owned_str text = xasprintf("{\"type\":\"%s\",\"path\":\"%s\"", type,
				   *name ? path : test_tmpdir());

	for (int i = 0; i < 1000; i++) {
		if (strstr(buf_cstr(&w.body), text))
			return true;
		if (w.closed)
			return false;
		rig_run(&r, 10, NULL);
	}
	printf("# no %s in: %.2000s\n", text, buf_cstr(&w.body));
	return false;
}

static unsigned count(const char *text)
{
	unsigned n = 0;

	for (const char *at = buf_cstr(&w.body); (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void folder(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(mkdir(path, 0755), 0);
}

static void rename_in(const char *from, const char *to)
{
	owned_str a = in_tmp(from);
	owned_str b = in_tmp(to);

	T_INT(rename(a, b), 0);
}

static void end_watch(void)
{
	rig_reply_fini(&w);
	rig_fini(&r);
}

TEST(changes_of_a_file)
{
	owned_str path = in_tmp("f");

	guest_up(&r);
	start_watch("", "");
	make_file("f", "x");
	T_TRUE(told("create", "f"));
	T_TRUE(told("write", "f"));
	T_INT(chmod(path, 0600), 0);
	T_TRUE(told("attrib", "f"));
	T_INT(unlink(path), 0);
	T_TRUE(told("remove", "f"));
	end_watch();
}

TEST(renames_are_pairs)
{
	guest_up(&r);
	make_file("a", "x");
	start_watch("", "");
	rename_in("a", "b");
	T_TRUE(told("rename", "a"));
	T_HAS(buf_cstr(&w.body), "\"to\":");
	T_INT(count("\"create\""), 0);
	T_INT(count("\"remove\""), 0);
	end_watch();
}

TEST(renames_across_the_border)
{
	guest_up(&r);
	folder("in");
	make_file("in/a", "x");
	make_file("b", "x");
	start_watch("in", "");
	rename_in("in/a", "a");
	T_TRUE(told("remove", "in/a"));
	rename_in("b", "in/b");
	T_TRUE(told("create", "in/b"));
	end_watch();
}

TEST(folders_below_are_watched)
{
	guest_up(&r);
	folder("d");
	folder("d/e");
	start_watch("", "&recursive=1");
	make_file("d/e/f", "x");
	T_TRUE(told("create", "d/e/f"));
	end_watch();
}

TEST(folders_below_are_not_watched_unless_told)
{
	guest_up(&r);
	folder("d");
	start_watch("", "");
	make_file("d/f", "x");
	make_file("end", "x");
	T_TRUE(told("create", "end"));
	T_INT(count("d/f"), 0);
	end_watch();
}

TEST(new_folders_are_watched_from_their_start)
{
	char name[64];

	guest_up(&r);
	start_watch("", "&recursive=1");
	/* each is made, filled and gone from our hands at once */
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		folder(name);
		snprintf(name, sizeof(name), "n%d/m", i);
		folder(name);
		snprintf(name, sizeof(name), "n%d/m/f", i);
		make_file(name, "x");
	}
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%d/m/f", i);
		T_TRUE(told("create", name));
	}
	T_INT(count("overflow"), 0);
	end_watch();
}

TEST(renamed_folder_is_known_by_its_new_name)
{
	guest_up(&r);
	folder("d");
	folder("d/e");
	start_watch("", "&recursive=1");
	rename_in("d", "x");
	T_TRUE(told("rename", "d"));
	make_file("x/e/f", "x");
	T_TRUE(told("create", "x/e/f"));
	end_watch();
}

TEST(folder_that_left_is_watched_no_more)
{
	guest_up(&r);
	folder("in");
	folder("in/d");
	start_watch("in", "&recursive=1");
	rename_in("in/d", "out");
	T_TRUE(told("remove", "in/d"));
	make_file("out/f", "x");
	make_file("in/end", "x");
	T_TRUE(told("create", "in/end"));
	T_INT(count("/f\""), 0);
	end_watch();
}

TEST(end_of_the_watched)
{
	owned_str path = in_tmp("d");

	guest_up(&r);
	folder("d");
	start_watch("d", "");
	T_INT(rmdir(path), 0);
	T_TRUE(rig_finish(&w));
	T_TRUE(!w.cut);
	T_INT(count("{\"type\":\"gone\"}"), 1);
	rig_reply_fini(&w);
	rig_fini(&r);
}

TEST(one_file_is_watched)
{
	guest_up(&r);
	make_file("f", "x");
	start_watch("f", "");
	make_file("f", "xy");
	T_TRUE(told("write", "f"));
	end_watch();
}

TEST(our_own_writes_show_as_writes)
{
	guest_up(&r);
	make_file("f", "old");
	start_watch("", "");
	T_INT(file_call_with("files", "PUT", "f", "", NULL, "new", 3), 200);
	rig_reply_fini(&p);
	T_TRUE(told("write", "f"));
	T_INT(count(".caisson-tmp"), 0);
	end_watch();
}

TEST(ten_thousand_changes_are_told_or_owned_up_to)
{
	char name[64];
	bool last = false;

	guest_up(&r);
	start_watch("", "&recursive=1");
	w.body_max = 1000; /* a reader that does not read */
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make_file(name, "x");
	}
	rig_run(&r, 200, NULL);
	rig_take(&w, 0);
	for (int i = 0; i < 2000 && !last; i++) {
		last = strstr(buf_cstr(&w.body), "overflow") ||
		       count("\"create\"") >= 10000;
		if (!last)
			rig_run(&r, 50, NULL);
	}
	T_TRUE(last);
	/* and goes on */
	make_file("after", "x");
	T_TRUE(told("create", "after"));
	end_watch();
}

TEST(what_cannot_be_watched)
{
	owned_str path = in_tmp("fifo");

	T_INT(mkfifo(path, 0600), 0);
	guest_up(&r);
	T_INT(file_status("watch", "GET", "none", ""), 404);
	T_INT(file_status("watch", "GET", "fifo", ""), 409);
	T_INT(file_status("watch", "GET", "", "&recursive=yes"), 400);
	rig_fini(&r);
}

TEST(watchers_leave_room_for_files)
{
	struct rig_reply many[17];
	owned_str path = xasprintf("/v1/watch?path=%s", test_tmpdir());

	guest_up(&r);
	make_file("f", "x");
	for (int i = 0; i < 17; i++)
		rig_start(&r, &many[i], "GET", path, NULL, NULL, 0);
	T_TRUE(rig_finish(&many[16]));
	T_INT(many[16].status, 503);
	T_INT(file_status("files", "GET", "f", ""), 200);
	for (int i = 0; i < 17; i++)
		rig_reply_fini(&many[i]);
	rig_fini(&r);
}

/* ---- bytes ---- */

TEST(events_are_cut_out_exactly)
{
	uint8_t raw[2 * (sizeof(struct inotify_event) + 16)] = { 0 };
	struct inotify_event e = { .wd = 3, .mask = IN_CREATE, .len = 16 };
	struct watch_event out;
	size_t at = 0;

	memcpy(raw, &e, sizeof(e));
	memcpy(raw + sizeof(e), "name", 5);
	e.len = 0;
	memcpy(raw + sizeof(e) + 16, &e, sizeof(e));
	T_INT(watch_event_next(raw, 2 * sizeof(e) + 16, &at, &out), 1);
	T_STR(out.name, "name");
	T_INT(out.wd, 3);
	T_INT(watch_event_next(raw, 2 * sizeof(e) + 16, &at, &out), 1);
	T_STR(out.name, "");
	T_INT(watch_event_next(raw, 2 * sizeof(e) + 16, &at, &out), 0);
}

TEST(events_that_are_none)
{
	uint8_t raw[sizeof(struct inotify_event) + 16];
	struct inotify_event e = { .wd = 3, .len = 16 };
	struct watch_event out;
	size_t at = 0;

	memset(raw, 'x', sizeof(raw));
	memcpy(raw, &e, sizeof(e));
	/* a name without end, a cut head, a length beyond the bytes */
	T_INT(watch_event_next(raw, sizeof(raw), &at, &out), -EBADMSG);
	at = 0;
	T_INT(watch_event_next(raw, sizeof(e) - 1, &at, &out), -EBADMSG);
	at = 0;
	T_INT(watch_event_next(raw, sizeof(e) + 15, &at, &out), -EBADMSG);
}

static unsigned n_dropped;

static void drop(void *arg, int wd)
{
	(void)arg;
	(void)wd;
	n_dropped++;
}

TEST(folders_by_descriptor)
{
	struct watch_dirs s = { 0 };
	char name[32];

	for (int i = 1; i <= 1000; i++) {
		snprintf(name, sizeof(name), "d%d/x", i % 10);
		T_INT(watch_dirs_set(&s, i, name), 0);
	}
	T_STR(watch_dirs_get(&s, 503), "d3/x");
	watch_dirs_move(&s, "d3", "new", drop, NULL);
	T_STR(watch_dirs_get(&s, 503), "new/x");
	n_dropped = 0;
	watch_dirs_move(&s, "d4", NULL, drop, NULL);
	T_INT(n_dropped, 100);
	T_TRUE(watch_dirs_get(&s, 504) == NULL);
	watch_dirs_del(&s, 505);
	T_TRUE(watch_dirs_get(&s, 505) == NULL);
	T_INT(watch_dirs_set(&s, 505, "again"), 0);
	T_STR(watch_dirs_get(&s, 505), "again");
	watch_dirs_fini(&s);
}
