/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "sandboxd/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files of /proc and cgroupfs; a group's path stays below the root. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xcalloc(1, size + 1);
	char path[192];
	uint64_t n;

	memcpy(text, data, size);
	usage_parse_stat(text, &n);
	usage_parse_statm(text, &n);
	usage_parse_cpu_stat(text, &n);
	if (usage_parse_cgroup(text, 3, path, sizeof(path))) {
		CHECK(path[0] == '/' && !strstr(path, "/../"));
		CHECK(strlen(path) < sizeof(path));
	}
	return 0;
}
