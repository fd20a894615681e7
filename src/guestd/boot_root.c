/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/boot_root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"

#define NEW_ROOT "/newroot"

int boot_mount_kernel(struct err *e)
{
	static const struct {
		const char *type, *to;
	} kernel[] = {
		{ "devtmpfs", "/dev" },
		{ "proc", "/proc" },
		{ "sysfs", "/sys" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kernel); i++) {
		(void)mkdir(kernel[i].to, 0755);
		if (mount(kernel[i].type, kernel[i].to, kernel[i].type,
			  MS_NOSUID, NULL) < 0 &&
		    errno != EBUSY)
			return err_errno(e, errno, "mount %s", kernel[i].to);
	}
	return 0;
}

static void load_module(const char *name)
{
	char path[96];
	owned_fd fd = -1;

	snprintf(path, sizeof(path), "/modules/%s.ko", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 ||
	    (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		log_warn("module", "name=%s error=%m", name);
}

void boot_load_modules(void)
{
	owned_str order = NULL;
	size_t n = 0;
	char *line, *end;
	struct err e = { 0 };

	if (file_read("/modules/order", 4096, &order, &n, &e) < 0) {
		log_warn("modules", "error=%s", e.msg);
		return;
	}
	for (line = order; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (*line && !strchr(line, '/'))
			load_module(line);
	}
}

static void wait_for(const char *path, unsigned timeout_ms)
{
	static const struct timespec step = { .tv_nsec = 2000000 };

	for (unsigned i = 0; i < timeout_ms / 2 && access(path, F_OK) < 0; i++)
		(void)nanosleep(&step, NULL);
}

int boot_mount_disk(struct err *e)
{
	wait_for("/dev/vda", 30000);
	(void)mkdir(NEW_ROOT, 0755);
	if (mount("/dev/vda", NEW_ROOT, "ext4", MS_NOATIME, NULL) < 0)
		return err_errno(e, errno,
				 "mount /dev/vda as the root file system");
	return 0;
}

/* The initramfs is memory: give back what is not needed any more. Our own text
 * stays, the kernel holds it. */
static void empty_dir(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *f;

	while (d && (f = readdir(d)))
		if (f->d_type == DT_REG)
			(void)unlinkat(dirfd(d), f->d_name, 0);
	if (d)
		closedir(d);
	(void)rmdir(path);
}

int boot_switch_root(struct err *e)
{
	static const char *const moved[] = { "dev", "proc", "sys" };
	char from[32], to[48];

	(void)unlink("/init");
	empty_dir("/modules");
	for (size_t i = 0; i < ARRAY_SIZE(moved); i++) {
		snprintf(from, sizeof(from), "/%s", moved[i]);
		snprintf(to, sizeof(to), NEW_ROOT "/%s", moved[i]);
		(void)mkdir(to, 0755);
		if (mount(from, to, NULL, MS_MOVE, NULL) < 0)
			return err_errno(e, errno, "move %s into the root",
					 from);
	}
	if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 ||
	    chroot(".") < 0 || chdir("/") < 0)
		return err_errno(e, errno, "switch to the root file system");
	return 0;
}

static void mount_one(const char *type, const char *to, unsigned long flags,
		      const char *options)
{
	(void)mkdir(to, 0755);
	if (mount(type, to, type, flags, options) < 0)
		log_warn("mount", "to=%s error=%m", to);
}

void boot_mount_rest(void)
{
	static const char *const links[][2] = {
		{ "/proc/self/fd", "/dev/fd" },
		{ "/proc/self/fd/0", "/dev/stdin" },
		{ "/proc/self/fd/1", "/dev/stdout" },
		{ "/proc/self/fd/2", "/dev/stderr" },
	};

	mount_one("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
	mount_one("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC,
		  "mode=0620,ptmxmode=0666,gid=5");
	mount_one("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_one("cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		(void)!symlink(links[i][0], links[i][1]);
	(void)mkdir("/tmp", 01777);
	(void)mkdir("/run/lock", 01777);
}

/*
 * /etc/machine-id, hostname and hosts change with each life of a checkpoint, in
 * the main loop, which may not touch the root file system: so they are files of
 * the tmpfs, mounted over the names in /etc.
 */
int boot_cover_file(const char *name, const char *content)
{
	char in_run[64], in_etc[64];
	owned_fd fd = -1;

	(void)mkdir("/run/caisson", 0755);
	snprintf(in_run, sizeof(in_run), "/run/caisson/%s", name);
	snprintf(in_etc, sizeof(in_etc), "/etc/%s", name);
	fd = open(in_run, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	(void)write_all(fd, content, strlen(content));
	if (access(in_etc, F_OK) < 0)
		fd_close(open(in_etc, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	if (mount(in_run, in_etc, NULL, MS_BIND, NULL) < 0)
		log_warn("mount", "to=%s error=%m", in_etc);
	return take_fd(&fd);
}
