/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/noded.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "noded/client.h"
#include "noded/request.h"
#include "noded/table.h"

#define LOCK_TRIES    50 /* a dead noded's last helper may hold it briefly */
#define LOCK_PAUSE_MS 20

/* Requests. */

static void reply(struct client *c, const struct noded_req *q,
		  const struct err *e)
{
	client_reply(c, q->hdr.op, q->hdr.seq, q->slot, e, NULL, -1);
}

static void do_hello(struct noded *n, struct client *c,
		     const struct noded_req *q, const int *fds, size_t n_fds)
{
	const struct noded_rep rep = { .version = NODED_VERSION };

	(void)n;
	(void)fds;
	(void)n_fds;
	client_reply(c, q->hdr.op, q->hdr.seq, 0, NULL, &rep, -1);
}

static void do_kvm(struct noded *n, struct client *c, const struct noded_req *q,
		   const int *fds, size_t n_fds)
{
	owned_fd kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct err e = { 0 };

	(void)n;
	(void)fds;
	(void)n_fds;
	if (kvm < 0)
		err_errno(&e, errno, "/dev/kvm: %m");
	client_reply(c, q->hdr.op, q->hdr.seq, 0, kvm < 0 ? &e : NULL, NULL,
		     kvm);
}

static void do_create(struct noded *n, struct client *c,
		      const struct noded_req *q, const int *fds, size_t n_fds)
{
	struct err e = { 0 };
	struct entry *t = table_get(n, q->slot);

	(void)fds;
	(void)n_fds;
	if (t) {
		err_set(&e, -EEXIST, ERR_EXISTS, "slot %u is in use", q->slot);
		reply(c, q, &e);
		return;
	}
	t = table_add(n, q->slot);
	if (slot_build(t->slot, &e) < 0) {
		table_del(n, t);
		reply(c, q, &e);
		return;
	}
	asker_set(&t->create, c, q);
}

/* The entry of a slot that can take this request now, or NULL (answered). */
static struct entry *ready(struct noded *n, struct client *c,
			   const struct noded_req *q)
{
	struct entry *t = table_get(n, q->slot);
	struct err e = { 0 };

	if (!t)
		err_set(&e, -ENOENT, ERR_NOT_FOUND, "there is no slot %u",
			q->slot);
	else if (t->slot->state != NODED_SLOT_READY || t->slot->is_building ||
		 t->slot->destroy_wanted)
		err_set(&e, -EBUSY, ERR_CONFLICT,
			"slot %u is being made or destroyed", q->slot);
	else
		return t;
	reply(c, q, &e);
	return NULL;
}

static void do_spawn_monitor(struct noded *n, struct client *c,
			     const struct noded_req *q, const int *fds,
			     size_t n_fds)
{
	struct entry *t = ready(n, c, q);
	struct err e = { 0 };

	(void)fds;
	(void)n_fds;
	if (t && slot_spawn_monitor(t->slot, &e) < 0)
		reply(c, q, &e);
	else if (t)
		asker_set(&t->monitor, c, q);
}

static void do_spawn_vmm(struct noded *n, struct client *c,
			 const struct noded_req *q, const int *fds,
			 size_t n_fds)
{
	struct entry *t = ready(n, c, q);
	struct err e = { 0 };

	if (t && slot_spawn_vmm(t->slot, q, fds, n_fds, &e) < 0)
		reply(c, q, &e);
	else if (t)
		asker_set(&t->vmm, c, q);
}

static void do_kill(struct noded *n, struct client *c,
		    const struct noded_req *q, const int *fds, size_t n_fds)
{
	static const enum cgroup_role roles[] = {
		[NODED_WHO_ALL] = CGROUP_SLOT,
		[NODED_WHO_VMM] = CGROUP_VMM,
		[NODED_WHO_MONITOR] = CGROUP_MONITOR,
	};
	struct err e = { 0 };
	int r;

	(void)fds;
	(void)n_fds;
	if (!table_get(n, q->slot)) {
		err_set(&e, -ENOENT, ERR_NOT_FOUND, "there is no slot %u",
			q->slot);
		reply(c, q, &e);
		return;
	}
	r = cgroup_kill(&n->cgroups, q->slot, roles[q->who]);
	if (r < 0)
		err_errno(&e, -r, "slot %u: kill: %m", q->slot);
	reply(c, q, r < 0 ? &e : NULL);
}

static void do_destroy(struct noded *n, struct client *c,
		       const struct noded_req *q, const int *fds, size_t n_fds)
{
	struct entry *t = table_get(n, q->slot);
	struct err e = { 0 };
	struct asker *a;

	(void)fds;
	(void)n_fds;
	if (!t) {
		reply(c, q, NULL); /* nothing of it is left */
		return;
	}
	a = entry_destroy_asker(t);
	if (!a)
		err_set(&e, -EBUSY, ERR_CONFLICT,
			"slot %u: too many wait for its end", q->slot);
	else if (slot_destroy(t->slot, &e) == 0)
		asker_set(a, c, q);
	if (e.code < 0)
		reply(c, q, &e);
}

static void do_list(struct noded *n, struct client *c,
		    const struct noded_req *q, const int *fds, size_t n_fds)
{
	(void)fds;
	(void)n_fds;
	table_send_list(n, c, &q->hdr);
}

