/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever size is asked for: refused, or a layout whose tables cover the disk,
 * lie within the file and do not overlap. */
#include <string.h>

#include "base/check.h"
#include "storaged/qcow2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t head[QCOW2_HEAD_BYTES];
	struct qcow2_layout l;
	uint64_t want = 0;

	memcpy(&want, data, size < sizeof(want) ? size : sizeof(want));
	if (qcow2_layout(want, &l) < 0)
		return 0;
	CHECK(want % 512 == 0 && want <= QCOW2_SIZE_MAX);
	CHECK((uint64_t)l.l1_size * 8192 * QCOW2_CLUSTER >= want);
	CHECK((uint64_t)(l.l1_size - 1) * 8192 * QCOW2_CLUSTER < want);
	CHECK(l.table_at < l.block_at && l.block_at < l.l1_at);
	CHECK(l.l1_at + (uint64_t)l.l1_size * 8 <=
	      (uint64_t)l.clusters * QCOW2_CLUSTER);
	qcow2_head(&l, head);
	CHECK(head[0] == 'Q' && head[8] == 0);
	return 0;
}
