/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* This daemon's metrics (GET /v1/metrics). */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct node;

enum stats_create {
	STATS_CREATE_OK,
	STATS_CREATE_FAILED,
	STATS_CREATE_TIMEOUT,
	STATS_CREATE_CANCELLED,
	STATS_CREATE_REFUSED,
	STATS_CREATE_MAX_,
};

void stats_init(void);
void stats_create(enum stats_create outcome);
void stats_timings(const uint64_t *timings_us); /* enum timing */
void stats_gone(void);
void stats_prepare(bool ok);
void stats_claimed(unsigned path); /* enum claim_path */
void stats_warmed(bool ok);
double stats_get_claimed(unsigned path);
double stats_get_warmed(bool ok);
double stats_get_create(enum stats_create outcome);
/* 0 or -ENOBUFS */
int stats_write(struct node *n, struct buf *out);
