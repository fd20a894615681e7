/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bringing one sandbox up on the qemu engine: checkpoint, VMM, artifacts, load,
 * renew, open. Each step has what is left of the command's time; a failure at
 * any of them leaves the sandbox for sandbox_failed() to take down.
 */

struct sandbox;
struct vm_ops;

void start_begin(struct sandbox *s);
/* Stop wherever it is; what was claimed stays in s->vm. */
void start_cancel(struct sandbox *s);

/* Of a VM that belongs to a sandbox (owner: the sandbox). */
extern const struct vm_ops sandbox_vm_ops;
