/* SPDX-License-Identifier: Apache-2.0 */

/* One thing of the file system as JSON. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"
#include "guestd/list.h"
#include "guestd/list_entry.h"
#include "net/json.h"

#define TEXT_MAX   (4u << 20)
#define CACHED_MAX 64u

void list_set_bytes(void *v, const char *key, const char *text)
{
	size_t n = strlen(text);
	char name[40];
	owned_str b64 = NULL;

	if (text_utf8_prefix(text, n) == n) {
		json_set_take(v, key, json_stringn(text, n));
		return;
	}
	b64 = xcalloc(1, text_base64_len(n) + 1);
	text_base64(text, n, b64);
	snprintf(name, sizeof(name), "%s_b64", key);
	json_set_take(v, name, json_string(b64));
}

/* The name in a line `name:x:number:` of passwd or group. */
static void find_name(const char *text, unsigned id, char ret[USER_NAME_MAX])
{
	ret[0] = '\0';
	for (const char *line = text; line && *line;) {
		const char *end = strchr(line, '\n');
		const char *colon = strchr(line, ':');
		const char *second = colon ? strchr(colon + 1, ':') : NULL;
		char number[16];

		snprintf(number, sizeof(number), ":%u:", id);
		if (second && (!end || second < end) &&
		    strncmp(second, number, strlen(number)) == 0 &&
		    colon - line < USER_NAME_MAX && colon > line) {
			snprintf(ret, USER_NAME_MAX, "%.*s",
				 (int)(colon - line), line);
			return;
		}
		line = end ? end + 1 : NULL;
	}
}

struct names {
	bool loaded;
	char *text;
	unsigned n;
	struct {
		unsigned id;
		char name[USER_NAME_MAX];
	} known[CACHED_MAX];
};

static const char *name_of(struct names *s, const char *file, unsigned id)
{
	struct err e = { 0 };
	size_t n;
	unsigned at;

	for (unsigned i = 0; i < s->n; i++)
		if (s->known[i].id == id)
			return s->known[i].name;
	if (!s->loaded && file_read(file, TEXT_MAX, &s->text, &n, &e) < 0)
		s->text = NULL;
	s->loaded = true;
	at = s->n < CACHED_MAX ? s->n++ : id % CACHED_MAX;
	s->known[at].id = id;
	find_name(s->text, id, s->known[at].name);
	return s->known[at].name;
}

static void set_owner(json_t *v, const struct stat *st)
{
	/* for the life of this process, which is one call */
	static struct names users, groups;
	const char *user = name_of(&users, "/etc/passwd", st->st_uid);
	const char *group = name_of(&groups, "/etc/group", st->st_gid);

	json_set_take(v, "uid", json_integer(st->st_uid));
	json_set_take(v, "gid", json_integer(st->st_gid));
	if (*user)
		json_set_take(v, "user", json_str_lossy(user, strlen(user)));
	if (*group)
		json_set_take(v, "group", json_str_lossy(group, strlen(group)));
}

static const char *type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "dir";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFBLK:
		return "block";
	default:
		return "char";
	}
}

json_t *list_entry(int dir, const char *file, const char *name,
		   const char *path, const struct stat *st)
{
	json_t *v = json_object();
	char mode[8], time[25], target[FILE_PATH_MAX];
	ssize_t n;

	list_set_bytes(v, "name", name);
	list_set_bytes(v, "path", path);
	json_set_take(v, "type", json_string(type_of(st->st_mode)));
	json_set_take(v, "size", json_integer((json_int_t)st->st_size));
	snprintf(mode, sizeof(mode), "%04o", st->st_mode & 07777u);
	json_set_take(v, "mode", json_string(mode));
	set_owner(v, st);
	text_rfc3339(st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000,
		     time);
	json_set_take(v, "mtime", json_string(time));
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, file, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (n >= 0)
			list_set_bytes(v, "target", target);
	}
	return v;
}

/* The last part of a path as it was written. */
static const char *last_part(const char *path, char buf[FILE_PATH_MAX])
{
	size_t n;
	char *slash;

	snprintf(buf, FILE_PATH_MAX, "%s", path);
	n = strlen(buf);
	while (n > 1 && buf[n - 1] == '/')
		buf[--n] = '\0';
	slash = strrchr(buf, '/');
	return slash && slash[1] ? slash + 1 : buf;
}

static int answer(struct file_ctx *c, int status, int dir, const char *file,
		  const char *path, int flags)
{
	char buf[FILE_PATH_MAX], etag[FILE_ETAG_MAX];
	struct stat st;
	json_t *v;

	if (fstatat(dir, file, &st, flags) < 0)
		return filework_refuse(c, errno, "path", "cannot look at",
				       path);
	v = list_entry(dir, file, last_part(path, buf), path, &st);
	if (S_ISREG(st.st_mode)) {
		filework_settle(&st);
		file_etag(&st, etag);
		json_set_take(v, "etag", json_string(etag));
	}
	return filework_json_take(c, status, v);
}

int list_answer_entry(struct file_ctx *c, int status, int dir, const char *name,
		      const char *path)
{
	return answer(c, status, dir, name, path, AT_SYMLINK_NOFOLLOW);
}

int list_stat_run(struct file_ctx *c)
{
	return answer(c, 200, AT_FDCWD, c->job->path, c->job->path,
		      c->job->nofollow ? AT_SYMLINK_NOFOLLOW : 0);
}
