/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why a VM stopped. Three things may be seen first: the monitor's word, the end
 * of the VMM process, the end of the monitor's channel. The monitor knows most,
 * so the others give it a moment; an unexplained end of the VMM is put beside
 * the slot's out-of-memory counter before it is told on.
 */

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "proto/noded.h"
#include "sandboxd/node.h"
#include "sandboxd/vm.h"

#define GRACE_MS	300u
#define LIST_TIMEOUT_MS 1000u

static const char *const reasons[MON_REASON_MAX_] = {
	[MON_REASON_NONE] = "vmm_error",
	[MON_REASON_REQUEST] = "request",
	[MON_REASON_VMM_EXIT] = "vmm_exit",
	[MON_REASON_GUEST_PANIC] = "guest_panic",
	[MON_REASON_GUEST_SHUTDOWN] = "guest_shutdown",
	[MON_REASON_GUEST_LOST] = "guest_lost",
	[MON_REASON_VMM_ERROR] = "vmm_error",
	[MON_REASON_GUEST_OOM] = "oom",
};

static void tell(struct vm *v)
{
	loop_timer_del(&v->timer);
	call_cancel(&v->list);
	v->state = VM_LOST;
	log_warn("vm_gone", "vm=%s slot=%u reason=%s detail=%s", v->id,
		 v->slot->number, v->reason, v->detail);
	v->ops->on_gone(v, v->reason, v->detail);
}

static void on_list(struct call *c, const struct answer *a)
{
	struct vm *v = container_of(c, struct vm, list);
	const struct noded_list *l = a->msg;
	uint32_t n;

	if (!a->e) {
		n = (uint32_t)((a->n - sizeof(*l)) / sizeof(l->slots[0]));
		if (l->n < n)
			n = l->n;
		for (uint32_t i = 0; i < n; i++)
			if (l->slots[i].slot == v->slot->number &&
			    l->slots[i].oom_kills > 0) {
				v->reason = "oom";
				snprintf(v->detail, sizeof(v->detail),
					 "the kernel killed it for memory "
					 "beyond the slot's limit");
			}
	}
	tell(v);
}

static void ask_oom(struct loop_timer *t)
{
	struct vm *v = container_of(t, struct vm, timer);
	struct noded_req req = { .hdr.op = NODED_LIST };

	if (call_is_busy(&v->list))
		return;
	peer_call(v->node->noded, &v->list, &req, sizeof(req), NULL, 0,
		  LIST_TIMEOUT_MS, on_list);
}

static void suspect(struct vm *v, const char *reason, const char *detail)
{
	if (v->state != VM_READY)
		return; /* still being made, or known already */
	if (v->reason) {
		/* A VMM that is gone explains a monitor that is. */
		if (strcmp(reason, "vmm_exit") == 0)
			v->reason = reason;
		return;
	}
	v->reason = reason;
	snprintf(v->detail, sizeof(v->detail), "%s", detail);
	loop_timer_set(v->node->loop, &v->timer, GRACE_MS, ask_oom);
}

static void on_vmm_exit(struct loop_proc *p, int status)
{
	struct vm *v = container_of(p, struct vm, vmm);

	(void)status; /* not our child: says nothing */
	loop_proc_del(p);
	v->vmm_alive = false;
	/* The monitor may still say more; nothing else will come. */
	if (v->state == VM_MAKING)
		v->deadline_ms = loop_now_ms(v->node->loop) + GRACE_MS;
	suspect(v, "vmm_exit", "the VMM process ended");
}

static void on_monitor_exit(struct loop_proc *p, int status)
{
	struct vm *v = container_of(p, struct vm, monitor);

	(void)status;
	loop_proc_del(p);
	v->monitor_alive = false;
	suspect(v, "vmm_error", "the sandbox's monitor ended");
}

void vm_channel_lost(struct vm *v, const struct err *e)
{
	(void)e;
	suspect(v, "vmm_error", "the sandbox's monitor closed its channel");
}

void vm_told_gone(struct vm *v, const struct mon_rep *rep)
{
	uint32_t r = rep->reason;

	if (v->state != VM_READY)
		return;
	v->reason = reasons[r < MON_REASON_MAX_ ? r : MON_REASON_NONE];
	snprintf(v->detail, sizeof(v->detail), "%.*s",
		 (int)sizeof(v->detail) - 1, rep->msg);
	/* The only word that the memory counter may correct. */
	if (r == MON_REASON_VMM_EXIT)
		loop_timer_set(v->node->loop, &v->timer, 0, ask_oom);
	else
		tell(v);
}

void vm_watch(struct vm *v, int vmm_pidfd, int vmm_pid, int monitor_pidfd,
	      int monitor_pid)
{
	struct loop *l = v->node->loop;

	if (vmm_pidfd >= 0) {
		v->vmm_alive = loop_proc_add_take(l, &v->vmm, vmm_pidfd,
						  vmm_pid, on_vmm_exit) == 0;
		v->vmm.pid = vmm_pid;
	}
	if (monitor_pidfd >= 0) {
		v->monitor_alive =
		    loop_proc_add_take(l, &v->monitor, monitor_pidfd,
				       monitor_pid, on_monitor_exit) == 0;
		v->monitor.pid = monitor_pid;
	}
}
