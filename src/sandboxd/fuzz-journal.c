/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "sandboxd/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What decodes has terminated texts, and decodes again once sealed; bytes with
 * a right checksum reach every field's check. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct journal j, back;

	if (journal_decode(data, size, &j) == 0) {
		CHECK(memchr(j.sandbox, '\0', sizeof(j.sandbox)));
		CHECK(memchr(j.vm, '\0', sizeof(j.vm)));
	}
	memset(&j, 0, sizeof(j));
	memcpy(&j, data, size < sizeof(j) ? size : sizeof(j));
	journal_seal(&j);
	if (journal_decode(&j, sizeof(j), &back) == 0) {
		CHECK(memcmp(&j, &back, sizeof(j)) == 0);
		CHECK(memchr(back.hostname, '\0', sizeof(back.hostname)));
		CHECK(back.step > JOURNAL_NONE &&
		      back.step < JOURNAL_STEP_MAX_);
	}
	return 0;
}
