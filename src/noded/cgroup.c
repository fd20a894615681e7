/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/own.h"
#include "base/text.h"

static const char *const roots[] = { "/sys/fs/cgroup",
				     "/sys/fs/cgroup/unified" };
static const char *const roles[] = { "", "/vmm", "/monitor" };

static const char *v2_root(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		struct statfs st;

		if (statfs(roots[i], &st) == 0 &&
		    st.f_type == CGROUP2_SUPER_MAGIC)
			return roots[i];
	}
	return NULL;
}

static void path_of(char *ret, size_t size, unsigned slot,
		    enum cgroup_role role, const char *file)
{
	snprintf(ret, size, "slot-%u%s%s%s", slot, roles[role],
		 file[0] ? "/" : "", file);
}

static int write_at(int dir, const char *path, const char *text)
{
	owned_fd fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write_all(fd, text, strlen(text));
}

static int read_at(int dir, const char *path, char *ret, size_t size)
{
	owned_fd fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = 0;
	return 0;
}

/* Hand a controller down, as far as the host lets us. */
static bool delegate(int dir, const char *name)
{
	char text[512], on[32];

	if (read_at(dir, "cgroup.controllers", text, sizeof(text)) < 0 ||
	    !strstr(text, name))
		return false;
	snprintf(on, sizeof(on), "+%s", name);
	return write_at(dir, "cgroup.subtree_control", on) == 0;
}

int cgroups_open(struct cgroups *g, const char *name, struct err *e)
{
	const char *root = v2_root();
	owned_fd top = -1, dir = -1;

	if (!root)
		return err_set(e, -ENOTSUP, ERR_UNSUPPORTED,
			       "no cgroup v2 hierarchy; mount one: mount -t "
			       "cgroup2 none /sys/fs/cgroup/unified");
	top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return err_errno(e, errno, "open %s: %m", root);
	if (mkdirat(top, name, 0755) < 0 && errno != EEXIST)
		return err_errno(e, errno,
				 "make cgroup %s/%s: %m; it must be writable "
				 "(in a container: run it privileged, or mount "
				 "-o remount,rw %s)",
				 root, name, root);
	dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(e, errno, "open %s/%s: %m", root, name);
	g->has_memory = delegate(top, "memory") && delegate(dir, "memory");
	g->has_pids = delegate(top, "pids") && delegate(dir, "pids");
	g->dir = take_fd(&dir);
	return 0;
}

void cgroups_close(struct cgroups *g)
{
	g->dir = fd_close(g->dir);
}

int cgroups_remove(const char *name)
{
	const char *root = v2_root();
	owned_str path = NULL;

	if (!root)
		return 0;
	path = xasprintf("%s/%s", root, name);
	return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
}

int cgroup_create(const struct cgroups *g, unsigned slot, struct err *e)
{
	char path[64];

	for (unsigned r = CGROUP_SLOT; r <= CGROUP_MONITOR; r++) {
		path_of(path, sizeof(path), slot, r, "");
		if (mkdirat(g->dir, path, 0755) < 0)
			return err_errno(e, errno, "make cgroup %s: %m", path);
		if (r != CGROUP_SLOT)
			continue;
		path_of(path, sizeof(path), slot, r, "cgroup.subtree_control");
		if (g->has_memory && write_at(g->dir, path, "+memory") < 0)
			return err_errno(e, errno, "%s +memory: %m", path);
		if (g->has_pids && write_at(g->dir, path, "+pids") < 0)
			return err_errno(e, errno, "%s +pids: %m", path);
	}
	return 0;
}

int cgroup_renew(const struct cgroups *g, unsigned slot, enum cgroup_role role,
		 struct err *e)
{
	char path[64];

