/* SPDX-License-Identifier: Apache-2.0 */

/* Lists of entity tags, and Content-Digest. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "guestd/files_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xcalloc(1, size + 1);
	uint8_t sum[32];
	int strong, weak;

	memcpy(text, data, size);
	strong = file_etag_listed(text, "\"a\"", false);
	weak = file_etag_listed(text, "\"a\"", true);
	/* the same texts are lists; what matches strongly matches weakly */
	CHECK((strong < 0) == (weak < 0));
	CHECK(strong <= 0 || weak == 1);
	(void)file_if_range(text, "\"a\"", "Thu, 01 Jan 1970 00:00:00 GMT");
	CHECK(file_digest_parse(text, sum) <= 1);
	return 0;
}
