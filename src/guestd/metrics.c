/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/metrics.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "guestd/cgroup.h"
#include "guestd/reply.h"

static void read_proc(const struct held *h, const char *name, char *ret,
		      size_t size)
{
	owned_fd fd = openat(h->proc, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
}

/* "MemTotal:       16384 kB"; the kernel's text, so a number that is none is 0.
 */
static json_int_t kib_value(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? strtoll(p + strlen(key), NULL, 10) << 10 : 0;
}

/* All CPUs' busy time in ticks of 10 ms, from the first line of /proc/stat. */
static json_int_t cpu_used_ms(const struct held *h)
{
	char text[512];
	char *p = text;
	long long busy = 0;

	read_proc(h, "stat", text, sizeof(text));
	if (strncmp(text, "cpu ", 4) != 0)
		return 0;
	p += 4;
	/* user nice system idle iowait irq softirq */
	for (int i = 0; i < 7; i++) {
		long long ticks = strtoll(p, &p, 10);

		busy += i == 3 || i == 4 ? 0 : ticks;
	}
	return busy * 1000 / sysconf(_SC_CLK_TCK);
}

void guest_metrics(struct guestd *g, struct http_stream *s)
{
	const struct held *h = &g->held;
	json_t *v = json_object();
	struct statvfs fs = { 0 };
	struct timespec up = { 0 };
	json_int_t frsize;
	char mem[2048];
	int64_t oom = cgroup_value(h->workload, "memory.events", "oom_kill");
	int64_t pids = cgroup_value(h->workload, "pids.current", "");

	read_proc(h, "meminfo", mem, sizeof(mem));
	/* a held descriptor of the root: no path is looked up */
	(void)fstatvfs(h->root, &fs);
	frsize = (json_int_t)fs.f_frsize;
	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	json_set_take(v, "cpu_count",
		      json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_set_take(v, "cpu_used_ms", json_integer(cpu_used_ms(h)));
	json_set_take(v, "mem_total_bytes",
		      json_integer(kib_value(mem, "MemTotal:")));
	json_set_take(v, "mem_used_bytes",
		      json_integer(kib_value(mem, "MemTotal:") -
				   kib_value(mem, "MemAvailable:")));
	json_set_take(v, "disk_total_bytes",
		      json_integer((json_int_t)fs.f_blocks * frsize));
	json_set_take(
	    v, "disk_used_bytes",
	    json_integer((json_int_t)(fs.f_blocks - fs.f_bfree) * frsize));
	json_set_take(v, "oom_kills", json_integer(oom < 0 ? 0 : oom));
	json_set_take(
	    v, "uptime_ms",
	    json_integer((json_int_t)up.tv_sec * 1000 + up.tv_nsec / 1000000));
	json_set_take(v, "processes", json_integer(pids < 0 ? 0 : pids));
	reply_json_take(s, 200, v);
}
