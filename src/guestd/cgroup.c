/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "guestd/children.h"

#define OWN_NAME "caisson"

int cgroup_write(int dir, const char *file, const char *text)
{
	owned_fd fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int cgroup_make(int parent, const char *name)
{
	int fd;

	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_remove(int parent, const char *name)
{
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static ssize_t read_file(int dir, const char *file, char *ret, size_t max)
{
	owned_fd fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, ret, max - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return n;
}

int64_t cgroup_value(int dir, const char *file, const char *key)
{
	char text[2048] = "";
	size_t len = strlen(key);
	const char *p;

	if (dir < 0 || read_file(dir, file, text, sizeof(text)) < 0)
		return -1;
	if (len == 0)
		return strtoll(text, NULL, 10);
	for (p = text; p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, key, len) == 0 && p[len] == ' ')
			return strtoll(p + len + 1, NULL, 10);
	}
	return -1;
}

/* Call fn for every process in a cgroup (not below it). */
static ssize_t each_pid(int dir, void (*fn)(pid_t pid, void *arg), void *arg)
{
	char text[8192];
	owned_fd fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n, count = 0;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *line = text, *end;

		have += (size_t)n;
		text[have] = '\0';
		while ((end = strchr(line, '\n'))) {
			pid_t pid = (pid_t)strtol(line, NULL, 10);

			/* 0: a process outside our pid namespace */
			if (pid > 0) {
				fn(pid, arg);
				count++;
			}
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
	}
	return count;
}

struct pid_list {
	pid_t *v;
	size_t n, max;
};

static void keep_pid(pid_t pid, void *arg)
{
	struct pid_list *l = arg;

	if (l->n < l->max)
		l->v[l->n++] = pid;
}

ssize_t cgroup_pids(int dir, pid_t *ret, size_t max)
{
	struct pid_list l = { .v = ret, .max = max };

	return each_pid(dir, keep_pid, &l);
}

static void kill_pid(pid_t pid, void *arg)
{
	const int *signo = arg;

	(void)kill(pid, *signo);
}

size_t cgroup_signal(int dir, int signo)
{
	ssize_t n;

	/* at once for the whole subtree, also against fork bombs */
	if (signo == SIGKILL && cgroup_write(dir, "cgroup.kill", "1") == 0)
		return 1;
	n = each_pid(dir, kill_pid, &signo);
	return n < 0 ? 0 : (size_t)n;
}

static int limit_workload(const struct held *h, uint64_t mem_total_bytes)
{
	char text[32];
	/* What guestd and the kernel need. On a small guest, too, the limit
	 * must be reached before memory is: else everything thrashes first. */
	uint64_t reserve = 64u << 20;

	if (reserve > mem_total_bytes * 2 / 5)
		reserve = mem_total_bytes * 2 / 5;
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)(mem_total_bytes - reserve));
	(void)cgroup_write(h->workload, "memory.max", text);
	(void)cgroup_write(h->workload, "memory.oom.group", "0");
	/* a quarter of what fits: 16 KiB of kernel memory a thread */
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)(mem_total_bytes / UINT64_C(65536)));
	return cgroup_write(h->workload, "pids.max", text);
}

static void keep_highest(pid_t pid, void *arg)
{
	int *highest = arg;

	if (pid > *highest)
		*highest = pid;
}

int cgroup_setup(struct held *h, uint64_t mem_total_bytes)
{
	static const char *const controllers[] = { "+cpu", "+memory", "+pids",
						   "+io" };

	h->own = cgroup_make(h->cgroup, OWN_NAME);
	h->workload = cgroup_make(h->cgroup, "workload");
	if (h->own < 0 || h->workload < 0)
		return h->own < 0 ? h->own : h->workload;
	(void)cgroup_write(h->own, "cgroup.procs", "0");
	/* whoever is still in the root is a kernel thread */
	(void)each_pid(h->cgroup, keep_highest, &h->kernel_pid);
	/* one by one: a kernel without one of them keeps the others */
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		(void)cgroup_write(h->cgroup, "cgroup.subtree_control",
				   controllers[i]);
		(void)cgroup_write(h->workload, "cgroup.subtree_control",
				   controllers[i]);
	}
	(void)cgroup_write(h->own, "cpu.weight", "10000");
	return limit_workload(h, mem_total_bytes);
}

