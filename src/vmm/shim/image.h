/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the interposer does to guest RAM: parse a request, map a base and layers
 * over it, and take a frozen image of it by fork.
 *
 * Guest RAM is one private anonymous mapping until SHIM_MAP replaces parts of
 * it by private mappings of read-only files. It is marked DONTFORK all the
 * time, but for the instant in which the image is forked.
 *
 * No allocation and no lock of the C library is used between fork and exit:
 * other threads of the VMM may hold them. Not thread safe: one control thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/shim.h"

struct ram {
	uint8_t *base; /* NULL until the VMM has mapped it */
	size_t len;
	int pagemap; /* /proc/self/pagemap, or -1 where there is no /proc */
};

/*
 * Is this a request that an honest monitor sends? 0 and *ret_runs = number of
 * struct shim_run that follow it, or -EBADMSG. Looks at the bytes alone.
 */
int shim_parse(const void *p, size_t n, size_t n_fds, struct shim_req *ret,
	       size_t *ret_runs);

/* Page-aligned, ascending, disjoint, not empty, inside limit bytes: 0, else
 * -EINVAL. */
int shim_runs_check(const struct shim_run *runs, size_t n, uint64_t limit);

/*
 * Map runs of the file over RAM at their natural offsets; n == 0 maps the
 * whole file, which must then be as long as RAM. Refuses what is not a regular
 * file opened O_RDONLY (-EPERM): a writable descriptor would let a guest's
 * balloon punch holes into memory that other VMs share.
 */
int ram_map(const struct ram *ram, int fd, const struct shim_run *runs,
	    size_t n);

/*
 * The pages that are no longer those of the files mapped below, as runs; gaps
 * of up to 16 pages are filled, since a run costs a mapping at restore. The VM
 * must be stopped. Number of runs, -E2BIG over max, -ENOTSUP without pagemap.
 * slow: walk /proc/self/pagemap even if the kernel has PAGEMAP_SCAN (6.7).
 */
ssize_t ram_changed(const struct ram *ram, bool slow, struct shim_run *runs,
		    size_t max);

/*
 * Fork the frozen image. It writes RAM to file (O_RDWR, regular) at natural
 * offsets, then struct shim_image_done and its runs to the pipe, and exits.
 * is_base: everything that is not zero, as one run; else the changed pages.
 * Returns the image's pid. Both descriptors stay the caller's.
 */
pid_t ram_image(const struct ram *ram, int file, int done_pipe, bool is_base);

/* Reap images that have ended. */
void ram_reap(void);
