/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/vm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"
#include "proto/storaged.h"
#include "sandboxd/node.h"

#define SPAWN_TIMEOUT_MS 10000u
#define ASK_TIMEOUT_MS	 5000u
#define POLL_MS		 4u
#define DROP_TIMEOUT_MS	 10000u
#define DROP_RETRY_MS	 500u

static const struct peer_ops mon_ops;

static void became_ready(struct vm *v, const struct fault *f)
{
	loop_timer_del(&v->timer);
	call_cancel(&v->ask);
	v->argv_fd = fd_close(v->argv_fd);
	/* or a dropped overlay would keep its space */
	v->source.disk_fd = fd_close(v->source.disk_fd);
	for (size_t i = 0; i < v->n_extra; i++)
		v->extra[i] = fd_close(v->extra[i]);
	v->n_extra = 0;
	v->state = f ? VM_LOST : VM_READY;
	if (!f)
		log_info("vm_ready", "vm=%s slot=%u vmm_pid=%d adopted=%d",
			 v->id, v->slot->number, v->vmm.pid, v->is_adopted);
	v->ops->on_ready(v, f);
}

static void fail_making(struct vm *v, enum fault_from from, const char *doing,
			const struct err *e)
{
	struct fault f;

	fault_from_err(&f, from, doing, e);
	log_warn("vm_failed", "vm=%s why=%s", v->id, f.msg);
	became_ready(v, &f);
}

static void ask_status(struct vm *v);

static void on_poll(struct loop_timer *t)
{
	ask_status(container_of(t, struct vm, timer));
}

static void on_status(struct call *c, const struct answer *a)
{
	struct vm *v = container_of(c, struct vm, ask);
	const struct mon_rep *rep = a->msg;
	struct err e = { 0 };

	if (a->e) {
		fail_making(v, FAULT_FROM_MONITOR, "ask the monitor", a->e);
		return;
	}
	v->phase = rep->phase;
	if (rep->phase == MON_GONE) {
		err_set(&e, -EIO, ERR_INTERNAL, "%.*s",
			(int)sizeof(rep->msg) - 1, rep->msg);
		fail_making(v, FAULT_FROM_MONITOR, "start the VMM", &e);
		return;
	}
	if (v->is_adopted
		? rep->phase == MON_OPENED || rep->phase == MON_CONFIRMED
		: rep->phase == MON_WAITING) {
		became_ready(v, NULL);
		return;
	}
	if (v->is_adopted || loop_now_ms(v->node->loop) >= v->deadline_ms) {
		err_set(&e, -ETIMEDOUT,
			v->is_adopted ? ERR_CONFLICT : ERR_TIMEOUT,
			v->vmm_alive ? "the VMM is in phase %u"
				     : "the VMM ended in phase %u",
			rep->phase);
		fail_making(v, FAULT_FROM_MONITOR, "wait for the VMM", &e);
		return;
	}
	loop_timer_set(v->node->loop, &v->timer, POLL_MS, on_poll);
}

static void ask_status(struct vm *v)
{
	struct mon_req req = { .hdr.op = MON_STATUS,
			       .deadline_ms = ASK_TIMEOUT_MS };

	vm_call(v, &v->ask, &req, NULL, 0, ASK_TIMEOUT_MS, on_status);
}

static void connect_monitor(struct vm *v)
{
	owned_str path =
	    xasprintf("%s/slots/%u/mon", v->node->conf.run, v->slot->number);

	v->mon =
	    peer_new(v->node->loop, &peer_monitor, path, false, &mon_ops, v);
}

static void spawned_one(struct vm *v, bool is_vmm, const struct answer *a)
{
	const struct noded_rep *rep = a->msg;
	struct err e = { 0 };
	const char *doing = is_vmm ? "spawn the VMM" : "spawn the monitor";

	if (a->e) {
		fail_making(v, FAULT_FROM_NODED, doing, a->e);
		return;
	}
	if (a->n_fds != 1) {
		err_set(&e, -EPROTO, ERR_INTERNAL, "no pidfd came");
		fail_making(v, FAULT_FROM_NODED, doing, &e);
		return;
	}
	if (is_vmm)
		vm_watch(v, take_fd(&a->fds[0]), rep->pid, -1, 0);
	else
		vm_watch(v, -1, 0, take_fd(&a->fds[0]), rep->pid);
	if (!call_is_busy(&v->spawn_vmm) && !call_is_busy(&v->spawn_monitor))
		connect_monitor(v);
}

