/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte is the number of descriptors. What passes is within bounds. */
#include "base/check.h"
#include "noded/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct noded_req q;
	struct err e = { 0 };

	if (size == 0)
		return 0;
	if (request_decode(data + 1, size - 1, data[0], &q, &e) < 0) {
		CHECK(e.code == -EBADMSG && e.msg[0]);
		return 0;
	}
	CHECK(q.slot < NODED_SLOTS_MAX && q.who <= NODED_WHO_MONITOR);
	CHECK(q.hdr.op > 0 && q.hdr.op < NODED_OP_MAX_);
	CHECK(data[0] <= 5);
	if (q.hdr.op == NODED_SPAWN_VMM)
		CHECK(data[0] >= 1 && q.vcpus >= 1 && q.mem_mib >= 16);
	return 0;
}
