/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/route.h"

#include <string.h>

#include "base/check.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* "METHOD path". What passes is canonical: parsed again it is the same, and it
 * can name nothing outside /v1. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xcalloc(1, size + 1);
	char *path;
	struct route a = { 0 }, b = { 0 };
	struct err e = { 0 };

	memcpy(text, data, size);
	path = strchr(text, ' ');
	if (!path)
		return 0;
	*path++ = '\0';
	if (route_parse(text, path, &a, &e) < 0) {
		CHECK(e.code < 0 && e.msg[0] && !a.path);
		return 0;
	}
	CHECK(strncmp(a.path, "/v1/", 4) == 0);
	for (const char *c = a.path; *c; c++)
		CHECK(*c > 0x20 && *c < 0x7f);
	CHECK(route_parse(text, a.path, &b, &e) == 0);
	CHECK(strcmp(a.path, b.path) == 0 && a.from == b.from);
	route_fini(&a);
	route_fini(&b);
	return 0;
}
