/* SPDX-License-Identifier: Apache-2.0 */

/* The path of a file call, as it comes in a request line. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "guestd/filework.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str line = xcalloc(1, size + 1);
	owned_str text = NULL;
	char path[FILE_PATH_MAX];

	memcpy(line, data, size);
	text = http_query_get(line, "path");
	if (!text)
		return 0;
	CHECK(strlen(text) <= size);
	if (filework_path(text, path) == 0) {
		CHECK(path[0] == '/' && strlen(path) < FILE_PATH_MAX);
		CHECK(strcmp(path, text) == 0);
	}
	return 0;
}
