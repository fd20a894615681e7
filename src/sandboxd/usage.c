/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

/* ---- texts ---- */

/* A decimal number; false if there is none or it does not fit. */
static bool number(const char *s, uint64_t *ret)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*ret = strtoull(s, &end, 10);
	return errno == 0 && (*end == ' ' || *end == '\n' || *end == '\0');
}

/* The n-th word behind s, counted from 0; NULL if there are fewer. */
static const char *word(const char *s, unsigned n)
{
	s += strspn(s, " ");
	while (n-- > 0) {
		s += strcspn(s, " ");
		s += strspn(s, " ");
	}
	return *s ? s : NULL;
}

bool usage_parse_stat(const char *text, uint64_t *ret_ticks)
{
	const char *rest = strrchr(text, ')'); /* the name may hold ')' */
	const char *utime = rest ? word(rest + 1, 11) : NULL;
	const char *stime = rest ? word(rest + 1, 12) : NULL;
	uint64_t u, s;

	if (!utime || !stime || !number(utime, &u) || !number(stime, &s) ||
	    u > UINT64_MAX / 4 || s > UINT64_MAX / 4)
		return false;
	*ret_ticks = u + s;
	return true;
}

bool usage_parse_statm(const char *text, uint64_t *ret_pages)
{
	const char *w = word(text, 1);

	return w && number(w, ret_pages) && *ret_pages < UINT64_MAX / 65536;
}

bool usage_parse_cgroup(const char *text, uint32_t slot, char *ret, size_t max)
{
	const char *line =
	    strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	char tail[32];
	size_t n, tail_n;

	if (!line)
		return false;
	line += line[0] == '\n' ? 4 : 3;
	n = strcspn(line, "\n");
	tail_n = (size_t)snprintf(tail, sizeof(tail), "/slot-%u/vmm", slot);
	if (n >= max || n < tail_n ||
	    memcmp(line + n - tail_n, tail, tail_n) != 0)
		return false;
	memcpy(ret, line, n);
	ret[n] = '\0';
	return strstr(ret, "/../") == NULL;
}

bool usage_parse_cpu_stat(const char *text, uint64_t *ret_us)
{
	static const char key[] = "usage_usec ";
	const char *at = strstr(text, key);

	return at && (at == text || at[-1] == '\n') &&
	       number(at + sizeof(key) - 1, ret_us);
}

/* ---- files ---- */

static bool read_text(const char *path, char *ret, size_t max)
{
	owned_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, max - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_proc(int pid, const char *name, char *ret, size_t max)
{
	char path[64];

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return read_text(path, ret, max);
}

static bool read_cgroup(const struct usage_source *src, const char *name,
			char *ret, size_t max)
{
	static const char *const roots[] = { "/sys/fs/cgroup",
					     "/sys/fs/cgroup/unified" };
	char path[288];

	for (size_t i = 0; src->cgroup[0] && i < ARRAY_SIZE(roots); i++) {
		snprintf(path, sizeof(path), "%s%s/%s", roots[i], src->cgroup,
			 name);
		if (read_text(path, ret, max))
			return true;
	}
	return false;
}

static void find_cgroup(struct usage_source *src)
{
	char text[4096];

	if (src->cgroup[0] ||
	    !read_proc(src->pid, "cgroup", text, sizeof(text)))
		return;
	if (!usage_parse_cgroup(text, src->slot, src->cgroup,
				sizeof(src->cgroup)))
		src->cgroup[0] = '\0';
}

uint64_t usage_cpu_ms(struct usage_source *src)
{
	char text[4096];
	uint64_t n;

	find_cgroup(src);
	if (read_cgroup(src, "cpu.stat", text, sizeof(text)) &&
	    usage_parse_cpu_stat(text, &n))
		return n / 1000;
	if (read_proc(src->pid, "stat", text, sizeof(text)) &&
	    usage_parse_stat(text, &n))
		return n * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	return 0;
}

static bool memory_bytes(const struct usage_source *src, uint64_t *ret)
{
	char text[256];

	if (src->pid <= 0)
		return false;
	if (read_cgroup(src, "memory.current", text, sizeof(text)) &&
	    number(text, ret))
		return true;
	if (!read_proc(src->pid, "statm", text, sizeof(text)) ||
	    !usage_parse_statm(text, ret))
		return false;
	*ret *= (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

void usage_read(struct usage_source *src, struct usage *u)
{
	uint64_t cpu_ms = usage_cpu_ms(src);
	struct stat st;

	u->is_known = true;
	u->at_ms = now_unix_ms();
	cpu_ms -= cpu_ms < src->cpu_base_ms ? cpu_ms : src->cpu_base_ms;
	if (cpu_ms > u->cpu_ms)
		u->cpu_ms = cpu_ms;
	memory_bytes(src, &u->memory_bytes);
	if (src->disk_fd >= 0 && fstat(src->disk_fd, &st) == 0) {
		u->has_disk = true;
		u->disk_bytes = (uint64_t)st.st_blocks * 512;
	}
}
