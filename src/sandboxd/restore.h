/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A checkpoint's way into a VM that waits for it: the store's files are opened
 * and an overlay made, all at once, then the monitor loads. Whoever restores
 * (a create, or a VM that is made ready ahead of one) decides what happens in
 * between, and after.
 */

#include "sandboxd/peer.h"
#include "sandboxd/ref.h"

struct vm;

enum restore_file { F_STATE, F_MEMORY, F_ROOT, F_LAYER, F_OVERLAY, F_MAX_ };

struct restore {
	struct vm *vm;
	struct call opens[F_MAX_], ask;
	int fds[F_MAX_];
	void (*on_opened)(struct restore *r, const struct err *e);
	void (*on_loaded)(struct restore *r, const struct answer *a);
};

void restore_init(struct restore *r);
/* Open for v; on_opened once, e NULL when all files are there. An overlay that
 * was made stays the VM's. */
void restore_open(struct restore *r, struct vm *v, const struct checkpoint *ck,
		  uint64_t timeout_ms,
		  void (*on_opened)(struct restore *, const struct err *));
/* flags: MON_WARM, MON_PROBE. 0, or -EPIPE as of vm_call(). */
int restore_load(struct restore *r, uint32_t flags, uint64_t timeout_ms,
		 void (*on_loaded)(struct restore *, const struct answer *));
/* Stop wherever it is, and close the files. */
void restore_stop(struct restore *r);
/* Are the store's files gone or changed, so that a new checkpoint is due? */
bool restore_is_unusable(const struct err *e);
