/* SPDX-License-Identifier: Apache-2.0 */

/* doctor --boundary: what of ours can be reached, and with which rights it
 * runs, compared with the table below. From /proc and the run folder alone. */

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"
#include "cli/cg.h"
#include "cli/doctor.h"
#include "cli/guestnet.h"

#define SMALL_FILE (1u << 20)
#define PIDS_MAX   4096u

/* What each daemon is. */
static const struct {
	const char *program, *user;
	bool listens; /* on TCP */
} expected[] = {
	{ "caisson-noded", "root", false },
	{ "caisson-storaged", "caisson-store", false },
	{ "caisson-sandboxd", "caisson-node", false },
	{ "caisson-api", "caisson", true },
	{ "caisson-controller", "caisson", false },
	{ "postgres", "caisson-db", false },
	{ "caisson", "root", false }, /* the supervisor */
};

struct process {
	pid_t pid;
	char program[64];
	long long uid, caps, nnp, seccomp;
};

struct processes {
	struct process v[PIDS_MAX];
	size_t n;
};

long long proc_status(const char *text, const char *name, int base)
{
	size_t n = strlen(name);

	for (const char *p = text; p; p = strchr(p, '\n'), p += p ? 1 : 0) {
		if (!strncmp(p, name, n) && p[n] == ':')
			return strtoll(p + n + 1, NULL, base);
	}
	return -1;
}

bool proc_listener(const char *line, bool v6, unsigned *ret_port,
		   unsigned long *ret_inode, bool *ret_loopback)
{
	/* sl local remote st tx:rx tr:when retrnsmt uid timeout inode … */
	const char *field[10];
	size_t n = v6 ? 32 : 8;

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		line += strspn(line, " ");
		if (!*line)
			return false;
		field[i] = line;
		line += strcspn(line, " ");
	}
	if (strspn(field[1], "0123456789ABCDEF") != n || field[1][n] != ':' ||
	    strtoul(field[3], NULL, 16) != 0x0a)
		return false;
	*ret_port = (unsigned)strtoul(field[1] + n + 1, NULL, 16);
	*ret_inode = strtoul(field[9], NULL, 10);
	*ret_loopback =
	    v6 ? !strncmp(field[1], "00000000000000000000000001000000", n)
	       : !strncmp(field[1] + 6, "7F", 2);
	return true;
}

static void add_process(struct processes *all, pid_t pid)
{
	owned_str exe = xasprintf("/proc/%d/exe", (int)pid);
	owned_str path = xasprintf("/proc/%d/status", (int)pid);
	owned_str text = NULL;
	char target[512];
	struct process *p;
	char *slash;
	ssize_t k = readlink(exe, target, sizeof(target) - 1);
	size_t n;

	if (k <= 0 || all->n == PIDS_MAX ||
	    file_read(path, SMALL_FILE, &text, &n, NULL) < 0)
		return;
	target[k] = '\0';
	slash = strrchr(target, '/');
	p = &all->v[all->n++];
	p->pid = pid;
	snprintf(p->program, sizeof(p->program), "%.60s",
		 slash ? slash + 1 : target);
	p->program[strcspn(p->program, " ")] = '\0'; /* " (deleted)" */
	p->uid = proc_status(text, "Uid", 10);
	p->caps = proc_status(text, "CapEff", 16);
	p->nnp = proc_status(text, "NoNewPrivs", 10);
	p->seccomp = proc_status(text, "Seccomp", 10);
}

/* Every process of a group and of those below. */
static void add_group(struct processes *all, const char *path, unsigned depth)
{
	owned_str procs = xasprintf("%s/cgroup.procs", path);
	owned_str text = NULL;
	struct dirent *entry;
	DIR *dir;
	size_t n;

	if (file_read(procs, SMALL_FILE, &text, &n, NULL) == 0) {
		char *rest = text, *line;
		int64_t pid;

		while ((line = strsep(&rest, "\n"))) {
			if (text_int(line, 1, INT32_MAX, &pid))
				add_process(all, (pid_t)pid);
		}
	}
	dir = depth < 8 ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir))) {
		owned_str below = xasprintf("%s/%s", path, entry->d_name);

		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			add_group(all, below, depth + 1);
	}
	if (dir)
		closedir(dir);
}

/* ---- rights ---- */

static void check_daemon(struct doctor *d, const struct process *p)
{
	uid_t uid = (uid_t)-1;
	struct err e = { 0 };
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		if (strcmp(p->program, expected[i].program) != 0)
			continue;
		known = true;
		user_lookup(expected[i].user, &uid, NULL, &e);
		doctor_say(
		    d,
		    (long long)uid == p->uid && (p->uid == 0 || p->caps == 0)
			? FINDING_OK
			: FINDING_FAIL,
		    p->program, "sudo caisson down; sudo caisson up",
		    "pid %d uid %lld (should be %s) caps %llx "
		    "no-new-privs %lld",
		    (int)p->pid, p->uid, expected[i].user, p->caps, p->nnp);
	}
	if (!known)
		doctor_say(d, p->uid == 0 ? FINDING_FAIL : FINDING_WARN,
			   p->program, "find out who started it",
			   "pid %d uid %lld is among the daemons and none of "
			   "them",
			   (int)p->pid, p->uid);
}

