/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A folder of this machine as pax tar, plain or in zstd, to a descriptor.
 * Names are relative to the folder. Kept: contents, permission bits, times,
 * symbolic links that stay in the tree; a hard link is a file of its own.
 * Sockets, FIFOs, devices and links that leave the tree are left out with a
 * word. Links are never followed. Blocking; in a process of its own
 * (transit.h).
 */

#include <stdbool.h>
#include <stdint.h>

struct pack_count {
	uint64_t entries, bytes, left_out;
};

/* 0 or -errno, told on stderr. */
int pack_run(int top_fd, int out_fd, bool zstd, struct pack_count *ret);