static void (*const handlers[NODED_OP_MAX_])(struct noded *, struct client *,
					     const struct noded_req *,
					     const int *, size_t) = {
	[NODED_HELLO] = do_hello,
	[NODED_SLOT_CREATE] = do_create,
	[NODED_SPAWN_MONITOR] = do_spawn_monitor,
	[NODED_SPAWN_VMM] = do_spawn_vmm,
	[NODED_KILL] = do_kill,
	[NODED_SLOT_DESTROY] = do_destroy,
	[NODED_LIST] = do_list,
	[NODED_KVM] = do_kvm,
};

void noded_handle(struct noded *n, struct client *c, const struct noded_req *q,
		  const int *fds, size_t n_fds)
{
	handlers[q->hdr.op](n, c, q, fds, n_fds);
}

/* Start. */

static int lock(struct noded *n, struct err *e)
{
	owned_str path = xasprintf("%s/noded.lock", n->conf.run);
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };

	n->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (n->lock < 0)
		return err_errno(e, errno, "%s: %m", path);
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(n->lock, LOCK_EX | LOCK_NB) == 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	return err_set(e, -EBUSY, ERR_CONFLICT,
		       "another caisson-noded serves %s (it holds %s); stop it "
		       "first, or give this one another --run",
		       n->conf.run, path);
}

static void adopt_or_destroy(struct noded *n, unsigned number)
{
	struct entry *t = table_add(n, number);
	struct err e = { 0 };

	if (slot_adopt(t->slot, &e) == 0) {
		log_info("slot_adopted", "slot=%u vmm=%d monitor=%d", number,
			 (int)t->slot->vmm.pid, (int)t->slot->monitor.pid);
		return;
	}
	log_info("slot_left_over", "slot=%u", number);
	if (slot_destroy(t->slot, &e) < 0)
		log_error("slot_destroy", "slot=%u error=%s", number, e.msg);
}

/* A slot exists if it has a directory or a cgroup. */
static int find_slots(struct noded *n, struct err *e)
{
	char path[SLOT_PATH_MAX];

	for (unsigned i = 0; i < NODED_SLOTS_MAX; i++) {
		slotdir_path(&n->conf, i, "", path);
		if (access(path, F_OK) == 0 || cgroup_exists(&n->cgroups, i))
			adopt_or_destroy(n, i);
		else if (errno != ENOENT)
			return err_errno(e, errno, "%s: %m", path);
	}
	return 0;
}

int noded_new(struct loop *l, const struct noded_conf *conf, struct noded **ret,
	      struct err *e)
{
	OWNED(noded_free_p) struct noded *n = xnew(struct noded);
	int r;

	n->loop = l;
	n->conf = *conf;
	n->lock = n->listen = n->cgroups.dir = -1;
	list_init(&n->clients);
	r = slotdir_prepare(conf, e);
	r = r < 0 ? r : lock(n, e);
	r = r < 0 ? r : cgroups_open(&n->cgroups, conf->cgroup, e);
	if (r < 0)
		return r;
	log_info("cgroup_limits", "memory=%s pids=%s",
		 n->cgroups.has_memory ? "yes" : "none: no v2 controller",
		 n->cgroups.has_pids ? "yes" : "none: no v2 controller");
	r = find_slots(n, e);
	if (r < 0)
		return r;
	*ret = TAKE(n);
	return 0;
}

struct noded *noded_free(struct noded *n)
{
	if (!n)
		return NULL;
	loop_io_del(&n->listen_io);
	n->listen = fd_close(n->listen);
	clients_free(n);
	table_free(n);
	if (n->cgroups.dir >= 0)
		cgroups_close(&n->cgroups);
	n->lock = fd_close(n->lock);
	free(n);
	return NULL;
}

int noded_listen(struct noded *n, struct err *e)
{
	owned_str path = xasprintf("%s/noded.sock", n->conf.run);
	int r;

	n->listen = unix_listen(path, SOCK_SEQPACKET, 0600, e);
	if (n->listen < 0)
		return n->listen;
	if (chown(path, 0, n->conf.node_gid) < 0 || chmod(path, 0660) < 0)
		return err_errno(e, errno, "own %s: %m", path);
	r = loop_io_add(n->loop, &n->listen_io, n->listen, LOOP_IN,
			clients_accept);
	return r < 0 ? err_errno(e, -r, "watch %s", path) : 0;
}

int noded_cleanup(struct noded *n, struct err *e)
{
	owned_str slots = xasprintf("%s/slots", n->conf.run);
	uint64_t until = now_mono_us() + 60000000;
	int r;

	for (unsigned i = 0; i < NODED_SLOTS_MAX; i++) {
		struct entry *t = table_get(n, i);

		if (t && slot_destroy(t->slot, e) < 0)
			return e->code;
	}
	while (n->n_slots > 0 && now_mono_us() < until)
		loop_once(n->loop, 1000);
	if (n->n_slots > 0)
		return err_set(e, -EBUSY, ERR_CONFLICT,
			       "%u slots could not be removed; see the log",
			       n->n_slots);
	if (rmdir(slots) < 0 && errno != ENOENT)
		return err_errno(e, errno, "remove %s: %m", slots);
	cgroups_close(&n->cgroups);
	/* The kernel says busy for a moment after the last process of a group
	 * was reaped, longer on a loaded machine. */
	while ((r = cgroups_remove(n->conf.cgroup)) == -EBUSY &&
	       now_mono_us() < until)
		loop_once(n->loop, 20);
	return r < 0 ? err_errno(e, -r, "remove cgroup %s: %m", n->conf.cgroup)
		     : 0;
}
