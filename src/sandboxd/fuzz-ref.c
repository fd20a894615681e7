/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "sandboxd/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted is written back the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct checkpoint c, back;
	struct err e = { 0 };

	if (ref_parse(data, size, &c, &e) == 0) {
		owned_str text = ref_text(&c);

		CHECK(ref_parse(text, strlen(text), &back, &e) == 0);
		CHECK(memcmp(&c, &back, sizeof(c)) == 0);
	}
	return 0;
}
