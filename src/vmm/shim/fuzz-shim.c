/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim/image.h"

#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* First byte: number of descriptors; then a request; then runs. What is
 * accepted must be safe to act on. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct shim_run runs[64];
	const uint64_t limit = 1u << 24;
	struct shim_req q;
	size_t n_runs = 0, n, body = sizeof(q);
	uint64_t at = 0;

	if (size < 1)
		return 0;
	if (size - 1 < body)
		body = size - 1;
	if (shim_parse(data + 1, body, data[0], &q, &n_runs) == 0) {
		CHECK(q.magic == SHIM_MAGIC && q.op < SHIM_OP_MAX_);
		CHECK(n_runs <= SHIM_MAPS_MAX && data[0] <= 2);
	}
	n = (size - 1 - body) / sizeof(runs[0]);
	if (n > 64)
		n = 64;
	memcpy(runs, data + 1 + body, n * sizeof(runs[0]));
	if (shim_runs_check(runs, n, limit) == 0)
		for (size_t i = 0; i < n; i++) {
			CHECK(runs[i].offset >= at && runs[i].length > 0);
			at = runs[i].offset + runs[i].length;
			CHECK(at <= limit && at % 4096 == 0);
		}
	return 0;
}
