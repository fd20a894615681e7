/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/slot.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "noded/slotnet.h"

#define BUILD_TIMEOUT_MS   10000
#define EMPTY_TIMEOUT_MS   20000 /* killed processes, until they are gone */
#define DESTROY_TIMEOUT_MS 30000

#define MIB ((uint64_t)1 << 20)
/* tb-size=64, plus QEMU itself */
#define VMM_EXTRA_MIB	 256u
#define VMM_PIDS_MAX	 256u
#define MONITOR_MEM_MIB	 128u
#define MONITOR_PIDS_MAX 16u

static void close_slot_fds(struct slot *s)
{
	s->tap = fd_close(s->tap);
	for (size_t i = 0; i < SLOT_SOCKS; i++)
		s->socks[i] = fd_close(s->socks[i]);
}

static struct slot *slot_of(struct proc *p, bool *ret_is_vmm)
{
	*ret_is_vmm = p->is_vmm;
	return p->is_vmm ? container_of(p, struct slot, vmm)
			 : container_of(p, struct slot, monitor);
}

static void on_started(struct proc *p, const struct err *e)
{
	bool is_vmm;
	struct slot *s = slot_of(p, &is_vmm);

	/* the VMM has the listeners now; a copy here would keep them open
	 * after its death */
	if (is_vmm && !e)
		for (size_t i = 0; i < SLOT_SOCKS; i++)
			s->socks[i] = fd_close(s->socks[i]);
	s->ops->on_started(s, is_vmm, e);
}

static void on_ended(struct proc *p, int status, const char *said)
{
	bool is_vmm;
	struct slot *s = slot_of(p, &is_vmm);

	s->ops->on_ended(s, is_vmm, status, said);
	if (s->is_gone && !s->vmm.pid && !s->monitor.pid)
		s->ops->on_destroyed(s, NULL);
}

struct slot *slot_new(struct loop *l, const struct noded_conf *conf,
		      const struct cgroups *g, const struct slot_ops *ops,
		      void *owner, unsigned number)
{
	struct slot *s = xnew(struct slot);

	s->number = number;
	s->state = NODED_SLOT_READY;
	s->loop = l;
	s->conf = conf;
	s->cgroups = g;
	s->ops = ops;
	s->owner = owner;
	s->job.sock = s->tap = -1;
	for (size_t i = 0; i < SLOT_SOCKS; i++)
		s->socks[i] = -1;
	proc_init(&s->vmm, l, on_started, on_ended);
	proc_init(&s->monitor, l, on_started, on_ended);
	s->vmm.is_vmm = true;
	return s;
}

struct slot *slot_free(struct slot *s)
{
	if (!s)
		return NULL;
	worker_stop(&s->job);
	proc_fini(&s->vmm);
	proc_fini(&s->monitor);
	close_slot_fds(s);
	free(s);
	return NULL;
}

/* Build: in the worker. */

static int build(void *arg, struct worker_report *rep, int *ret_fds,
		 size_t *ret_n_fds, struct err *e)
{
	struct slot *s = arg;
	int r, tap = -1;

	r = slotdir_create(s->conf, s->number, ret_fds, e);
	if (r < 0)
		return r;
	r = cgroup_create(s->cgroups, s->number, e);
	if (r < 0)
		return r;
	r = slotnet_build(s->conf->nft, &tap, &rep->a, e);
	if (r < 0)
		return r;
	r = slotdir_keep_netns(s->conf, s->number, e);
	if (r < 0)
		return r;
	ret_fds[SLOT_SOCKS] = tap;
	*ret_n_fds = SLOT_SOCKS + 1;
	return 0;
}

static void on_built(struct worker *w, const struct worker_report *rep,
		     int *fds, size_t n_fds)
{
	struct slot *s = container_of(w, struct slot, job);
	struct err ignored = { 0 };

	s->is_building = false;
	if (rep->r < 0 || n_fds != SLOT_SOCKS + 1) {
		err_set(&s->why, rep->r < 0 ? rep->r : -EIO,
			(enum err_kind)rep->kind, "slot %u: %s", s->number,
			rep->msg);
		if (slot_destroy(s, &ignored) < 0)
			s->ops->on_built(s, &s->why);
		return;
	}
	for (size_t i = 0; i < SLOT_SOCKS; i++)
		s->socks[i] = take_fd(&fds[i]);
	s->tap = take_fd(&fds[SLOT_SOCKS]);
	s->netns = rep->a;
	s->ops->on_built(s, NULL);
	if (s->destroy_wanted && slot_destroy(s, &ignored) < 0)
		s->ops->on_destroyed(s, &ignored);
}

int slot_build(struct slot *s, struct err *e)
{
	int r;

	s->since_us = now_mono_us();
	r = worker_start(s->loop, &s->job, build, s, BUILD_TIMEOUT_MS, on_built,
			 e);
	s->is_building = r == 0;
	return r;
}

