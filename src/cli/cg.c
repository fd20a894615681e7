/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cg.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

#define FILE_MAX   262144u
#define DEPTH_MAX  8
#define KILL_TRIES 50

char *cg_find_root(const char *mounts, size_t n)
{
	const char *p = mounts, *end = mounts + n;
	char *found = NULL;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		owned_str line = xstrndup(p, (size_t)((nl ? nl : end) - p));
		char *save = NULL, *at, *type;

		strtok_r(line, " ", &save);
		at = strtok_r(NULL, " ", &save);
		type = strtok_r(NULL, " ", &save);
		if (at && type && !strcmp(type, "cgroup2") && *at == '/' &&
		    (!found || !strcmp(at, "/sys/fs/cgroup"))) {
			free(found);
			found = xstrdup(at);
		}
		if (!nl)
			break;
		p = nl + 1;
	}
	return found;
}

char *cg_root(void)
{
	owned_str text = NULL;
	size_t n;

	if (file_read("/proc/self/mounts", FILE_MAX, &text, &n, NULL) < 0)
		return NULL;
	return cg_find_root(text, n);
}

int cg_make(const char *path, struct err *e)
{
	return mkdir_p(path, 0755, e);
}

int cg_renew(const char *path, struct err *e)
{
	if (!cg_populated(path))
		rmdir(path);
	return cg_make(path, e);
}

static int write_to(const char *path, const char *file, const char *text)
{
	owned_str name = xasprintf("%s/%s", path, file);
	owned_fd fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write_all(fd, text, strlen(text));
}

int cg_enter(const char *path, struct err *e)
{
	int r = write_to(path, "cgroup.procs", "0");

	return r < 0 ? err_errno(e, -r, "enter cgroup %s", path) : 0;
}

/* Text of a file below path; NULL if it cannot be read. */
static char *read_from(const char *path, const char *file)
{
	owned_str name = xasprintf("%s/%s", path, file);
	char *text = NULL;
	size_t n;

	return file_read(name, FILE_MAX, &text, &n, NULL) < 0 ? NULL : text;
}

/* Next pid of a cgroup.procs text; 0 at the end. */
static pid_t next_pid(const char **p)
{
	char *end;
	long v = strtol(*p, &end, 10);

	if (end == *p)
		return 0;
	*p = end;
	return v > 0 ? (pid_t)v : 0;
}

bool cg_has_pid(const char *path, pid_t pid)
{
	owned_str text = read_from(path, "cgroup.procs");
	const char *p = text;
	pid_t at;

	while (p && (at = next_pid(&p)) > 0) {
		if (at == pid)
			return true;
	}
	return false;
}

bool cg_populated(const char *path)
{
	owned_str text = read_from(path, "cgroup.events");

	return text && strstr(text, "populated 1");
}

void cg_signal(const char *path, int signo)
{
	owned_str text = read_from(path, "cgroup.procs");
	const char *p = text;
	pid_t at;

	while (p && (at = next_pid(&p)) > 0) {
		if (at != getpid())
			kill(at, signo);
	}
}

/* fn for path and everything below, deepest first. */
static void walk(const char *path, int depth, void (*fn)(const char *, void *),
		 void *arg)
{
	DIR *d = depth < DEPTH_MAX ? opendir(path) : NULL;
	struct dirent *de;

	while (d && (de = readdir(d))) {
		if (de->d_type == DT_DIR && strcmp(de->d_name, ".") != 0 &&
		    strcmp(de->d_name, "..") != 0) {
			owned_str below = xasprintf("%s/%s", path, de->d_name);

			walk(below, depth + 1, fn, arg);
		}
	}
	if (d)
		closedir(d);
	fn(path, arg);
}

static void kill_one(const char *path, void *arg)
{
	(void)arg;
	cg_signal(path, SIGKILL);
}

void cg_kill(const char *path)
{
	/* cgroup.kill came with Linux 5.14 */
	if (write_to(path, "cgroup.kill", "1") == 0)
		return;
	for (int i = 0; i < KILL_TRIES && cg_populated(path); i++) {
		walk(path, 0, kill_one, NULL);
		poll(NULL, 0, 10);
	}
}

bool cg_wait_empty(const char *path, unsigned timeout_ms)
{
	uint64_t until = now_mono_us() + 1000ull * timeout_ms;

	while (cg_populated(path)) {
		if (now_mono_us() >= until)
			return false;
		poll(NULL, 0, 10);
	}
	return true;
}

static void remove_one(const char *path, void *arg)
{
	int *failed = arg;

	/* a zombie may keep it busy for a moment after it reads as empty */
	for (int i = 0; i < KILL_TRIES; i++) {
		if (rmdir(path) == 0 || errno == ENOENT)
			return;
		if (errno != EBUSY)
			break;
		poll(NULL, 0, 10);
	}
	*failed = errno;
}

int cg_remove(const char *path, struct err *e)
{
	int failed = 0;

	walk(path, 0, remove_one, &failed);
	return failed ? err_errno(e, failed, "remove cgroup %s", path) : 0;
}
