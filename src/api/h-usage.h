/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A sandbox's samples as the nodes measure them, kept by the database: a series
 * if one of from, to, step_s is in the query, else the caller asks the guest.
 */

#include "api/req.h"

bool metrics_series_asked(struct req *r);
void metrics_series(struct req *r);

/* RFC 3339 in UTC ("Z"), with or without a fraction. Pure. */
bool time_parse(const char *s, int64_t *ret_unix_ms);
