/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/user.h"

static const char *const users[] = { "caisson", "caisson-node", "caisson-store",
				     "caisson-db" };

static const char *find_program(const char *const *paths)
{
	for (; *paths; paths++) {
		if (access(*paths, X_OK) == 0)
			return *paths;
	}
	return NULL;
}

static const char *const useradd_paths[] = { "/usr/sbin/useradd",
					     "/sbin/useradd", NULL };
static const char *const nft_paths[] = { "/usr/sbin/nft", "/sbin/nft", NULL };
static const char *const qemu_paths[] = { "/usr/bin/qemu-system-x86_64", NULL };

void host_look(const struct stack *s, struct host_facts *ret)
{
	owned_str noded = xasprintf("%s/caisson-noded", s->libexec);

	*ret = (struct host_facts){
		.root = geteuid() == 0,
		.cgroup2 = s->cgroup_root != NULL,
		.tun = access("/dev/net/tun", F_OK) == 0,
		.qemu = find_program(qemu_paths) != NULL,
		.nft = find_program(nft_paths) != NULL,
		.postgres = s->pg_bin != NULL,
		.useradd = find_program(useradd_paths) != NULL,
		.parts = access(noded, X_OK) == 0,
		.needs_vm = strcmp(s->engine, "null") != 0,
	};
}

int host_missing(const struct host_facts *f, const char *libexec,
		 struct buf *out)
{
	const struct {
		bool there, wanted;
		const char *what, *package;
	} things[] = {
		{ f->qemu, f->needs_vm, "/usr/bin/qemu-system-x86_64 (the VMM)",
		  "qemu-system-x86" },
		{ f->nft, f->needs_vm, "nft (rules of the slots)", "nftables" },
		{ f->postgres, true,
		  "PostgreSQL 15 or newer in /usr/lib/postgresql",
		  "postgresql" },
		{ f->useradd, true, "useradd", "passwd" },
		{ f->tun, f->needs_vm,
		  "/dev/net/tun: `modprobe tun`, or pass it into this "
		  "container",
		  NULL },
		{ f->cgroup2, true,
		  "a cgroup v2 hierarchy: `mount -t cgroup2 none "
		  "/sys/fs/cgroup/unified`",
		  NULL },
	};
	int missing = 0, packages = 0;

	if (!f->root) {
		buf_puts(out, "missing: root: run `sudo caisson up`\n");
		missing++;
	}
	if (!f->parts) {
		buf_printf(out,
			   "missing: %s/caisson-noded: is the installation "
			   "complete?\n",
			   libexec);
		missing++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(things); i++) {
		if (things[i].there || !things[i].wanted)
			continue;
		buf_printf(out, "missing: %s\n", things[i].what);
		packages += things[i].package != NULL;
		missing++;
	}
	if (packages == 0)
		return missing;
	buf_puts(out, "remedy:  sudo apt install");
	for (size_t i = 0; i < ARRAY_SIZE(things); i++) {
		if (!things[i].there && things[i].wanted && things[i].package)
			buf_printf(out, " %s", things[i].package);
	}
	buf_puts(out, "\n");
	return missing;
}

static int add_user(const char *name, struct err *e)
{
	const char *argv[] = { find_program(useradd_paths),
			       "--system",
			       "--user-group",
			       "--no-create-home",
			       "--home-dir",
			       "/nonexistent",
			       "--shell",
			       "/usr/sbin/nologin",
			       name,
			       NULL };
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
					   "LC_ALL=C", NULL };
	struct spawn s = { .argv = argv,
			   .envp = env,
			   .exe_fd = -1,
			   .stdio = { -1, -1, STDERR_FILENO } };
	owned_fd pidfd = -1;
	pid_t pid;
	int status, r;

	r = spawn_start(&s, &pid, &pidfd, e);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -EIO, ERR_INTERNAL,
			       "useradd %s failed (see above)", name);
	return 0;
}

int host_users(struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		uid_t uid;
		gid_t gid;

		if (user_lookup(users[i], &uid, &gid, NULL) == 0)
			continue;
		/* somebody else may do the same just now */
		if (add_user(users[i], e) < 0 &&
		    user_lookup(users[i], &uid, &gid, NULL) < 0)
			return e->code;
	}
	return 0;
}

struct dir {
	const char *below; /* of run or data, "" = itself */
	const char *user, *group;
	mode_t mode;
};

static int make_dir(const char *base, const struct dir *d, struct err *e)
{
	owned_str path =
	    *d->below ? xasprintf("%s/%s", base, d->below) : xstrdup(base);
	uid_t uid = 0, group_uid;
	gid_t gid = 0, user_gid;
	int r;

	if (*d->below == '\0') {
		r = mkdir_p(path, 0755, e);
		if (r < 0)
			return r;
	} else if (mkdir(path, 0700) < 0 && errno != EEXIST) {
		return err_errno(e, errno, "mkdir %s", path);
	}
	if (d->user && user_lookup(d->user, &uid, &user_gid, e) < 0)
		return e->code;
	if (d->group && user_lookup(d->group, &group_uid, &gid, e) < 0)
		return e->code;
	if (lchown(path, uid, gid) < 0 || chmod(path, d->mode) < 0)
		return err_errno(e, errno, "owner and mode of %s", path);
	return 0;
}

int host_dirs(const struct stack *s, struct err *e)
{
	/*
	 * RUN is sticky and group-writable for the node's daemons, which bind
	 * their sockets in it by themselves; what is root's below it is made
	 * here, before any of them runs.
	 */
	static const struct dir run[] = {
		{ "", NULL, "caisson-node", 01775 },
		{ "slots", NULL, NULL, 0755 },
		{ "postgres", "caisson-db", "caisson", 0750 },
	};
	static const struct dir data[] = {
		{ "", NULL, NULL, 0755 },
		{ "log", NULL, NULL, 0750 },
		{ "store", "caisson-store", "caisson-store", 0750 },
		{ "build", NULL, NULL, 0700 },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(run); i++)
		r = make_dir(s->run, &run[i], e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(data); i++)
		r = make_dir(s->data, &data[i], e);
	return r;
}

char *host_log_path(const struct stack *s, const char *name)
{
	return xasprintf("%s/log/%s.log", s->data, name);
}
