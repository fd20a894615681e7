/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SHA-256 of an upload on its way. It is computed here and not where the file
 * is written: on the software engine a guest hashes some 15 MB a second, the
 * host many times that. Between here and the file lie
 * the channel, whose records carry a CRC, and guestd, who could say any sum.
 */

#include <stddef.h>
#include <stdint.h>

#define SUM_BYTES 32u

struct sum;

struct sum *sum_new(void);
struct sum *sum_free(struct sum *s);
void sum_add(struct sum *s, const void *p, size_t n);
/* Of all that was added; nothing may be added afterwards. */
void sum_end(struct sum *s, uint8_t ret[SUM_BYTES]);
