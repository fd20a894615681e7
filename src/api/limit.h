/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Token buckets by name, in bounded memory: for guesses at keys (by address,
 * by the key's public prefix) and for calls (by key).
 *
 * The table has a fixed number of places in sets of a few; a name's set follows
 * from a hash with a secret of this process, so that nobody can choose names
 * that push a given one out. A full set gives up its fullest bucket: who is
 * near the limit stays known. Pure: the caller brings the time.
 */

#include <stdbool.h>
#include <stdint.h>

struct limit;

/* per_s: how fast a bucket fills; burst: how much it holds (and starts with).
 * per_s must be above 0. */
struct limit *limit_new(double per_s, double burst);
struct limit *limit_free(struct limit *l);

/* Would one be allowed now? 0: yes; else seconds (1..3600) until it would. */
unsigned limit_wait_s(const struct limit *l, const char *name, uint64_t now_ms);
/* Take one, even from an empty bucket (which stays empty). The same answer as
 * limit_wait_s() before. */
unsigned limit_take(struct limit *l, const char *name, uint64_t now_ms);
