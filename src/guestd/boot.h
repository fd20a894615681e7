/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the kernel's hand-over to a guest that can serve: mounts, modules, the
 * root disk, cgroups, network, held descriptors. Runs once, before the loop,
 * and may block. Nothing is executed.
 */

#include <stdint.h>

#include "base/err.h"
#include "guestd/guestd.h"

/*
 * As PID 1 in the initramfs. Fills g->held and g->default_user, and *ret_port
 * with the open channel (non-blocking, CLOEXEC). A failure is final: the guest
 * cannot be reached without its channel or used without its disk.
 */
int boot_run(struct guestd *g, int *ret_port, struct err *e);

/* The few descriptors that an ordinary process can have. */
int boot_root_less(struct guestd *g, struct err *e);

/* Bytes of memory the kernel manages (MemTotal), 0 if unknown. */
uint64_t boot_mem_total(const struct held *h);
