/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * monitor -> interposer inside the VMM (src/vmm/shim), over a stream socket
 * accepted on VMM_FD_CTL by a thread of the interposer. One request, one
 * answer, in order; fixed structs; descriptors ride on the first byte of the
 * request.
 *
 * Guest RAM is the file SHIM_RAM_PATH to QEMU (memory-backend-file, share=on):
 * the interposer gives it private anonymous memory of that size, and SHIM_MAP
 * maps a base and layers over it (MAP_PRIVATE|MAP_FIXED, O_RDONLY descriptors).
 */

#include <stdint.h>

#define SHIM_MAGIC    0x4d494853u /* "SHIM" */
#define SHIM_RAM_PATH "/caisson/ram"
/* open()/fopen() of this prefix + N gives a duplicate of descriptor N. */
#define SHIM_FD_PREFIX "/caisson/fd/"
#define SHIM_MAPS_MAX  4096u /* runs of base and layers together */

enum shim_op {
	SHIM_HELLO = 1, /* answer: a = RAM bytes (0: not allocated yet) */
	/* fds: one O_RDONLY file; a = number of runs that follow the request as
	 * struct shim_run. a == 0: the whole file, from offset 0, is the base.
	 */
	SHIM_MAP,
	/* fds: [0] O_RDWR file for the image, [1] write end of a pipe. The VMM
	 * is stopped. Answers when the frozen image (a fork) exists: a = its
	 * pid in the VMM's pid namespace, b = microseconds. The image writes
	 * the changed pages at their natural offset, leaves all-zero pages as
	 * holes if a == 1 in the request (a base, not a layer), then writes
	 * struct shim_image_done and its runs to the pipe and exits. */
	SHIM_IMAGE,
	SHIM_OP_MAX_,
};

struct shim_req {
	uint32_t magic, op;
	uint64_t a, b;
};

struct shim_rep {
	uint32_t magic, op;
	int32_t r; /* 0 or -errno */
	uint32_t pad;
	uint64_t a, b;
};

struct shim_run {
	uint64_t offset, length; /* bytes, page-aligned, ascending, disjoint */
};

struct shim_image_done {
	uint32_t magic;
	int32_t r;	 /* 0 or -errno: then the file is void */
	uint64_t n_runs; /* struct shim_run that follow */
	uint64_t bytes;	 /* page bytes written */
};
