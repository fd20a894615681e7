/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* [LOCAL:]PORT of `caisson forward`: which port here leads to which port
 * there. Pure. LOCAL 0 lets the system choose. */

#include <stdint.h>

#include "base/err.h"

struct portspec {
	uint16_t local; /* 0 = any */
	uint16_t port;	/* of the guest, never 0 */
};

/* "8080" is 8080:8080. -EINVAL with *e. */
int portspec_parse(const char *word, struct portspec *ret, struct err *e);