struct stray {
	int to;		/* cgroup.procs of the workload */
	pid_t self;	/* guestd itself */
	bool own_group; /* our own cgroup: our workers stay */
	const struct children *children;
	int proc;
	int kernel_pid;
};

/* Some kernel threads could be moved, but none would ever freeze. */
static bool is_kernel_thread(int proc, pid_t pid)
{
	char name[32], text[512];
	const char *p;

	snprintf(name, sizeof(name), "%d/stat", (int)pid);
	if (read_file(proc, name, text, sizeof(text)) < 0)
		return true; /* gone already */
	/* "pid (comm) state ppid": comm may hold anything, so from the end;
	 * all of them are children of number 2 */
	p = strrchr(text, ')');
	return pid == 2 || (p && strlen(p) > 4 && strtol(p + 4, NULL, 10) == 2);
}

static void move_stray(pid_t pid, void *arg)
{
	const struct stray *s = arg;
	char text[16];

	if (pid == s->self ||
	    (s->own_group && children_is_worker(s->children, pid)))
		return;
	/* most of them are told without a look at each: this is on the way of
	 * every checkpoint */
	if (pid <= s->kernel_pid || is_kernel_thread(s->proc, pid))
		return;
	snprintf(text, sizeof(text), "%d", (int)pid);
	(void)!write(s->to, text, strlen(text));
}

/* Whatever guest root put beside us goes back to where it can be frozen. */
static void collect_strays(const struct guestd *g)
{
	const struct held *h = &g->held;
	/* a leaf: a cgroup that hands controllers down takes no processes */
	owned_fd leaf = cgroup_make(h->workload, "strays");
	owned_fd to =
	    leaf < 0 ? -1 : openat(leaf, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	struct stray s = { .to = to,
			   .self = getpid(),
			   .children = g->children,
			   .proc = h->proc,
			   .kernel_pid = h->kernel_pid };

	if (to < 0)
		return;
	(void)each_pid(h->cgroup, move_stray, &s);
	s.own_group = true;
	(void)each_pid(h->own, move_stray, &s);
}

/* Calls fn for every child cgroup of the root but ours. */
static int each_group(const struct held *h, int (*fn)(int dir, void *arg),
		      void *arg)
{
	int fd = openat(h->cgroup, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *d;
	DIR *dir;
	int r = 0;

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		fd_close(fd);
		return -EIO;
	}
	while ((d = readdir(dir)) && r >= 0) {
		owned_fd group = -1;

		if (d->d_type != DT_DIR || d->d_name[0] == '.' ||
		    strcmp(d->d_name, OWN_NAME) == 0)
			continue;
		group = openat(h->cgroup, d->d_name,
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (group >= 0)
			r = fn(group, arg);
	}
	closedir(dir);
	return r;
}

static int freeze_one(int dir, void *arg)
{
	const bool *freeze = arg;

	return cgroup_write(dir, "cgroup.freeze", *freeze ? "1" : "0");
}

int cgroup_freeze_all(const struct guestd *g, bool freeze)
{
	if (freeze)
		collect_strays(g);
	return each_group(&g->held, freeze_one, &freeze);
}

static int check_frozen(int dir, void *arg)
{
	bool *all = arg;

	if (cgroup_value(dir, "cgroup.events", "frozen") != 1)
		*all = false;
	return 0;
}

bool cgroup_is_frozen(const struct held *h)
{
	bool all = true;

	return each_group(h, check_frozen, &all) >= 0 && all;
}
