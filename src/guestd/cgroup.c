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

#define OWN_NAME  "caisson"
#define DEPTH_MAX 16u
#define MIB(n)	  (UINT64_C(n) << 20)

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

/* Calls fn for every child cgroup of dir until it fails. */
static int each_child(int dir,
		      int (*fn)(int parent, const char *name, void *arg),
		      void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *f;
	int r = 0;

	if (!d) {
		fd_close(fd);
		return -EIO;
	}
	while (r >= 0 && (f = readdir(d)))
		if (f->d_type == DT_DIR && f->d_name[0] != '.')
			r = fn(dir, f->d_name, arg);
	closedir(d);
	return r;
}

static int remove_child(int parent, const char *name, void *arg)
{
	const unsigned *depth = arg;
	unsigned deeper = *depth + 1;
	owned_fd fd = -1;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
		return 0;
	/* a workload makes as many levels as it likes: do not follow it down
	 * for ever */
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && deeper < DEPTH_MAX) {
		(void)each_child(fd, remove_child, &deeper);
		(void)unlinkat(parent, name, AT_REMOVEDIR);
	}
	return 0;
}

int cgroup_remove(int parent, const char *name)
{
	unsigned depth = 0;

	(void)remove_child(parent, name, &depth);
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

/* The same for a whole subtree. */
struct walk {
	void (*fn)(pid_t pid, void *arg);
	void *arg;
	unsigned depth;
	ssize_t n;
};

static int walk_child(int parent, const char *name, void *arg)
{
	struct walk *w = arg;
	owned_fd fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : each_pid(fd, w->fn, w->arg);

	w->n += n > 0 ? n : 0;
	if (fd >= 0 && ++w->depth < DEPTH_MAX)
		(void)each_child(fd, walk_child, w);
	w->depth--;
	return 0;
}

static ssize_t each_pid_below(int dir, void (*fn)(pid_t pid, void *arg),
			      void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };

	w.n = each_pid(dir, fn, arg);
	if (w.n >= 0)
		(void)each_child(dir, walk_child, &w);
	return w.n;
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

	return each_pid_below(dir, keep_pid, &l);
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
	n = each_pid_below(dir, kill_pid, &signo);
	return n < 0 ? 0 : (size_t)n;
}

/* Kept from the workload: for guestd's logs, and for what the kernel does not
 * charge to anyone. */
static uint64_t memory_reserve(uint64_t mem_total_bytes)
{
	uint64_t n = mem_total_bytes / 8;

	if (n < MIB(12))
		n = MIB(12);
	if (n > MIB(64))
		n = MIB(64);
	return n + MIB(4);
}

/* The kernel's own threads count against its limits, and so do guestd's
 * children. */
static uint64_t threads_reserve(uint64_t threads)
{
	uint64_t n = threads / 4;

	if (n < 192)
		n = 192;
	if (n > 512)
		n = 512;
	return n < threads / 2 ? n : threads / 2;
}

struct limits cgroup_limits(uint64_t mem_total_bytes, uint64_t available_bytes,
			    uint64_t threads_max, uint64_t pid_max)
{
	uint64_t reserve = memory_reserve(mem_total_bytes), threads = pid_max;
	struct limits l;

	/* The limit must be reached before memory is: the kernel gives up on a
	 * cgroup soon, but on a whole machine only after it has read every page
	 * of every program again and again. */
	if (available_bytes > mem_total_bytes || available_bytes == 0)
		available_bytes = mem_total_bytes;
	if (reserve > available_bytes / 2)
		reserve = available_bytes / 2;
	l.memory_bytes = available_bytes - reserve;
	/* a quarter of what fits: 16 KiB of kernel memory a thread */
	l.pids = mem_total_bytes / 65536;
	if (threads_max > 0 && (threads == 0 || threads_max < threads))
		threads = threads_max;
	if (threads > 0 && l.pids > threads - threads_reserve(threads))
		l.pids = threads - threads_reserve(threads);
	return l;
}

static uint64_t kernel_number(const struct held *h, const char *path)
{
	char text[32];

	if (read_file(h->proc, path, text, sizeof(text)) < 0)
		return 0;
	return strtoull(text, NULL, 10);
}

static int write_number(int dir, const char *file, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return cgroup_write(dir, file, text);
}

static uint64_t memory_available(const struct held *h)
{
	char text[512];
	const char *p;

	if (read_file(h->proc, "meminfo", text, sizeof(text)) < 0)
		return 0;
	p = strstr(text, "MemAvailable:");
	return p ? strtoull(p + strlen("MemAvailable:"), NULL, 10) << 10 : 0;
}

static int limit_workload(const struct held *h, uint64_t mem_total_bytes)
{
	struct limits l =
	    cgroup_limits(mem_total_bytes, memory_available(h),
			  kernel_number(h, "sys/kernel/threads-max"),
			  kernel_number(h, "sys/kernel/pid_max"));

	(void)write_number(h->workload, "memory.max", l.memory_bytes);
	(void)cgroup_write(h->workload, "memory.oom.group", "0");
	/* guestd's own pages are not what a memory bomb drives out */
	(void)write_number(h->own, "memory.min", 16u << 20);
	return write_number(h->workload, "pids.max", l.pids);
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

static int freeze_one(int parent, const char *name, void *arg)
{
	const bool *freeze = arg;
	owned_fd dir = -1;

	if (strcmp(name, OWN_NAME) == 0)
		return 0;
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0
		   ? 0
		   : cgroup_write(dir, "cgroup.freeze", *freeze ? "1" : "0");
}

int cgroup_freeze_all(const struct guestd *g, bool freeze)
{
	if (freeze)
		collect_strays(g);
	return each_child(g->held.cgroup, freeze_one, &freeze);
}

static int check_frozen(int parent, const char *name, void *arg)
{
	bool *all = arg;
	owned_fd dir = -1;

	if (strcmp(name, OWN_NAME) == 0)
		return 0;
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 && cgroup_value(dir, "cgroup.events", "frozen") != 1)
		*all = false;
	return 0;
}

bool cgroup_is_frozen(const struct held *h)
{
	bool all = true;

	return each_child(h->cgroup, check_frozen, &all) >= 0 && all;
}