	path_of(path, sizeof(path), slot, role, "");
	if (unlinkat(g->dir, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_errno(e, errno, "renew cgroup %s", path);
	if (mkdirat(g->dir, path, 0755) < 0)
		return err_errno(e, errno, "renew cgroup %s", path);
	return 0;
}

int cgroup_remove(const struct cgroups *g, unsigned slot)
{
	char path[64];

	for (int r = CGROUP_MONITOR; r >= CGROUP_SLOT; r--) {
		path_of(path, sizeof(path), slot, (enum cgroup_role)r, "");
		if (unlinkat(g->dir, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
			return -errno;
	}
	return 0;
}

bool cgroup_exists(const struct cgroups *g, unsigned slot)
{
	char path[64];

	path_of(path, sizeof(path), slot, CGROUP_SLOT, "");
	return faccessat(g->dir, path, F_OK, 0) == 0;
}

int cgroup_fd(const struct cgroups *g, unsigned slot, enum cgroup_role role)
{
	char path[64];
	int fd;

	path_of(path, sizeof(path), slot, role, "");
	fd = openat(g->dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_limit(const struct cgroups *g, unsigned slot, enum cgroup_role role,
		 uint64_t bytes, unsigned pids, struct err *e)
{
	char path[96], value[32];
	int r = 0;

	if (g->has_memory) {
		path_of(path, sizeof(path), slot, role, "memory.max");
		snprintf(value, sizeof(value), "%llu",
			 (unsigned long long)bytes);
		r = write_at(g->dir, path, value);
	}
	if (r == 0 && g->has_pids) {
		path_of(path, sizeof(path), slot, role, "pids.max");
		snprintf(value, sizeof(value), "%u", pids);
		r = write_at(g->dir, path, value);
	}
	return r < 0 ? err_errno(e, -r, "limit %s: %m", path) : 0;
}

int cgroup_kill(const struct cgroups *g, unsigned slot, enum cgroup_role role)
{
	char path[64];
	int r;

	path_of(path, sizeof(path), slot, role, "cgroup.kill");
	r = write_at(g->dir, path, "1");
	return r == -ENOENT ? 0 : r;
}

bool cgroup_populated(const struct cgroups *g, unsigned slot,
		      enum cgroup_role role)
{
	char path[64], text[256];

	path_of(path, sizeof(path), slot, role, "cgroup.events");
	return read_at(g->dir, path, text, sizeof(text)) == 0 &&
	       cgroup_key(text, "populated") != 0;
}

int cgroup_wait_empty(const struct cgroups *g, unsigned slot, int timeout_ms)
{
	uint64_t until = now_mono_us() / 1000 + (uint64_t)timeout_ms;
	char path[64], text[256];
	owned_fd fd = -1;

	path_of(path, sizeof(path), slot, CGROUP_SLOT, "cgroup.events");
	fd = openat(g->dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		uint64_t now = now_mono_us() / 1000;

		if (n < 0)
			return -errno;
		text[n] = 0;
		if (cgroup_key(text, "populated") == 0)
			return 0;
		if (now >= until)
			return -ETIMEDOUT;
		/* bounded: a notification may come before the read */
		poll(&p, 1, (int)(until - now < 50 ? until - now : 50));
	}
}

bool cgroup_status_is_init(const char *status)
{
	const char *line = strstr(status, "\nNSpid:"), *end, *last;

	if (!line)
		return false;
	end = strchr(line + 1, '\n');
	if (!end)
		return false;
	last = end;
	while (last[-1] != '\t' && last[-1] != ':')
		last--;
	return end - last == 1 && *last == '1';
}

static bool is_init(pid_t pid)
{
	char path[64], text[2048] = "";

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return read_at(AT_FDCWD, path, text, sizeof(text)) == 0 &&
	       cgroup_status_is_init(text);
}

pid_t cgroup_leader(const struct cgroups *g, unsigned slot,
		    enum cgroup_role role)
{
	char path[64], text[4096] = "", *p = text;
	pid_t first = 0;

	path_of(path, sizeof(path), slot, role, "cgroup.procs");
	if (read_at(g->dir, path, text, sizeof(text)) < 0)
		return 0;
	while (*p) {
		pid_t pid = (pid_t)strtol(p, &p, 10);

		if (pid > 0 && is_init(pid))
			return pid;
		first = first ? first : pid;
		while (*p == '\n')
			p++;
	}
	return first;
}

uint64_t cgroup_key(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (text && *text) {
		if (strncmp(text, key, n) == 0 && text[n] == ' ')
			return strtoull(text + n + 1, NULL, 10);
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return 0;
}

uint32_t cgroup_oom_kills(const struct cgroups *g, unsigned slot)
{
	char path[64], text[512] = "";

	path_of(path, sizeof(path), slot, CGROUP_SLOT, "memory.events");
	if (!g->has_memory || read_at(g->dir, path, text, sizeof(text)) < 0)
		return 0;
	return (uint32_t)cgroup_key(text, "oom_kill");
}
