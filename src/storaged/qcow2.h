/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An empty qcow2 (version 3, clusters of 64 KiB, refcounts of 16 bits) written
 * directly: header, refcount table, one refcount block, an L1 table of zeros.
 * Why not qemu-img: starting it costs 20-30 ms in the path of every create.
 *
 * Without a backing file name: what lies below an overlay is told to the VMM
 * with descriptors, and a name in a header that a guest's VMM can write would
 * be followed by the next reader. Format: QEMU, docs/interop/qcow2.txt.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define QCOW2_CLUSTER	 65536u
#define QCOW2_SIZE_MAX	 ((uint64_t)16 << 40)
#define QCOW2_HEAD_BYTES 112u

struct qcow2_layout {
	uint64_t size;	  /* virtual bytes */
	uint32_t l1_size; /* entries */
	uint32_t l1_clusters;
	uint64_t table_at, block_at, l1_at; /* bytes */
	uint32_t clusters;		    /* of the whole file */
};

/* 0, or -EINVAL: not a multiple of 512, or not within 1 MiB..16 TiB. Pure. */
int qcow2_layout(uint64_t size, struct qcow2_layout *ret);
/* The header with its end-of-extensions mark. Pure. */
void qcow2_head(const struct qcow2_layout *l, uint8_t ret[QCOW2_HEAD_BYTES]);
/* Into an empty file. */
int qcow2_empty_write(int fd, uint64_t size, struct err *e);
