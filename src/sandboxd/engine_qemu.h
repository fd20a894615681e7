/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this daemon needs of QEMU: command lines (as sealed memfds that noded
 * never looks into), the compatibility key of checkpoints, and whether KVM can
 * be trusted here. All of it comes from src/vmm.
 */

#include <stddef.h>

#include "base/err.h"
#include "sandboxd/vm.h"

struct node;

/* Ask noded for KVM and probe it; fills in node's kvm and isolation_reason.
 * on_done from the loop. */
void qemu_probe(struct node *n, void (*on_done)(struct node *, const char *));
void qemu_free(struct node *n);

/* A VMM that waits for a checkpoint; one that boots a kernel (the extra
 * descriptors: kernel, initramfs). 0 with a sealed memfd, or -errno. */
int qemu_argv_waiting(struct node *n, const struct vm_size *size, int *ret_fd,
		      struct err *e);
int qemu_argv_boot(struct node *n, const struct vm_size *size, int *ret_fd,
		   struct err *e);
/* The key that a checkpoint made here for this kernel carries, as 64 hex. */
int qemu_compat(struct node *n, const struct vm_size *size, const char *kernel,
		char ret[72], struct err *e);
