/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One VM: a slot, a VMM and a monitor in it, a channel to the monitor, perhaps
 * an overlay in the store. It is made for a shape and waits, or for one cold
 * boot; who owns it changes when it is claimed.
 *
 * However a VM stops serving (the VMM died, the monitor said so, the monitor
 * died), its owner hears on_gone once with the reason of the sandbox record,
 * within two seconds, and then ends it. Ending is the only way out: it destroys
 * the slot, which takes every process with it, drops the overlay, and repeats
 * both until they succeeded.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "proto/monitor.h"
#include "sandboxd/fault.h"
#include "sandboxd/journal.h"
#include "sandboxd/peer.h"
#include "sandboxd/slots.h"
#include "sandboxd/usage.h"

struct node;
struct vm;

struct vm_size {
	uint32_t vcpus, memory_mib;
	bool kvm;
};

struct vm_ops {
	/* Monitor and VMM are up and wait; or f says why not, and the owner
	 * must end it. */
	void (*on_ready)(struct vm *v, const struct fault *f);
	/* It will never serve again; the owner must end it. */
	void (*on_gone)(struct vm *v, const char *reason, const char *detail);
};

enum vm_state { VM_MAKING, VM_READY, VM_LOST, VM_ENDING };

struct vm {
	struct node *node;
	struct list link;
	char id[24]; /* vm- and 20; the overlay's name */
	struct vm_size size;
	enum vm_state state;
	const struct vm_ops *ops;
	void *owner;

	struct slot_want want;
	struct slot *slot;
	struct peer *mon;
	struct loop_proc vmm, monitor;
	bool vmm_alive, monitor_alive;
	struct call spawn_vmm, spawn_monitor, ask, list, drop;
	struct loop_timer timer; /* polls, then times the end */
	uint64_t deadline_ms;	 /* of becoming ready */
	int argv_fd, extra[2];
	size_t n_extra;

	bool has_overlay, is_adopted;
	uint32_t phase;	    /* enum mon_phase, when it became ready */
	const char *reason; /* NULL while it serves */
	char detail[192];
	struct usage_source source; /* its disk_fd is ours */
	void (*on_ended)(struct vm *v, void *arg);
	void *on_ended_arg;
};

/* Start one. argv_fd: the sealed command line; extra: what it names beyond the
 * slot's descriptors (duplicated). on_ready follows from the loop. */
struct vm *vm_new(struct node *n, const struct vm_size *size, int argv_fd,
		  const int *extra, size_t n_extra, uint64_t timeout_ms,
		  const struct vm_ops *ops, void *owner);
/* Take over what an earlier life of this daemon left in a slot. on_ready as
 * above once its monitor answered. */
struct vm *vm_adopt(struct node *n, const struct journal *j, int vmm_pid,
		    int monitor_pid, uint64_t netns, const struct vm_ops *ops,
		    void *owner);
/* End and free it; on_ended (may be NULL) when nothing is left, and the VM is
 * freed when that returns. The owner hears nothing else any more. */
void vm_end(struct vm *v, void (*on_ended)(struct vm *, void *arg), void *arg);
/* Let processes live on and only forget about it. */
void vm_free(struct vm *v);

/* Ask the monitor; one request at a time per call. 0, or -EPIPE if the VM is
 * about to be told gone: on_done is not called then. */
int vm_call(struct vm *v, struct call *c, struct mon_req *req, const int *fds,
	    size_t n_fds, uint64_t timeout_ms,
	    void (*on_done)(struct call *, const struct answer *));

/* vm-gone.c: something of it stopped. */
void vm_watch(struct vm *v, int vmm_pidfd, int vmm_pid, int monitor_pidfd,
	      int monitor_pid);
void vm_channel_lost(struct vm *v, const struct err *e);
void vm_told_gone(struct vm *v, const struct mon_rep *rep);
