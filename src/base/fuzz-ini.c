/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ini.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file is accepted with every value within its borders, or refused with a
 * message that begins with the place. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = NULL;
	bool flag = false;
	int64_t count = 0, bytes = 1024, wait_ms = 0;
	const struct ini_key keys[] = {
		{ "node", "name", INI_STR, &name, 0, 0 },
		{ "node", "flag", INI_BOOL, &flag, 0, 0 },
		{ "node", "count", INI_INT, &count, -5, 10 },
		{ "limits", "memory", INI_SIZE, &bytes, 1024, 1LL << 40 },
		{ "limits", "wait", INI_TIME, &wait_ms, 0, 0 },
	};
	struct err e = { 0 };
	int r = ini_parse("f", (const char *)data, size, keys, ARRAY_SIZE(keys),
			  &e);

	CHECK(count >= -5 && count <= 10);
	CHECK(bytes >= 1024 && bytes <= 1LL << 40);
	CHECK(wait_ms >= 0);
	if (r == 0)
		CHECK(e.code == 0);
	else
		CHECK(r == -EINVAL && e.code == r && !strncmp(e.msg, "f:", 2));
	free(name);
	return 0;
}
