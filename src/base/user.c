/* SPDX-License-Identifier: Apache-2.0 */
#include "base/user.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"

#define FILE_MAX   (4u << 20)
#define FIELDS_MAX 7

/* The next line of *left without its end. */
static bool next_line(struct view *left, struct view *ret)
{
	const char *end;

	if (left->n == 0)
		return false;
	end = memchr(left->p, '\n', left->n);
	ret->p = left->p;
	ret->n = end ? (size_t)(end - left->p) : left->n;
	left->p += ret->n + (end != NULL);
	left->n -= ret->n + (end != NULL);
	return true;
}

/* Cut a line at its colons; returns the number of fields, max + 1 if there are
 * more than max. */
static size_t cut(struct view line, struct view *fields, size_t max)
{
	size_t n = 0;

	for (;;) {
		const char *c = line.n ? memchr(line.p, ':', line.n) : NULL;

		if (n == max)
			return n + 1;
		fields[n].p = line.p;
		fields[n].n = c ? (size_t)(c - line.p) : line.n;
		n++;
		if (!c)
			return n;
		line.n -= (size_t)(c + 1 - line.p);
		line.p = c + 1;
	}
}

/* (uid_t)-1 means "no change" to the kernel and must not get through. */
static bool number(struct view v, uint32_t *ret)
{
	char s[16];
	int64_t x;

	if (v.n == 0 || v.n >= sizeof(s) || v.p[0] == '-')
		return false;
	memcpy(s, v.p, v.n);
	s[v.n] = 0;
	if (strlen(s) != v.n || !text_int(s, 0, UINT32_MAX - 1, &x))
		return false;
	*ret = (uint32_t)x;
	return true;
}

static bool copy(struct view v, const char *otherwise, char *ret, size_t size)
{
	if (v.n == 0 && otherwise)
		v = view_of(otherwise);
	if (v.n == 0 || v.n >= size || memchr(v.p, 0, v.n))
		return false;
	memcpy(ret, v.p, v.n);
	ret[v.n] = 0;
	return true;
}

static bool parse_user(struct view line, struct user *ret)
{
	struct view f[FIELDS_MAX];
	uint32_t uid, gid;

	if (cut(line, f, FIELDS_MAX) != FIELDS_MAX || !number(f[2], &uid) ||
	    !number(f[3], &gid))
		return false;
	ret->uid = uid;
	ret->gid = gid;
	return copy(f[0], NULL, ret->name, sizeof(ret->name)) &&
	       copy(f[5], "/", ret->home, sizeof(ret->home)) &&
	       copy(f[6], "/bin/sh", ret->shell, sizeof(ret->shell));
}

static bool is_name(const char *key)
{
	return *key && strlen(key) < USER_NAME_MAX && !strpbrk(key, ":\n/");
}

int user_find(const char *text, size_t n, const char *key, struct user *ret)
{
	struct view left = { text, n }, line;
	uint32_t uid;

	if (!is_name(key))
		return -EINVAL;
	while (next_line(&left, &line)) {
		struct user u;

		if (parse_user(line, &u) && strcmp(u.name, key) == 0) {
			*ret = u;
			return 0;
		}
	}
	if (number(view_of(key), &uid))
		return user_find_uid(text, n, uid, ret);
	return -ENOENT;
}

int user_find_uid(const char *text, size_t n, uid_t uid, struct user *ret)
{
	struct view left = { text, n }, line;

	while (next_line(&left, &line)) {
		struct user u;

		if (parse_user(line, &u) && u.uid == uid) {
			*ret = u;
			return 0;
		}
	}
	return -ENOENT;
}

static bool parse_group(struct view line, struct view *ret_name, gid_t *ret_gid,
			struct view *ret_members)
{
	struct view f[4];
	uint32_t gid;

	if (cut(line, f, 4) != 4 || f[0].n == 0 || !number(f[2], &gid))
		return false;
	*ret_name = f[0];
	*ret_gid = gid;
	*ret_members = f[3];
	return true;
}

int group_find(const char *text, size_t n, const char *key, gid_t *ret)
{
	struct view left = { text, n }, line, name, members;
	bool is_number;
	uint32_t wanted = 0;
	gid_t gid;

	if (!is_name(key))
		return -EINVAL;
	while (next_line(&left, &line)) {
		if (parse_group(line, &name, &gid, &members) &&
		    view_eq(name, key)) {
			*ret = gid;
			return 0;
		}
	}
	is_number = number(view_of(key), &wanted);
	left = (struct view){ text, n };
	while (is_number && next_line(&left, &line)) {
		if (parse_group(line, &name, &gid, &members) && gid == wanted) {
			*ret = gid;
			return 0;
		}
	}
	return -ENOENT;
}

static bool has_member(struct view members, const char *name)
{
	while (members.n) {
		const char *c = memchr(members.p, ',', members.n);
		struct view one = { members.p,
				    c ? (size_t)(c - members.p) : members.n };

		if (view_eq(one, name))
			return true;
		members.p += one.n + (c != NULL);
		members.n -= one.n + (c != NULL);
	}
	return false;
}

size_t user_find_groups(const char *text, size_t n, const char *name,
			gid_t *ret, size_t max)
{
	struct view left = { text, n }, line, group, members;
	size_t found = 0;
	gid_t gid;

	while (found < max && next_line(&left, &line)) {
		if (parse_group(line, &group, &gid, &members) &&
		    has_member(members, name))
			ret[found++] = gid;
	}
	return found;
}

int user_lookup(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	owned_str text = NULL;
	struct user u;
	size_t n;
	int r = file_read("/etc/passwd", FILE_MAX, &text, &n, e);

	if (r < 0)
		return r;
	if (user_find(text, n, name, &u) < 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no user \"%s\" in /etc/passwd", name);
	*ret_uid = u.uid;
	if (ret_gid)
		*ret_gid = u.gid;
	return 0;
}

int user_lookup_uid(uid_t uid, struct user *ret, struct err *e)
{
	owned_str text = NULL;
	size_t n;
	int r = file_read("/etc/passwd", FILE_MAX, &text, &n, e);

	if (r < 0)
		return r;
	if (user_find_uid(text, n, uid, ret) < 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no user with uid %u in /etc/passwd", uid);
	return 0;
}

int group_lookup(const char *name, gid_t *ret, struct err *e)
{
	owned_str text = NULL;
	size_t n;
	int r = file_read("/etc/group", FILE_MAX, &text, &n, e);

	if (r < 0)
		return r;
	if (group_find(text, n, name, ret) < 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no group \"%s\" in /etc/group", name);
	return 0;
}
