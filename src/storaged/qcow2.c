/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/qcow2.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#define MAGIC	       0x514649fbu /* "QFI\xfb" */
#define CLUSTER_BITS   16u
#define REFCOUNT_ORDER 4u /* 2^4 bits */
#define HEADER_LENGTH  104u
#define L2_ENTRIES     (QCOW2_CLUSTER / 8)
#define REFS_PER_BLOCK (QCOW2_CLUSTER / 2)
#define SIZE_MIN       ((uint64_t)1 << 20)

int qcow2_layout(uint64_t size, struct qcow2_layout *ret)
{
	const uint64_t per_l1 = (uint64_t)L2_ENTRIES * QCOW2_CLUSTER;

	if (size % 512 || size < SIZE_MIN || size > QCOW2_SIZE_MAX)
		return -EINVAL;
	ret->size = size;
	ret->l1_size = (uint32_t)((size + per_l1 - 1) / per_l1);
	ret->l1_clusters =
	    (ret->l1_size * 8 + QCOW2_CLUSTER - 1) / QCOW2_CLUSTER;
	ret->table_at = QCOW2_CLUSTER;
	ret->block_at = UINT64_C(2) * QCOW2_CLUSTER;
	ret->l1_at = UINT64_C(3) * QCOW2_CLUSTER;
	ret->clusters = 3 + ret->l1_clusters;
	CHECK(ret->clusters <= REFS_PER_BLOCK);
	return 0;
}

static void put32(uint8_t *p, size_t at, uint32_t v)
{
	v = htobe32(v);
	memcpy(p + at, &v, sizeof(v));
}

static void put64(uint8_t *p, size_t at, uint64_t v)
{
	v = htobe64(v);
	memcpy(p + at, &v, sizeof(v));
}

void qcow2_head(const struct qcow2_layout *l, uint8_t ret[QCOW2_HEAD_BYTES])
{
	memset(ret, 0, QCOW2_HEAD_BYTES); /* no backing, features, snapshots */
	put32(ret, 0, MAGIC);
	put32(ret, 4, 3); /* version */
	put32(ret, 20, CLUSTER_BITS);
	put64(ret, 24, l->size);
	put32(ret, 36, l->l1_size);
	put64(ret, 40, l->l1_at);
	put64(ret, 48, l->table_at);
	put32(ret, 56, 1); /* clusters of the refcount table */
	put32(ret, 96, REFCOUNT_ORDER);
	put32(ret, 100, HEADER_LENGTH);
}

static int put_at(int fd, const void *p, size_t n, uint64_t at)
{
	ssize_t did = pwrite(fd, p, n, (off_t)at);

	if (did < 0)
		return -errno;
	return (size_t)did == n ? 0 : -ENOSPC;
}

int qcow2_empty_write(int fd, uint64_t size, struct err *e)
{
	uint8_t head[QCOW2_HEAD_BYTES];
	uint16_t refs[64];
	uint64_t table;
	struct qcow2_layout l;
	int r;

	if (qcow2_layout(size, &l) < 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "a disk has 1 MiB to 16 TiB in units of 512 "
			       "bytes, not %llu",
			       (unsigned long long)size);
	CHECK(l.clusters <= sizeof(refs) / sizeof(refs[0]));
	qcow2_head(&l, head);
	table = htobe64(l.block_at);
	for (size_t i = 0; i < l.clusters; i++)
		refs[i] = htobe16(1);
	/* the L1 table stays a hole */
	r = ftruncate(fd, (off_t)l.clusters * QCOW2_CLUSTER) < 0 ? -errno : 0;
	r = r < 0 ? r : put_at(fd, head, sizeof(head), 0);
	r = r < 0 ? r : put_at(fd, &table, sizeof(table), l.table_at);
	r = r < 0 ? r
		  : put_at(fd, refs, sizeof(refs[0]) * l.clusters, l.block_at);
	return r < 0 ? err_errno(e, -r, "write qcow2") : 0;
}