static void on_vmm(struct call *c, const struct answer *a)
{
	spawned_one(container_of(c, struct vm, spawn_vmm), true, a);
}

static void on_monitor(struct call *c, const struct answer *a)
{
	spawned_one(container_of(c, struct vm, spawn_monitor), false, a);
}

static void spawn_both(struct vm *v)
{
	struct noded_req req = { .hdr.op = NODED_SPAWN_VMM };
	int fds[3] = { v->argv_fd, v->extra[0], v->extra[1] };

	req.slot = v->slot->number;
	req.engine = NODED_ENGINE_QEMU;
	req.flags = v->size.kvm ? NODED_SPAWN_KVM : 0;
	req.vcpus = v->size.vcpus;
	req.mem_mib = v->size.memory_mib;
	peer_call(v->node->noded, &v->spawn_vmm, &req, sizeof(req), fds,
		  1 + v->n_extra, SPAWN_TIMEOUT_MS, on_vmm);
	req.hdr.op = NODED_SPAWN_MONITOR;
	peer_call(v->node->noded, &v->spawn_monitor, &req, sizeof(req), NULL, 0,
		  SPAWN_TIMEOUT_MS, on_monitor);
}

static void on_slot(struct slot_want *w, struct slot *s, const struct fault *f)
{
	struct vm *v = container_of(w, struct vm, want);

	if (!s) {
		became_ready(v, f);
		return;
	}
	v->slot = s;
	v->source.slot = s->number;
	spawn_both(v);
}

static void on_mon_up(struct peer *p)
{
	ask_status(peer_owner(p));
}

static void on_mon_down(struct peer *p, const struct err *e)
{
	struct vm *v = peer_owner(p);

	v->mon = peer_free(p);
	if (v->state == VM_MAKING)
		fail_making(v, FAULT_FROM_MONITOR, "reach the monitor", e);
	else
		vm_channel_lost(v, e);
}

static void on_mon_event(struct peer *p, const void *msg, size_t n)
{
	struct vm *v = peer_owner(p);
	const struct mon_rep *rep = msg;

	(void)n;
	if (rep->hdr.op == MON_EV_GONE)
		vm_told_gone(v, rep);
}

static const struct peer_ops mon_ops = {
	.on_up = on_mon_up,
	.on_down = on_mon_down,
	.on_event = on_mon_event,
};

static struct vm *vm_alloc(struct node *n, const struct vm_size *size,
			   const struct vm_ops *ops, void *owner)
{
	struct vm *v = xnew(struct vm);

	v->node = n;
	v->size = *size;
	v->ops = ops;
	v->owner = owner;
	v->argv_fd = v->extra[0] = v->extra[1] = -1;
	v->source.disk_fd = -1;
	list_init(&v->want.link);
	list_add_tail(&n->vms, &v->link);
	return v;
}

static void take_slot(struct loop_timer *t)
{
	struct vm *v = container_of(t, struct vm, timer);

	slots_take(&v->node->slots, &v->want, on_slot);
}

struct vm *vm_new(struct node *n, const struct vm_size *size, int argv_fd,
		  const int *extra, size_t n_extra, uint64_t timeout_ms,
		  const struct vm_ops *ops, void *owner)
{
	struct vm *v = vm_alloc(n, size, ops, owner);
	int *fds[3] = { &v->argv_fd, &v->extra[0], &v->extra[1] };

	CHECK(n_extra <= 2);
	memcpy(v->id, "vm-", 3);
	random_id(v->id + 3, 20);
	v->deadline_ms = loop_now_ms(n->loop) + timeout_ms;
	v->n_extra = n_extra;
	for (size_t i = 0; i < n_extra + 1; i++) {
		*fds[i] = fcntl(i ? extra[i - 1] : argv_fd, F_DUPFD_CLOEXEC, 3);
		CHECK(*fds[i] >= 0);
	}
	/* From the loop, so that on_ready never comes from within. */
	loop_timer_set(n->loop, &v->timer, 0, take_slot);
	return v;
}

static void adopt_failed(struct loop_timer *t)
{
	struct vm *v = container_of(t, struct vm, timer);
	struct fault f;

	fault_set(&f, FAULT_VM, "its process is gone");
	became_ready(v, &f);
}

