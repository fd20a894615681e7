/* SPDX-License-Identifier: Apache-2.0 */

/* A spec is refused with words and a code, or is whole and within its limits.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "guestd/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exec_spec s;
	struct spec_error se;
	struct err e = { 0 };

	if (spec_read(data, size, &s, &se, &e) < 0) {
		CHECK(e.code < 0 && e.msg[0] && se.code[0]);
		CHECK(!s.argv && !s.env && !s.cwd && !s.user);
		return 0;
	}
	CHECK(s.argc > 0 && s.argv[0][0] && !s.argv[s.argc]);
	CHECK(strncmp(s.id, "ex_", 3) == 0 && !strchr(s.id, '/'));
	CHECK(!s.cwd || s.cwd[0] == '/');
	CHECK(s.keep_bytes >= EXEC_KEEP_MIN && s.keep_bytes <= EXEC_KEEP_MAX);
	for (size_t i = 0; i < s.n_env; i++)
		CHECK(strchr(s.env[i], '=') && s.env[i][0] != '=');
	spec_fini(&s);
	return 0;
}
