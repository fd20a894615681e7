/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* GET /v1/metrics: what the guest's kernel counts. */

#include "guestd/guestd.h"

void guest_metrics(struct guestd *g, struct http_stream *s);
