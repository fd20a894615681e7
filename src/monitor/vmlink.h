/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connections to one VMM: QMP, the interposer, the serial console. They are
 * made at start by relative names ("qmp", "ctl", "serial") in the working
 * directory, and again until somebody listens; once QMP was up its end is the
 * VMM's end.
 *
 * The serial console is read always, at a bounded rate, into a ring
 * (monitor/console.h). Its last VMLINK_TAIL bytes are what a guest that did not
 * come up had to say.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"
#include "monitor/console.h"
#include "proto/monitor.h"
#include "vmm/qmp.h"
#include "vmm/shim_client.h"

#define VMLINK_TAIL 16384u

struct vmlink;

struct vmlink_ops {
	/* QMP answers, capabilities are set, the interposer has RAM. status is
	 * QEMU's run state ("prelaunch", "inmigrate", "running", …). */
	void (*on_ready)(void *owner, const char *status);
	/* MIGRATION: the status word. */
	void (*on_migration)(void *owner, const char *status);
	/* This VM will not go on. Called once. */
	void (*on_gone)(void *owner, enum mon_reason reason,
			const char *detail);
};

struct vmlink *vmlink_new(struct loop *l, const struct vmlink_ops *ops,
			  void *owner);
struct vmlink *vmlink_free(struct vmlink *v);

/* NULL while not connected. */
struct qmp *vmlink_qmp(struct vmlink *v);
struct shim_client *vmlink_shim(struct vmlink *v);
uint64_t vmlink_ram_bytes(const struct vmlink *v);
bool vmlink_is_ready(const struct vmlink *v);
/* Stop reading the serial console. */
void vmlink_cork(struct vmlink *v);
/* The console's last bytes, printable: at most n - 1 and a NUL. */
void vmlink_tail(const struct vmlink *v, char *ret, size_t n);
/* The words of a console's tail: MON_REASON_GUEST_PANIC, _GUEST_OOM, or
 * MON_REASON_NONE. Pure. */
enum mon_reason vmlink_panic(const char *tail);
struct console *vmlink_console(const struct vmlink *v);