/* Destroy: in the worker. */

struct destroy {
	struct slot *s;
	int go[2];
};

static int destroy(void *arg, struct worker_report *rep, int *ret_fds,
		   size_t *ret_n_fds, struct err *e)
{
	struct destroy *d = arg;
	struct slot *s = d->s;
	char c;
	int r;

	(void)rep;
	(void)ret_fds;
	*ret_n_fds = 0;
	/* Go on only when the parent has closed its copy of the tap: the last
	 * close takes 30 ms and more, and must be ours. */
	close(d->go[1]);
	while (read(d->go[0], &c, 1) < 0 && errno == EINTR)
		;
	r = cgroup_kill(s->cgroups, s->number, CGROUP_SLOT);
	if (r < 0)
		return err_errno(e, -r, "kill the slot's processes: %m");
	r = cgroup_wait_empty(s->cgroups, s->number, EMPTY_TIMEOUT_MS);
	if (r < 0)
		return err_errno(e, -r, "the slot's processes do not end: %m");
	s->tap = fd_close(s->tap);
	r = slotdir_remove(s->conf, s->number, e);
	if (r < 0)
		return r;
	r = cgroup_remove(s->cgroups, s->number);
	if (r < 0)
		return err_errno(e, -r, "remove the slot's cgroup: %m");
	return 0;
}

static void on_destroyed(struct worker *w, const struct worker_report *rep,
			 int *fds, size_t n_fds)
{
	struct slot *s = container_of(w, struct slot, job);
	struct err e = { 0 };

	(void)fds;
	(void)n_fds;
	if (rep->r < 0)
		err_set(&e, rep->r, (enum err_kind)rep->kind, "slot %u: %s",
			s->number, rep->msg);
	if (s->why.code < 0) {
		if (e.code < 0)
			err_wrap(&s->why, "%s; and undoing it", e.msg);
		s->ops->on_built(s, &s->why);
		return;
	}
	/* An empty cgroup may still have our zombies: their ends are on the
	 * way, and a slot freed before them would never reap them. */
	s->is_gone = e.code == 0;
	if (e.code < 0)
		s->ops->on_destroyed(s, &e);
	else if (!s->vmm.pid && !s->monitor.pid)
		s->ops->on_destroyed(s, NULL);
}

