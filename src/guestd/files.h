/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* GET, HEAD, PUT and DELETE of /v1/files?path=: streams bytes between a request
 * and a forked worker (filework.h). */

#include "guestd/guestd.h"

#define FILES_WORKERS_MAX 32

void files_request(struct guestd *g, struct http_stream *s);
