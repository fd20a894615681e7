/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/slotdir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"

/* enum slot_sock is the order of the VMM's descriptors */
_Static_assert((int)VMM_FD_CTL + SLOT_QMP == VMM_FD_QMP, "order");
_Static_assert((int)VMM_FD_CTL + SLOT_CHAN == VMM_FD_CHAN, "order");
_Static_assert((int)VMM_FD_CTL + SLOT_SERIAL == VMM_FD_SERIAL, "order");
_Static_assert((int)VMM_FD_CTL + SLOT_SOCKS == VMM_FD_TAP, "order");

static const char *const sock_names[SLOT_SOCKS] = {
	[SLOT_CTL] = "ctl",
	[SLOT_QMP] = "qmp",
	[SLOT_CHAN] = "chan",
	[SLOT_SERIAL] = "serial",
};

void slotdir_path(const struct noded_conf *c, unsigned slot, const char *name,
		  char ret[SLOT_PATH_MAX])
{
	snprintf(ret, SLOT_PATH_MAX, "%s/slots/%u%s%s", c->run, slot,
		 name[0] ? "/" : "", name);
}

int slotdir_prepare(const struct noded_conf *c, struct err *e)
{
	char path[SLOT_PATH_MAX];
	int r = mkdir_p(c->run, 0755, e);
	owned_fd fd = -1;
	struct stat st;

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/slots", c->run);
	/* others may pass (caisson-node connects to "mon") but not look */
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make %s: %m", path);
	/* RUN belongs to other users too: what they put here is not ours */
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, errno, "open %s: %m", path);
	if (st.st_uid != 0)
		return err_set(e, -EPERM, ERR_DENIED,
			       "%s belongs to uid %u; remove it, noded makes "
			       "its own",
			       path, st.st_uid);
	if (fchmod(fd, 0711) < 0)
		return err_errno(e, errno, "chmod %s: %m", path);
	return 0;
}

/* A listener that only uid, or else only group gid, may connect to. */
static int listen_for(const struct noded_conf *c, unsigned slot,
		      const char *name, int type, uid_t uid, gid_t gid,
		      struct err *e)
{
	char path[SLOT_PATH_MAX];
	int fd;

	slotdir_path(c, slot, name, path);
	fd = unix_listen(path, type, 0600, e);
	if (fd < 0)
		return fd;
	if ((!uid && chmod(path, 0660) < 0) || chown(path, uid, gid) < 0) {
		int r = err_errno(e, errno, "own %s: %m", path);

		close(fd);
		return r;
	}
	return fd;
}

int slotdir_create(const struct noded_conf *c, unsigned slot,
		   int ret_socks[SLOT_SOCKS], struct err *e)
{
	char path[SLOT_PATH_MAX];

	for (size_t i = 0; i < SLOT_SOCKS; i++)
		ret_socks[i] = -1;
	slotdir_path(c, slot, "", path);
	if (mkdir(path, 0711) < 0)
		return err_errno(e, errno, "make %s: %m", path);
	if (chmod(path, 0711) < 0) /* whatever the umask is */
		return err_errno(e, errno, "chmod %s: %m", path);
	for (size_t i = 0; i < SLOT_SOCKS; i++) {
		ret_socks[i] =
		    listen_for(c, slot, sock_names[i], SOCK_STREAM, 0,
			       (gid_t)conf_monitor_uid(c, slot), e);
		if (ret_socks[i] < 0)
			return ret_socks[i];
	}
	return 0;
}

int slotdir_listen_mon(const struct noded_conf *c, unsigned slot, struct err *e)
{
	return listen_for(c, slot, "mon", SOCK_SEQPACKET, c->node_uid, 0, e);
}

int slotdir_keep_netns(const struct noded_conf *c, unsigned slot, struct err *e)
{
	char path[SLOT_PATH_MAX];
	int fd;

	slotdir_path(c, slot, "netns", path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0)
		return err_errno(e, errno, "make %s: %m", path);
	close(fd);
	if (mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL) < 0)
		return err_errno(e, errno, "keep namespace at %s: %m", path);
	return 0;
}

int slotdir_remove(const struct noded_conf *c, unsigned slot, struct err *e)
{
	static const char *const names[] = { "netns", "ctl",	"qmp",
					     "chan",  "serial", "mon" };
	char path[SLOT_PATH_MAX];

	slotdir_path(c, slot, "netns", path);
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 &&
	    errno != ENOENT && errno != EINVAL) /* EINVAL: no mount */
		return err_errno(e, errno, "unmount %s: %m", path);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		slotdir_path(c, slot, names[i], path);
		if (unlink(path) < 0 && errno != ENOENT)
			return err_errno(e, errno, "remove %s: %m", path);
	}
	slotdir_path(c, slot, "", path);
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_errno(e, errno, "remove %s: %m", path);
	return 0;
}

int slotdir_number(const char *name)
{
	int n = 0;

	if (name[0] == 0 || (name[0] == '0' && name[1]))
		return -1;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return -1;
		n = n * 10 + (*name - '0');
		if (n >= (int)NODED_SLOTS_MAX)
			return -1;
	}
	return n;
}
