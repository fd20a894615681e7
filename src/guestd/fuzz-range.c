/* SPDX-License-Identifier: Apache-2.0 */

/* Range fields: what one asks for lies within any file. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "guestd/files_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t sizes[] = { 0,	1,	    2,	      10,
					  4096, 1ull << 40, INT64_MAX };
	owned_str text = xcalloc(1, size + 1);
	struct file_range r;

	memcpy(text, data, size);
	if (file_range_parse(text, &r) < 0)
		return 0;
	CHECK(r.given && (r.suffix || r.open || r.last >= r.first));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t from, n;

		if (!file_range_apply(&r, sizes[i], &from, &n))
			continue;
		CHECK(n > 0 && from < sizes[i] && n <= sizes[i] - from);
	}
	return 0;
}
