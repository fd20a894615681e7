/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Is KVM here what it says it is?
 *
 * /dev/kvm can lie: on some hosts it opens, reports its API version, creates
 * VMs and runs toys, while every guest instruction goes through the host's
 * emulator, which does not know `lock cmpxchg16b`, `xrstor` or `int3`. A stock
 * kernel dies there. So a tiny 64-bit guest executes exactly those, through the
 * plain ioctls, and must finish correctly and soon.
 */

#include <stdbool.h>

struct kvm_verdict {
	bool is_usable;
	char reason[200]; /* one sentence, in both cases */
	unsigned elapsed_us;
};

/*
 * kvm_fd: an open /dev/kvm, borrowed; -1 = there is none. Blocks for at most
 * two seconds, since the guest runs in a forked child that is killed then; call
 * it at start, not on a loop that serves.
 */
void kvm_probe(int kvm_fd, struct kvm_verdict *ret);
