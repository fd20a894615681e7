/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Refused requests on their way into the audit log. What was done is recorded
 * by the database in the transaction that does it; what was refused has no
 * transaction, so it is collected here and written once a second. The same
 * attempt repeated within that second is one record with a count. The queue is
 * bounded; what does not fit is counted, and the count is recorded.
 */

#include "api/fault.h"
#include "api/req.h"

#define AUDIT_QUEUE_MAX 1024u

struct audit_queue *audit_queue_new(struct api *a);
struct audit_queue *audit_queue_free(struct audit_queue *q);
/* Is called with every refusal and records those that say something about who
 * may do what: 401, 403, 404 of a named thing, an exhausted quota. */
void audit_refused(struct req *r, const struct fault *f);
