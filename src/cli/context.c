/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"
#include "cli/jget.h"
#include "net/json.h"

#define CONTEXT_FILE_MAX 262144u

void context_fini(struct context *c)
{
	free(c->name);
	free(c->url);
	free(c->data_url);
	if (c->key)
		explicit_bzero(c->key, strlen(c->key));
	free(c->key);
	*c = (struct context){ 0 };
}

void context_file_fini(struct context_file *f)
{
	free(f->path);
	json_decref(f->root);
	*f = (struct context_file){ 0 };
}

bool context_name_valid(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > 64 || *name == '.' || *name == '-')
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
			    "YZ0123456789_.-") == n;
}

bool context_url_valid(const char *url)
{
	const char *host = NULL;

	if (!strncmp(url, "http://", 7))
		host = url + 7;
	else if (!strncmp(url, "https://", 8))
		host = url + 8;
	if (!host || !*host || strlen(host) > 260)
		return false;
	return strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
			    "YZ0123456789_.-:[]") == strlen(host);
}

/* The uid and gid of whoever called sudo, else our own. */
static void invoking_ids(uid_t *ret_uid, gid_t *ret_gid)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
	char *end;
	unsigned long u, g;

	*ret_uid = geteuid();
	*ret_gid = getegid();
	if (geteuid() != 0 || !uid || !gid)
		return;
	u = strtoul(uid, &end, 10);
	if (end == uid || *end || u >= UINT32_MAX)
		return;
	g = strtoul(gid, &end, 10);
	if (end == gid || *end || g >= UINT32_MAX)
		return;
	*ret_uid = (uid_t)u;
	*ret_gid = (gid_t)g;
}

int context_locate(struct context_file *f, struct err *e)
{
	const char *given = getenv("CAISSON_CONFIG");
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	struct user u;

	*f = (struct context_file){ 0 };
	invoking_ids(&f->uid, &f->gid);
	if (given && *given) {
		f->path = xstrdup(given);
		return 0;
	}
	/* under sudo HOME may be root's or the user's: the uid decides */
	if (f->uid == geteuid() && xdg && *xdg == '/') {
		f->path = xasprintf("%s/caisson/config.json", xdg);
		return 0;
	}
	if (f->uid == geteuid() && home && *home == '/') {
		f->path = xasprintf("%s/.config/caisson/config.json", home);
		return 0;
	}
	if (user_lookup_uid(f->uid, &u, e) < 0)
		return err_wrap(e, "where to keep contexts (CAISSON_CONFIG "
				   "names a file)");
	f->path = xasprintf("%s/.config/caisson/config.json", u.home);
	return 0;
}

int context_load(struct context_file *f, struct err *e)
{
	owned_str text = NULL;
	struct err why = { 0 };
	struct stat st;
	size_t n;
	int r;

	json_decref(f->root);
	f->root = json_object();
	r = file_read(f->path, CONTEXT_FILE_MAX, &text, &n, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(e, r, why.kind, "%s", why.msg);
	if (stat(f->path, &st) == 0 && (st.st_mode & 077) != 0)
		return err_set(e, -EPERM, ERR_DENIED,
			       "%s holds keys and is open to others: "
			       "chmod 600 %s",
			       f->path, f->path);
	json_decref(f->root);
	f->root = NULL;
	r = json_parse(text, n, &f->root, &why);
	if (r == 0 && !json_is_object(f->root)) {
		json_decref(f->root);
		f->root = NULL;
		snprintf(why.msg, sizeof(why.msg), "not an object");
		r = -EINVAL;
	}
	if (r < 0) {
		f->root = json_object();
		return err_set(e, -EINVAL, ERR_INVALID, "%s: %s", f->path,
			       why.msg);
	}
	return 0;
}

/* Directories that are missing, owned by the user whose they are. */
static int make_parents(const struct context_file *f, struct err *e)
{
	owned_str dir = xstrdup(f->path);

	for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(dir, 0700) == 0) {
			if (geteuid() == 0 && chown(dir, f->uid, f->gid) < 0)
				return err_errno(e, errno, "chown %s", dir);
		} else if (errno != EEXIST) {
			return err_errno(e, errno, "mkdir %s", dir);
		}
		*p = '/';
	}
	return 0;
}