int slot_destroy(struct slot *s, struct err *e)
{
	struct destroy d = { .s = s };
	int r;

	s->destroy_wanted = true;
	if (s->job.proc.io.loop || s->is_gone) /* building, or dying already */
		return 0;
	if (pipe2(d.go, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe: %m");
	s->since_us = now_mono_us();
	s->state = NODED_SLOT_DYING;
	r = worker_start(s->loop, &s->job, destroy, &d, DESTROY_TIMEOUT_MS,
			 on_destroyed, e);
	if (r == 0)
		close_slot_fds(s);
	close(d.go[0]);
	close(d.go[1]);
	return r;
}

int slot_adopt(struct slot *s, struct err *e)
{
	char path[SLOT_PATH_MAX];
	struct stat st;
	pid_t vmm = cgroup_leader(s->cgroups, s->number, CGROUP_VMM);
	pid_t monitor = cgroup_leader(s->cgroups, s->number, CGROUP_MONITOR);
	int r = 0;

	/* Without a VMM the tap died with the noded before us. */
	slotdir_path(s->conf, s->number, "netns", path);
	if (vmm == 0 || stat(path, &st) < 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND,
			       "slot %u: no VMM lives in it", s->number);
	s->netns = st.st_ino;
	s->had_vmm = true;
	r = proc_adopt(&s->vmm, vmm, e);
	if (r == 0 && monitor)
		r = proc_adopt(&s->monitor, monitor, e);
	return r < 0 ? -ENOENT : 0;
}

/* Spawning. */

static int open_exe(const char *path, int *ret, struct err *e)
{
	*ret = open(path, O_PATH | O_CLOEXEC);
	if (*ret < 0)
		return err_errno(e, errno, "program %s: %m", path);
	return 0;
}

static int enter_cgroup(const struct slot *s, enum cgroup_role role,
			uint64_t bytes, unsigned pids, int *ret, struct err *e)
{
	int r = cgroup_limit(s->cgroups, s->number, role, bytes, pids, e);

	if (r < 0)
		return r;
	*ret = cgroup_fd(s->cgroups, s->number, role);
	if (*ret < 0)
		return err_errno(e, -*ret, "slot %u: cgroup: %m", s->number);
	return 0;
}

static int kvm_group(gid_t *ret, struct err *e)
{
	struct stat st;

	if (stat("/dev/kvm", &st) < 0)
		return err_errno(e, errno, "/dev/kvm: %m");
	*ret = st.st_gid;
	return 0;
}

static void vmm_fds(const struct slot *s, struct jail *j, const int *extra,
		    size_t n_extra)
{
	for (size_t i = 0; i < SLOT_SOCKS; i++)
		j->fds[j->n_fds++] = s->socks[i];
	j->fds[j->n_fds++] = s->tap;
	for (size_t i = 0; i < n_extra; i++)
		j->fds[j->n_fds++] = extra[i];
}

int slot_spawn_vmm(struct slot *s, const struct noded_req *q, const int *fds,
		   size_t n_fds, struct err *e)
{
	static const char *const envp[] = { "LD_PRELOAD=/caisson/shim.so",
					    "CAISSON_SHIM=1", NULL };
	char build_at[SLOT_PATH_MAX], shim[SLOT_PATH_MAX];
	owned_fd exe = -1, cgroup = -1;
	struct jail j = { .build_at = build_at,
			  .shim = shim,
			  .kvm = q->flags & NODED_SPAWN_KVM,
			  .uid = conf_vmm_uid(s->conf, s->number),
			  .max_fds = 1024,
			  .max_procs = VMM_PIDS_MAX,
			  .argv_fd = fds[0],
			  .envp = envp };
	/* twice the memory: while a checkpoint is written, its frozen image
	 * and the running guest may come to differ everywhere */
	uint64_t bytes = (2ull * q->mem_mib + VMM_EXTRA_MIB) * MIB;
	int r;

	if (s->had_vmm || s->tap < 0)
		return err_set(e, -EALREADY, ERR_CONFLICT,
			       "slot %u has had its VMM; destroy it and make "
			       "another",
			       s->number);
	snprintf(build_at, sizeof(build_at), "%s/slots", s->conf->run);
	snprintf(shim, sizeof(shim), "%s/caisson-shim.so", s->conf->libexec);
	vmm_fds(s, &j, fds + 1, n_fds - 1);
	r = j.kvm ? kvm_group(&j.group, e) : 0;
	r = r < 0 ? r : open_exe(s->conf->qemu, &exe, e);
	r = r < 0
		? r
		: enter_cgroup(s, CGROUP_VMM, bytes, VMM_PIDS_MAX, &cgroup, e);
	if (r < 0)
		return r;
	j.exe_fd = exe;
	s->since_us = now_mono_us();
	r = proc_start(&s->vmm, &j, cgroup, true, e);
	s->had_vmm = r == 0;
	return r;
}

int slot_spawn_monitor(struct slot *s, struct err *e)
{
	char build_at[SLOT_PATH_MAX], dir[SLOT_PATH_MAX], exe_path[512];
	char number[16], node_uid[16], log[64];
	const char *const argv[] = { "caisson-monitor", "--slot", number,
				     "--node-uid",	node_uid, NULL };
	const char *level = getenv("CAISSON_LOG");
	const char *const envp[] = { level ? log : NULL, NULL };
	owned_fd exe = -1, cgroup = -1, mon = -1;
	struct jail j = { .build_at = build_at,
			  .slot_dir = dir,
			  .uid = conf_monitor_uid(s->conf, s->number),
			  .max_fds = 1024,
			  .max_procs = MONITOR_PIDS_MAX,
			  .stderr_fd = STDERR_FILENO,
			  .argv_fd = -1,
			  .argv = argv,
			  .envp = envp };
	int r;

	if (s->monitor.pid)
		return err_set(e, -EEXIST, ERR_EXISTS,
			       "slot %u: its monitor still lives", s->number);
	snprintf(build_at, sizeof(build_at), "%s/slots", s->conf->run);
	slotdir_path(s->conf, s->number, "", dir);
	snprintf(exe_path, sizeof(exe_path), "%s/caisson-monitor",
		 s->conf->libexec);
	snprintf(number, sizeof(number), "%u", s->number);
	snprintf(node_uid, sizeof(node_uid), "%u", s->conf->node_uid);
	snprintf(log, sizeof(log), "CAISSON_LOG=%s", level ? level : "");
	r = open_exe(exe_path, &exe, e);
	r = r < 0 ? r : cgroup_renew(s->cgroups, s->number, CGROUP_MONITOR, e);
	r = r < 0 ? r
		  : enter_cgroup(s, CGROUP_MONITOR, MONITOR_MEM_MIB * MIB,
				 MONITOR_PIDS_MAX, &cgroup, e);
	if (r < 0)
		return r;
	mon = slotdir_listen_mon(s->conf, s->number, e);
	if (mon < 0)
		return mon;
	j.exe_fd = exe;
	j.fds[j.n_fds++] = mon;
	s->since_us = now_mono_us();
	return proc_start(&s->monitor, &j, cgroup, false, e);
}
