/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "sandboxd/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A body that is accepted holds only what the rest of the daemon relies on. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct command c;
	struct spec s;
	struct err e = { 0 };

	if (spec_parse_ensure(data, size, &c, &s, &e) == 0) {
		CHECK(strlen(s.release.root) == 64);
		CHECK(strlen(s.release.digest) == 64);
		CHECK(s.res.vcpus >= 1 && s.res.memory_mib >= 64);
		CHECK(strlen(s.hostname) < sizeof(s.hostname));
		CHECK(c.time_left_ms >= 1);
	} else {
		CHECK(e.code < 0 && e.msg[0]);
	}
	memset(&e, 0, sizeof(e));
	if (spec_parse_end(data, size, &c, &e) == 0)
		CHECK(strlen(c.incarnation) < sizeof(c.incarnation));
	memset(&e, 0, sizeof(e));
	spec_parse_prepare(data, size, &c, &s, &e);
	return 0;
}
