/* SPDX-License-Identifier: Apache-2.0 */
#include "base/user.h"

#include "base/test.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "# a comment\n"
			     "\n"
			     "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
			     "short:x:5\n"
			     "bad:x:minus:5:::\n"
			     "nohome:x:7:7:::\n"
			     "1000:x:2000:2000::/n:/s\n"
			     "huge:x:4294967295:1::/:/\n"
			     "many:x:9:9::/:/bin/sh:extra\n"
			     "last:x:1000:100::/home/last:/bin/zsh";

static const char group[] = "root:x:0:\n"
			    "video:x:44:daemon,last\n"
			    "broken:x:\n"
			    "audio:x:29:lastly,last\n"
			    "users:x:100:\n"
			    "docker:x:999:la";

static int find(const char *key, struct user *u)
{
	return user_find(passwd, strlen(passwd), key, u);
}

TEST(user_by_name)
{
	struct user u;

	T_INT(find("daemon", &u), 0);
	T_INT(u.uid, 1);
	T_STR(u.home, "/usr/sbin");
	T_STR(u.shell, "/usr/sbin/nologin");
	T_INT(find("last", &u), 0);
	T_INT(u.uid, 1000);
	T_INT(u.gid, 100);
	T_STR(u.shell, "/bin/zsh");
}

TEST(user_by_number_but_a_name_wins)
{
	struct user u;

	T_INT(find("1", &u), 0);
	T_STR(u.name, "daemon");
	T_INT(find("1000", &u), 0); /* somebody is called that */
	T_INT(u.uid, 2000);
	T_INT(user_find_uid(passwd, strlen(passwd), 1000, &u), 0);
	T_STR(u.name, "last");
}

TEST(user_empty_home_and_shell_have_defaults)
{
	struct user u;

	T_INT(find("nohome", &u), 0);
	T_STR(u.home, "/");
	T_STR(u.shell, "/bin/sh");
}

TEST(user_malformed_lines_are_skipped)
{
	struct user u;

	T_INT(find("short", &u), -ENOENT);
	T_INT(find("bad", &u), -ENOENT);
	T_INT(find("many", &u), -ENOENT);
	T_INT(find("huge", &u), -ENOENT); /* -1 is "no change" */
	T_INT(find("4294967295", &u), -ENOENT);
	T_INT(find("# a comment", &u), -ENOENT);
}

TEST(user_keys_that_are_no_names)
{
	struct user u;

	T_INT(find("", &u), -EINVAL);
	T_INT(find("root:x", &u), -EINVAL);
	T_INT(find("../root", &u), -EINVAL);
	T_INT(find("roo", &u), -ENOENT);
	T_INT(find("-1", &u), -ENOENT);
}

TEST(user_text_may_be_empty)
{
	struct user u;
	gid_t g;

	T_INT(user_find("", 0, "root", &u), -ENOENT);
	T_INT(user_find_uid(NULL, 0, 0, &u), -ENOENT);
	T_INT(group_find(NULL, 0, "root", &g), -ENOENT);
}

TEST(group_by_name_and_number)
{
	gid_t g = 0;

	T_INT(group_find(group, strlen(group), "video", &g), 0);
	T_INT(g, 44);
	T_INT(group_find(group, strlen(group), "29", &g), 0);
	T_INT(g, 29);
	T_INT(group_find(group, strlen(group), "broken", &g), -ENOENT);
	T_INT(group_find(group, strlen(group), "30", &g), -ENOENT);
}

TEST(user_supplementary_groups)
{
	gid_t g[4];

	T_INT(user_find_groups(group, strlen(group), "last", g, 4), 2);
	T_INT(g[0], 44);
	T_INT(g[1], 29);
	T_INT(user_find_groups(group, strlen(group), "last", g, 1), 1);
	T_INT(user_find_groups(group, strlen(group), "la", g, 4), 1);
	T_INT(user_find_groups(group, strlen(group), "root", g, 4), 0);
}

TEST(user_lookup_on_this_system)
{
	struct err e = { 0 };
	struct user u;
	uid_t uid = 1;
	gid_t gid = 1;

	T_INT(user_lookup("root", &uid, &gid, &e), 0);
	T_INT(uid, 0);
	T_INT(gid, 0);
	T_INT(user_lookup_uid(0, &u, &e), 0);
	T_STR(u.name, "root");
	T_INT(group_lookup("root", &gid, &e), 0);
	T_INT(user_lookup("no-such-user", &uid, NULL, &e), -ENOENT);
	T_STR(e.msg, "no user \"no-such-user\" in /etc/passwd");
	T_INT(e.kind, ERR_NOT_FOUND);
}
