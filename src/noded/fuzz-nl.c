/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "noded/nl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned acks = 0, bad = 0;
	uint8_t *exact = malloc(size ? size : 1);
	int r;

	CHECK(exact);
	memcpy(exact, data, size);
	r = nl_parse_acks(exact, size, &acks, &bad);
	CHECK(r <= 0 && acks <= size / 20);
	free(exact);
	return 0;
}
