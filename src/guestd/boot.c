/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "guestd/boot_root.h"
#include "guestd/cgroup.h"
#include "guestd/netif.h"

#define PORT_NAME "org.caisson.guest"

void held_init(struct held *h)
{
	*h = (struct held){ -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0 };
}

static int open_dir(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

uint64_t boot_mem_total(const struct held *h)
{
	char text[256];
	owned_fd fd = openat(h->proc, "meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *p;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strstr(text, "MemTotal:");
	return p ? strtoull(p + strlen("MemTotal:"), NULL, 10) << 10 : 0;
}

/* The port's device node by the name that the host gave it. */
static int find_port(char *ret, size_t max)
{
	DIR *d = opendir("/sys/class/virtio-ports");
	const struct dirent *f;
	int r = -ENOENT;

	while (d && r < 0 && (f = readdir(d))) {
		char path[300];
		owned_str name = NULL;
		size_t n = 0;
		struct err e = { 0 };

		if (f->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 f->d_name);
		if (file_read(path, 128, &name, &n, &e) < 0)
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (strcmp(name, PORT_NAME) == 0) {
			snprintf(ret, max, "/dev/%s", f->d_name);
			r = 0;
		}
	}
	if (d)
		closedir(d);
	return r;
}

static int open_port(int *ret, struct err *e)
{
	char path[300];

	for (int i = 0; find_port(path, sizeof(path)) < 0; i++) {
		if (i == 2000)
			return err_set(e, -ENOENT, ERR_NOT_FOUND,
				       "no virtio-serial port named "
				       "\"" PORT_NAME "\"");
		usleep(5000);
	}
	*ret = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (*ret < 0)
		return err_errno(e, errno, "open %s", path);
	return 0;
}

/* /defaults in the initramfs: "user=NAME". */
static void read_defaults(struct guestd *g)
{
	owned_str text = NULL;
	size_t n = 0;
	struct err e = { 0 };

	snprintf(g->default_user, sizeof(g->default_user), "root");
	if (file_read("/defaults", 1024, &text, &n, &e) < 0)
		return;
	if (strncmp(text, "user=", 5) == 0)
		snprintf(g->default_user, sizeof(g->default_user), "%.*s",
			 (int)strcspn(text + 5, "\n"), text + 5);
}

static int hold(struct held *h, struct err *e)
{
	h->proc = open_dir("/proc");
	h->sys = open_dir("/sys");
	h->cgroup = open_dir("/sys/fs/cgroup");
	h->root = open_dir("/");
	h->pts = open_dir("/dev/pts");
	h->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	h->random = open("/dev/random", O_RDWR | O_CLOEXEC);
	if (h->proc < 0 || h->sys < 0 || h->root < 0 || h->null < 0 ||
	    h->random < 0)
		return err_errno(e, errno, "open the kernel's files");
	return 0;
}

static void set_limits(const struct held *h)
{
	static const struct rlimit files = { 65536, 65536 };
	owned_fd fd =
	    openat(h->proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	(void)setrlimit(RLIMIT_NOFILE, &files);
	/* exec's child sets itself back to 0 */
	(void)!write(fd, "-1000", 5);
}

int boot_run(struct guestd *g, int *ret_port, struct err *e)
{
	int r = boot_mount_kernel(e);

	if (r < 0)
		return r;
	(void)umask(022);
	boot_load_modules();
	read_defaults(g);
	r = open_port(ret_port, e);
	if (r < 0)
		return r;
	r = boot_mount_disk(e);
	if (r < 0)
		return r;
	r = boot_switch_root(e);
	if (r < 0)
		return r;
	boot_mount_rest();
	r = hold(&g->held, e);
	if (r < 0)
		return r;
	g->held.machine_id = boot_cover_file("machine-id", "");
	g->held.hostname = boot_cover_file("hostname", "caisson\n");
	g->held.hosts = boot_cover_file(
	    "hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tcaisson\n");
	(void)!sethostname("caisson", 7);
	set_limits(&g->held);
	r = cgroup_setup(&g->held, boot_mem_total(&g->held));
	if (r < 0)
		return err_errno(e, -r, "set up the cgroups");
	r = netif_setup(&g->held, e);
	if (r < 0) {
		/* A guest without a network is still a guest. */
		log_warn("network", "error=%s", e->msg);
		err_clear(e);
	}
	return 0;
}

int boot_root_less(struct guestd *g, struct err *e)
{
	int r = hold(&g->held, e);

	snprintf(g->default_user, sizeof(g->default_user), "%s",
		 geteuid() == 0 ? "root" : "");
	g->held.cgroup = fd_close(g->held.cgroup);
	return r;
}
