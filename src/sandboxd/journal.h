/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What each slot is in the middle of, for the next start of this daemon.
 *
 * One small file per slot below RUN/sandboxd/journal (tmpfs: it dies with the
 * node, as the VMs do), replaced by rename and never synced. It is written
 * before each step that cannot be taken back: RESTORING before the guest's
 * first instruction, CONFIRMED after guestd confirmed its new identity. Whoever
 * is found before CONFIRMED is killed; only this file says that a VM may be
 * taken over. A file that does not decode counts as none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum journal_step {
	JOURNAL_NONE,
	JOURNAL_RESTORING,
	JOURNAL_CONFIRMED,
	JOURNAL_OPEN,
	JOURNAL_STEP_MAX_,
};

/* On disk as it is in memory: same machine, same boot. */
struct journal {
	uint32_t magic, version;
	uint32_t slot, step;
	uint64_t generation, fence;
	uint32_t vcpus, memory_mib, disk_mib, kvm;
	char sandbox[32], operation[32], vm[32];
	char hostname[64];
	char release[72];     /* hex */
	char spec[72];	      /* hex of the spec's digest */
	uint32_t cpu_base_ms; /* used before it was this sandbox's */
	uint32_t crc;	      /* CRC-32C of everything before */
};

/* Fill in magic, version and crc. */
void journal_seal(struct journal *j);
/* 0, or -EBADMSG: not ours, cut, changed, or a field that we never write. */
int journal_decode(const void *p, size_t n, struct journal *ret);

/* dir_fd: the journal folder. All 0 or a negative errno. */
int journal_write(int dir_fd, struct journal *j);
int journal_read(int dir_fd, uint32_t slot, struct journal *ret);
int journal_remove(int dir_fd, uint32_t slot); /* absent is success */
