/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/list_entry.h"
#include "guestd/list_names.h"
#include "net/json.h"

/* The monitor takes 1 MiB, and an entry has 60 KB at the very most. */
#define PAGE_BYTES 900000u

/* ---- the cursor ---- */

char *list_cursor(const char *path)
{
	size_t n = strlen(path);
	char *s = xcalloc(1, text_base64_len(n) + 1), *end;

	text_base64(path, n, s);
	for (char *p = s; *p; p++)
		*p = (char)(*p == '+' ? '-' : *p == '/' ? '_' : *p);
	end = strchr(s, '=');
	if (end)
		*end = '\0';
	return s;
}

static bool is_relative_path(const char *p, size_t n)
{
	if (n == 0 || n >= FILE_PATH_MAX || memchr(p, 0, n))
		return false;
	for (size_t i = 0; i <= n;) {
		size_t k = 0;

		while (i + k < n && p[i + k] != '/')
			k++;
		if (k == 0 || k > 255 || (k == 1 && p[i] == '.') ||
		    (k == 2 && p[i] == '.' && p[i + 1] == '.'))
			return false;
		i += k + 1;
	}
	return true;
}

int list_cursor_parse(const char *text, char ret[FILE_PATH_MAX])
{
	char b64[4 * (FILE_PATH_MAX / 3) + 16];
	uint8_t raw[sizeof(b64)];
	size_t n = strlen(text);
	ssize_t k;

	if (n == 0 || n > sizeof(b64) - 8 || n % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '+' || text[i] == '/' || text[i] == '=')
			return -EINVAL;
		b64[i] = (char)(text[i] == '-'	 ? '+'
				: text[i] == '_' ? '/'
						 : text[i]);
	}
	while (n % 4)
		b64[n++] = '=';
	k = text_unbase64(b64, n, raw);
	if (k <= 0 || !is_relative_path((char *)raw, (size_t)k))
		return -EINVAL;
	memcpy(ret, raw, (size_t)k);
	ret[k] = '\0';
	return 0;
}

/* ---- the walk ---- */

struct walk {
	struct file_ctx *c;
	json_t *items;
	unsigned left;		  /* entries that still fit */
	size_t bytes;		  /* of their text */
	bool more;		  /* there is one that does not fit */
	char last[FILE_PATH_MAX]; /* relative path of the last entry */
	char path[FILE_PATH_MAX]; /* of the folder, for the entries */
};

static int walk_folder(struct walk *w, int fd_take, const char *rel,
		       const char *after, unsigned depth);

static int descend(struct walk *w, int dir, const char *name, const char *rel,
		   const char *after, unsigned depth)
{
	int fd;

	if (depth >= w->c->job->depth)
		return 0;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* what vanished or may not be read has no entries */
	return fd < 0 ? 0 : walk_folder(w, fd, rel, after, depth + 1);
}

/* One name: its entry, unless it was told before, and what is below it. */
static int visit(struct walk *w, int dir, const char *name, const char *folder,
		 bool told, const char *below, unsigned depth)
{
	owned_str rel = xasprintf("%s%s%s", folder, *folder ? "/" : "", name);
	owned_str path = NULL;
	struct stat st;
	json_t *entry;

	if (strlen(rel) >= FILE_PATH_MAX ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!told) {
		if (w->left == 0) {
			w->more = true;
			return 1;
		}
		path = xasprintf("%s/%s", w->path, rel);
		entry = list_entry(dir, name, name, path, &st);
		w->bytes += json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1;
		(void)json_array_append_new(w->items, entry);
		w->left = w->bytes < PAGE_BYTES ? w->left - 1 : 0;
		snprintf(w->last, sizeof(w->last), "%s", rel);
	}
	return S_ISDIR(st.st_mode) ? descend(w, dir, name, rel, below, depth)
				   : 0;
}

/* after: what of this folder was told last, relative to it; "" = nothing.
 * 1 = enough, 0, or -errno. */
static int walk_folder(struct walk *w, int fd_take, const char *rel,
		       const char *after, unsigned depth)
{
	struct list_names names;
	DIR *d = fdopendir(fd_take);
	char first[256];
	const char *below = strchr(after, '/');
	int r;

	if (!d) {
		fd_close(fd_take);
		return -ENOMEM;
	}
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(after, "/"), after);
	/* one more than fits, to know that there is one; one that was told */
	r = list_names_read(&names, d, first, w->left + 2u);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		bool told = *first && strcmp(names.name[i], first) == 0;

		if (filework_beat(w->c) < 0)
			r = -ECANCELED;
		else
			r = visit(w, dirfd(d), names.name[i], rel, told,
				  told && below ? below + 1 : "", depth);
	}
	list_names_fini(&names);
	(void)closedir(d);
	return r;
}

int list_run(struct file_ctx *c)
{
	const struct file_job *job = c->job;
	struct walk w = { .c = c, .left = job->limit };
	size_t n = strlen(job->path);
	struct stat st;
	owned_str cursor = NULL;
	json_t *v;
	int fd = filework_open(AT_FDCWD, job->path, true, &st), r;

	if (fd >= 0 && !S_ISDIR(st.st_mode)) {
		fd_close(fd);
		return filework_error(c, 409, "wrong_state", "path",
				      "use files/stat",
				      "\"%.200s\" is no folder", job->path);
	}
	if (fd < 0)
		return filework_refuse(c, -fd, "path", "cannot list",
				       job->path);
	while (n > 0 && job->path[n - 1] == '/')
		n--;
	snprintf(w.path, sizeof(w.path), "%.*s", (int)n, job->path);
	w.items = json_array();
	r = walk_folder(&w, fd, "", job->after, 1);
	if (r < 0) {
		json_decref(w.items);
		return filework_refuse(c, -r, "path", "cannot list", job->path);
	}
	if (w.more)
		cursor = list_cursor(w.last);
	v = json_object();
	json_set_take(v, "items", w.items);
	json_set_take(v, "next", cursor ? json_string(cursor) : json_null());
	return filework_json_take(c, 200, v);
}
