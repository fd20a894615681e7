/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output of which only the beginning and the end are kept: whatever a command
 * writes, what is said about it stays small, and says how much is missing.
 * Pure.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define CLIP_HEAD 65536u
#define CLIP_TAIL 65536u

struct clip {
	struct buf head, tail;
	uint64_t bytes; /* in all */
};

void clip_init(struct clip *c);
void clip_fini(struct clip *c);
void clip_put(struct clip *c, const void *p, size_t n);
/* {encoding, head, tail, bytes, omitted_bytes, truncated}: text if it is UTF-8
 * (a character that a cut goes through is left out and counted), else base64.
 * Without omission all is in head. New reference. */
json_t *clip_json(struct clip *c);
