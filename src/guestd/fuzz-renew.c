/* SPDX-License-Identifier: Apache-2.0 */

/* A renewal is refused with words, or all of it is there and harmless. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "guestd/renew.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct renew r;
	struct err e = { 0 };
	char field[96];

	if (renew_read(data, size, &r, field, &e) < 0) {
		CHECK(e.code < 0 && e.msg[0]);
		return 0;
	}
	CHECK(r.sandbox[0] && r.hostname[0] && r.nonce[0]);
	CHECK(strlen(r.machine_id) == 32);
	CHECK(!strpbrk(r.hostname, "/ \n\t\""));
	CHECK(r.port_high - r.port_low >= 20000 && r.port_high <= 65535);
	return 0;
}
