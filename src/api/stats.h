/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counters of caisson-api in /metrics. */

#include "base/buf.h"

struct api;

void stats_init(void);
void stats_request(int status, double seconds);
void stats_operation(const char *kind, double seconds, int ok);
int stats_write(struct api *a, struct buf *out); /* 0 or -ENOBUFS */
