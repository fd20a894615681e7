/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Users and groups from the text of passwd(5) and group(5). No NSS: a static
 * program cannot load its modules, and a daemon with privileges must not run
 * code that a name service brings along. So directory users (LDAP, systemd's
 * dynamic ones) are unknown here; a number of the files always works.
 *
 * *_find* are pure: text in, answer out. Lines that are malformed are skipped.
 * *_lookup* read /etc/passwd and /etc/group (at most 4 MiB).
 */

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define USER_NAME_MAX 64
#define USER_PATH_MAX 256

struct user {
	char name[USER_NAME_MAX];
	uid_t uid;
	gid_t gid;
	char home[USER_PATH_MAX];  /* "/" if the file has none */
	char shell[USER_PATH_MAX]; /* "/bin/sh" if the file has none */
};

/* By name or, if there is none such, by number. 0, -ENOENT, or -EINVAL for a
 * key that can be no name. */
int user_find(const char *text, size_t n, const char *key, struct user *ret);
int user_find_uid(const char *text, size_t n, uid_t uid, struct user *ret);
int group_find(const char *text, size_t n, const char *key, gid_t *ret);
/* The groups that list the user as a member, at most max; returns how many. */
size_t user_find_groups(const char *text, size_t n, const char *name,
			gid_t *ret, size_t max);

/* Of this system. -ENOENT with *e: no user "x" in /etc/passwd. ret_gid may be
 * NULL. */
int user_lookup(const char *name, uid_t *ret_uid, gid_t *ret_gid,
		struct err *e);
int user_lookup_uid(uid_t uid, struct user *ret, struct err *e);
int group_lookup(const char *name, gid_t *ret, struct err *e);