struct vm *vm_adopt(struct node *n, const struct journal *j, int vmm_pid,
		    int monitor_pid, uint64_t netns, const struct vm_ops *ops,
		    void *owner)
{
	struct vm_size size = { j->vcpus, j->memory_mib, j->kvm != 0 };
	struct vm *v = vm_alloc(n, &size, ops, owner);
	int vmm_fd = -1, monitor_fd = -1;

	memcpy(v->id, j->vm, sizeof(v->id) - 1);
	v->is_adopted = true;
	v->has_overlay = true;
	v->slot = slots_adopt(&n->slots, j->slot, netns);
	CHECK(v->slot);
	v->source.slot = j->slot;
	v->source.cpu_base_ms = j->cpu_base_ms;
	if (vmm_pid > 0)
		vmm_fd = (int)syscall(SYS_pidfd_open, vmm_pid, 0);
	if (monitor_pid > 0)
		monitor_fd = (int)syscall(SYS_pidfd_open, monitor_pid, 0);
	vm_watch(v, vmm_fd, vmm_pid, monitor_fd, monitor_pid);
	if (vmm_fd < 0 || monitor_fd < 0)
		loop_timer_set(n->loop, &v->timer, 0, adopt_failed);
	else
		connect_monitor(v);
	return v;
}

int vm_call(struct vm *v, struct call *c, struct mon_req *req, const int *fds,
	    size_t n_fds, uint64_t timeout_ms,
	    void (*on_done)(struct call *, const struct answer *))
{
	if (!v->mon)
		return -EPIPE;
	peer_call(v->mon, c, req, sizeof(*req), fds, n_fds, timeout_ms,
		  on_done);
	return 0;
}

static void quiet(struct vm *v)
{
	loop_timer_del(&v->timer);
	slots_want_cancel(&v->want);
	call_cancel(&v->spawn_vmm);
	call_cancel(&v->spawn_monitor);
	call_cancel(&v->ask);
	call_cancel(&v->list);
	call_cancel(&v->drop);
	v->mon = peer_free(v->mon);
	if (v->vmm_alive)
		loop_proc_del(&v->vmm);
	if (v->monitor_alive)
		loop_proc_del(&v->monitor);
	v->vmm_alive = v->monitor_alive = false;
	v->argv_fd = fd_close(v->argv_fd);
	/* or a dropped overlay would keep its space */
	v->source.disk_fd = fd_close(v->source.disk_fd);
	for (size_t i = 0; i < 2; i++)
		v->extra[i] = fd_close(v->extra[i]);
}

void vm_free(struct vm *v)
{
	quiet(v);
	list_del(&v->link);
	free(v);
}

static void ended(struct vm *v)
{
	log_info("vm_ended", "vm=%s", v->id);
	if (v->on_ended)
		v->on_ended(v, v->on_ended_arg);
	vm_free(v);
}

static void drop_overlay(struct vm *v);

static void drop_again(struct loop_timer *t)
{
	drop_overlay(container_of(t, struct vm, timer));
}

static void on_dropped(struct call *c, const struct answer *a)
{
	struct vm *v = container_of(c, struct vm, drop);

	if (a->e && a->e->code != -ENOENT) {
		if (a->e->kind != ERR_UNAVAILABLE)
			log_warn("overlay_stuck", "vm=%s why=%s", v->id,
				 a->e->msg);
		loop_timer_set(v->node->loop, &v->timer, DROP_RETRY_MS,
			       drop_again);
		return;
	}
	ended(v);
}

static void drop_overlay(struct vm *v)
{
	struct st_req req = { .hdr.op = ST_OVERLAY_DROP };

	snprintf(req.name, sizeof(req.name), "%s", v->id);
	peer_call(v->node->storaged, &v->drop, &req, sizeof(req), NULL, 0,
		  DROP_TIMEOUT_MS, on_dropped);
}

static void slot_is_gone(struct vm *v)
{
	if (v->has_overlay)
		drop_overlay(v);
	else
		ended(v);
}

static void on_slot_destroyed(struct slot *s)
{
	struct vm *v = s->owner;

	v->slot = NULL;
	slot_is_gone(v);
}

static void end_without_slot(struct loop_timer *t)
{
	slot_is_gone(container_of(t, struct vm, timer));
}

void vm_end(struct vm *v, void (*on_ended)(struct vm *, void *arg), void *arg)
{
	static const struct vm_ops none;

	CHECK(v->state != VM_ENDING);
	v->state = VM_ENDING;
	v->ops = &none;
	v->owner = NULL;
	v->on_ended = on_ended;
	v->on_ended_arg = arg;
	quiet(v);
	if (v->slot) {
		journal_remove(v->node->journal_fd, v->slot->number);
		slot_destroy(v->slot, on_slot_destroyed, v);
	} else {
		loop_timer_set(v->node->loop, &v->timer, 0, end_without_slot);
	}
}
