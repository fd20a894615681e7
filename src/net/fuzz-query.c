/* SPDX-License-Identifier: Apache-2.0 */

/* Query parameters: "name NUL path". */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xcalloc(1, size + 1);
	owned_str value = NULL;
	char *path;

	memcpy(text, data, size);
	path = memchr(text, 0, size);
	value = http_query_get(path ? path + 1 : text, path ? text : "a");
	if (value)
		CHECK(strlen(value) <= size);
	return 0;
}
