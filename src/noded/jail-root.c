/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a jail: a tmpfs that becomes read-only, with the host's /usr
 * (libraries, firmware; nosuid, nodev, read-only) and what else the process is
 * shown. Made with descriptors only (open_tree, move_mount), so that nothing
 * depends on a path that someone could exchange.
 */
#include "noded/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

#define CLIMB_MAX 128

/* What may be shown. All are looked up before the old root goes away. */
enum source {
	SRC_USR,
	SRC_LIB,
	SRC_LIB64,
	SRC_BIN,
	SRC_SBIN,
	SRC_LD_CACHE,
	SRC_NULL,
	SRC_ZERO,
	SRC_URANDOM,
	SRC_KVM,
	SRC_SHIM,
	SRC_SLOT,
	SRC_MAX_,
};

struct shown {
	const char *from; /* NULL = not shown */
	const char *to;
	bool is_dir, may_lack;
	uint64_t attr; /* besides read-only and nosuid */
	int tree;
	bool deep;     /* with what is mounted below it */
	char link[64]; /* a symbolic link on the host: the same inside */
};

#define FOLDER(name, lacks)                                                    \
	{                                                                      \
		.from = "/" name, .to = name, .is_dir = true,                  \
		.may_lack = lacks, .attr = MOUNT_ATTR_NODEV, .tree = -1        \
	}
#define NODE(name)                                                             \
	{                                                                      \
		.from = "/" name, .to = name, .tree = -1                       \
	}

static void sources_init(struct shown *s, const struct jail *j)
{
	static const struct shown all[SRC_MAX_] = {
		[SRC_USR] = FOLDER("usr", false),
		[SRC_LIB] = FOLDER("lib", true),
		[SRC_LIB64] = FOLDER("lib64", true),
		[SRC_BIN] = FOLDER("bin", true),
		[SRC_SBIN] = FOLDER("sbin", true),
		[SRC_LD_CACHE] = { .from = "/etc/ld.so.cache",
				   .to = "etc/ld.so.cache",
				   .may_lack = true,
				   .attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
				   .tree = -1 },
		[SRC_NULL] = NODE("dev/null"),
		[SRC_ZERO] = NODE("dev/zero"),
		[SRC_URANDOM] = NODE("dev/urandom"),
		[SRC_KVM] = NODE("dev/kvm"),
		[SRC_SHIM] = { .to = "caisson/shim.so",
			       .attr = MOUNT_ATTR_NODEV,
			       .tree = -1 },
		[SRC_SLOT] = { .to = "slot",
			       .is_dir = true,
			       .attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
			       .tree = -1 },
	};

	memcpy(s, all, sizeof(all));
	s[SRC_USR].deep = true; /* parts of it may be mounts of their own */
	s[SRC_KVM].from = j->kvm ? "/dev/kvm" : NULL;
	s[SRC_SHIM].from = j->shim;
	s[SRC_SLOT].from = j->slot_dir;
}

/* A detached copy of what is at s->from, or its text if it is a link. */
static int source_open(struct shown *s)
{
	const unsigned recursive = s->deep ? AT_RECURSIVE : 0;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | s->attr,
		/* else it would stay a peer of the host's mount */
		.propagation = MS_PRIVATE,
	};
	ssize_t n = readlink(s->from, s->link, sizeof(s->link) - 1);

	if (n > 0 && s->is_dir) {
		s->link[n] = 0;
		return 0;
	}
	s->link[0] = 0;
	s->tree = open_tree(AT_FDCWD, s->from,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
	if (s->tree < 0)
		return errno == ENOENT && s->may_lack ? 0 : -errno;
	if (mount_setattr(s->tree, "", AT_EMPTY_PATH | recursive, &attr,
			  sizeof(attr)) < 0)
		return -errno;
	return 0;
}

static int source_show(const struct shown *s, int root)
{
	int fd;

	if (s->link[0])
		return symlinkat(s->link, root, s->to) < 0 ? -errno : 0;
	if (s->tree < 0)
		return 0;
	if (s->is_dir) {
		if (mkdirat(root, s->to, 0755) < 0)
			return -errno;
	} else {
		fd = openat(root, s->to,
			    O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	if (move_mount(s->tree, "", root, s->to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return close(s->tree);
}

/* An empty tmpfs, detached; a descriptor or -errno. */
static int tmpfs_new(void)
{
	owned_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int mnt;

	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", "64k", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "64", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mnt =
	    fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return mnt < 0 ? -errno : mnt;
}

/*
 * Make the root of the mount namespace our root. noded may itself live in a
 * chroot, whose root is no mount: neither pivot_root nor a change of
 * propagation would work from there, and the outer tree would stay behind the
 * jail. With CAP_SYS_CHROOT a chroot is no wall, so step over it.
 */
static int climb(int below)
{
	owned_fd old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat here, up;

	if (old < 0 || fchdir(below) < 0 || chroot(".") < 0)
		return -errno;
	/* outside of the root now, so ".." goes on past it */
	if (fchdir(old) < 0)
		return -errno;
	for (int i = 0; i < CLIMB_MAX; i++) {
		if (stat(".", &here) < 0 || stat("..", &up) < 0)
			return -errno;
		if (chdir("..") < 0)
			return -errno;
		if (here.st_dev == up.st_dev && here.st_ino == up.st_ino)
			return chroot(".") < 0 ? -errno : 0;
	}
	return -ELOOP;
}

/* The namespace's root may be an initramfs, which cannot be pivoted away. */
static int change_root(int root)
{
	if (fchdir(root) < 0)
		return -errno;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) < 0 ? -errno : 0;
	if (errno != EINVAL)
		return -errno;
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		return -errno;
	return chdir("/") < 0 ? -errno : 0;
}

static int fill(struct shown *s, int root)
{
	static const char *const dirs[] = { "etc", "dev", "caisson" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(root, dirs[i], 0755) < 0)
			return -errno;
	for (size_t i = 0; i < SRC_MAX_; i++) {
		int r = s[i].from ? source_show(&s[i], root) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

int jail_root_enter(const struct jail *j, int *ret_step)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	struct shown s[SRC_MAX_];
	owned_fd at = -1, root = -1;
	int r;

	*ret_step = JAIL_STEP_SOURCES;
	sources_init(s, j);
	for (size_t i = 0; i < SRC_MAX_; i++) {
		r = s[i].from ? source_open(&s[i]) : 0;
		if (r < 0)
			return r;
	}
	at = open(j->build_at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;

	*ret_step = JAIL_STEP_ROOT;
	r = climb(at);
	if (r < 0)
		return r;
	/* nothing we mount may reach the host */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	root = tmpfs_new();
	if (root < 0)
		return root;
	if (move_mount(root, "", at, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -errno;
	r = fill(s, root);
	if (r < 0)
		return r;

	*ret_step = JAIL_STEP_PIVOT;
	r = change_root(root);
	if (r < 0)
		return r;
	if (mount_setattr(AT_FDCWD, "/", 0, &ro, sizeof(ro)) < 0)
		return -errno;
	return chdir(j->slot_dir ? "/slot" : "/") < 0 ? -errno : 0;
}