static bool own_net(pid_t pid)
{
	owned_str path = xasprintf("/proc/%d/ns/net", (int)pid);
	struct stat here, there;

	return stat("/proc/self/ns/net", &here) == 0 &&
	       stat(path, &there) == 0 && here.st_ino != there.st_ino;
}

/* A VM, its monitor and its workers: uids of the slots, no rights. */
static void check_slot(struct doctor *d, const struct process *p)
{
	int64_t base = d->stack->uid_base;
	bool is_vm = !strncmp(p->program, "qemu", 4);
	bool good = p->uid >= base && p->caps == 0 && p->nnp == 1;

	if (is_vm)
		good = good && own_net(p->pid);
	doctor_say(d, good ? FINDING_OK : FINDING_FAIL, p->program,
		   "end its sandbox; this is a fault to be reported",
		   "pid %d uid %lld caps %llx no-new-privs %lld seccomp %lld%s",
		   (int)p->pid, p->uid, p->caps, p->nnp, p->seccomp,
		   !is_vm	     ? ""
		   : own_net(p->pid) ? ", a network of its own"
				     : ", the host's network");
}

/* ---- listeners ---- */

static const struct process *owner_of(const struct processes *all,
				      unsigned long inode)
{
	char want[64], target[64];

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	for (size_t i = 0; i < all->n; i++) {
		owned_str path = xasprintf("/proc/%d/fd", (int)all->v[i].pid);
		DIR *dir = opendir(path);
		struct dirent *entry;
		bool found = false;

		while (dir && !found && (entry = readdir(dir))) {
			ssize_t k = readlinkat(dirfd(dir), entry->d_name,
					       target, sizeof(target) - 1);

			target[k > 0 ? k : 0] = '\0';
			found = !strcmp(target, want);
		}
		if (dir)
			closedir(dir);
		if (found)
			return &all->v[i];
	}
	return NULL;
}

static void check_listeners(struct doctor *d, const struct processes *all,
			    const char *path, bool v6)
{
	owned_str text = NULL;
	char *rest, *line;
	size_t n;

	if (file_read(path, 16u << 20, &text, &n, NULL) < 0)
		return;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		const struct process *p;
		unsigned long inode;
		unsigned port;
		bool loopback, may = false;

		if (!proc_listener(line, v6, &port, &inode, &loopback) ||
		    !(p = owner_of(all, inode)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
			may = may || (expected[i].listens &&
				      !strcmp(expected[i].program, p->program));
		doctor_say(d,
			   !may	      ? FINDING_FAIL
			   : loopback ? FINDING_OK
				      : FINDING_WARN,
			   "listener",
			   may ? "put TLS and a firewall before it, or listen "
				 "on 127.0.0.1"
			       : "nothing but the API may listen on TCP",
			   "%s port %u, %s", p->program, port,
			   loopback ? "this machine alone"
				    : "reachable from elsewhere");
	}
}

/* ---- sockets ---- */

static void check_sockets(struct doctor *d)
{
	DIR *dir = opendir(d->stack->run);
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (fstatat(dirfd(dir), entry->d_name, &st,
			    AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISSOCK(st.st_mode))
			continue;
		doctor_say(d, st.st_mode & 0007 ? FINDING_FAIL : FINDING_OK,
			   "socket", "sudo caisson down; sudo caisson up",
			   "%s %04o uid %u gid %u", entry->d_name,
			   st.st_mode & 07777, st.st_uid, st.st_gid);
	}
	if (dir)
		closedir(dir);
}

/* Only a slot with a VM has a guest. */
static void check_guest(struct doctor *d, const struct processes *slots,
			size_t from, const char *slot)
{
	for (size_t i = from; i < slots->n; i++) {
		if (!strncmp(slots->v[i].program, "qemu", 4)) {
			guestnet_check(d, slot);
			return;
		}
	}
}

static void add_slots(struct doctor *d, struct processes *slots,
		      const char *top)
{
	DIR *dir = opendir(top);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		owned_str path = xasprintf("%s/%s", top, entry->d_name);
		size_t from = slots->n;

		if (strncmp(entry->d_name, "slot-", 5) != 0)
			continue;
		add_group(slots, path, 0);
		check_guest(d, slots, from, entry->d_name + 5);
	}
	if (dir)
		closedir(dir);
}

void doctor_boundary(struct doctor *d)
{
	struct processes *daemons = xnew(struct processes);
	struct processes *slots = xnew(struct processes);
	owned_str root = cg_root();
	owned_str top = xasprintf("%s/%s", root ? root : "", d->stack->cgroup);
	owned_str dpath = xasprintf("%s/daemons", top);

	if (geteuid() != 0)
		doctor_say(d, FINDING_FAIL, "root",
			   "sudo caisson doctor "
			   "--boundary",
			   "needed to see whose sockets are "
			   "whose");
	add_group(daemons, dpath, 0);
	if (daemons->n == 0)
		doctor_say(d, FINDING_FAIL, "daemons", "sudo caisson up",
			   "none runs in %s", dpath);
	check_listeners(d, daemons, "/proc/net/tcp", false);
	check_listeners(d, daemons, "/proc/net/tcp6", true);
	for (size_t i = 0; i < daemons->n; i++)
		check_daemon(d, &daemons->v[i]);
	add_slots(d, slots, top);
	for (size_t i = 0; i < slots->n; i++)
		check_slot(d, &slots->v[i]);
	check_sockets(d);
	free(daemons);
	free(slots);
}