int context_save(const struct context_file *f, struct err *e)
{
	owned_str text = json_dumps(f->root, JSON_INDENT(2) | JSON_SORT_KEYS);
	owned_str line = text ? xasprintf("%s\n", text) : NULL;
	int r;

	if (!line)
		return err_set(e, -EINVAL, ERR_INTERNAL, "%s: no JSON",
			       f->path);
	r = make_parents(f, e);
	if (r < 0)
		return r;
	r = file_write_atomic(f->path, line, strlen(line), 0600, e);
	explicit_bzero(line, strlen(line));
	if (r < 0)
		return r;
	if (geteuid() == 0 && lchown(f->path, f->uid, f->gid) < 0)
		return err_errno(e, errno, "chown %s", f->path);
	return 0;
}

const char *context_current(const struct context_file *f)
{
	return jget_str(f->root, "current", NULL);
}

static const char *env_or(const char *name, const char *def)
{
	const char *v = getenv(name);

	return v && *v ? v : def;
}

int context_get(const struct context_file *f, const char *name,
		struct context *ret, struct err *e)
{
	const char *want = name ? name : env_or("CAISSON_CONTEXT", NULL);
	const char *url = env_or("CAISSON_URL", NULL);
	const json_t *entry = NULL;

	if (!want)
		want = context_current(f);
	if (want)
		entry =
		    json_object_get(json_object_get(f->root, "contexts"), want);
	if (want && !entry && (name || !url))
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no context \"%s\" in %s; `caisson context` "
			       "lists what is there",
			       want, f->path);
	if (!entry && !url)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no server is configured: `sudo caisson up` "
			       "starts one here, `caisson login URL` uses one "
			       "elsewhere");
	*ret = (struct context){
		.name = xstrdup(want ? want : "environment"),
		.url = xstrdup(url ? url : jget_str(entry, "url", "")),
		.data_url = xstrdup(env_or("CAISSON_DATA_URL",
					   jget_str(entry, "data_url", ""))),
		.key =
		    xstrdup(env_or("CAISSON_KEY", jget_str(entry, "key", ""))),
	};
	if (!context_url_valid(ret->url) ||
	    (*ret->data_url && !context_url_valid(ret->data_url))) {
		err_set(e, -EINVAL, ERR_INVALID,
			"context \"%s\": url must be http://HOST:PORT or "
			"https://HOST:PORT",
			ret->name);
		context_fini(ret);
		return -EINVAL;
	}
	return 0;
}

void context_put(struct context_file *f, const struct context *c,
		 bool make_current)
{
	json_t *all = json_object_get(f->root, "contexts");
	json_t *entry = json_object();

	if (!json_is_object(all)) {
		json_set_take(f->root, "contexts", json_object());
		all = json_object_get(f->root, "contexts");
	}
	json_set_take(entry, "url", json_string(c->url));
	json_set_take(entry, "data_url", json_string(c->data_url));
	json_set_take(entry, "key", json_string(c->key));
	json_set_take(all, c->name, entry);
	if (make_current || !context_current(f))
		json_set_take(f->root, "current", json_string(c->name));
}

bool context_remove(struct context_file *f, const char *name)
{
	json_t *all = json_object_get(f->root, "contexts");
	const char *current = context_current(f);
	void *first;
	bool was_current = current && !strcmp(current, name);

	if (!json_object_get(all, name))
		return false;
	json_object_del(all, name);
	if (was_current) {
		first = json_object_iter(all);
		if (first)
			json_set_take(f->root, "current",
				      json_string(json_object_iter_key(first)));
		else
			json_object_del(f->root, "current");
	}
	return true;
}

int context_use(struct context_file *f, const char *name, struct err *e)
{
	if (!json_object_get(json_object_get(f->root, "contexts"), name))
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "no context \"%s\" in %s", name, f->path);
	json_set_take(f->root, "current", json_string(name));
	return 0;
}
