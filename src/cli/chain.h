/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The audit's hash chain, recomputed (doc/audit.md). Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tls/digest.h"

struct chain {
	uint64_t n;		    /* of the last record that fitted */
	uint8_t prev[DIGEST_BYTES]; /* its hash */
};

/* From the beginning, or behind what was removed (floor of the head; NULL for
 * none). False: the floor is none. */
bool chain_start(struct chain *c, const json_t *floor);
/* The next record, oldest first. NULL if it fits, else why not. */
const char *chain_next(struct chain *c, const json_t *record);
