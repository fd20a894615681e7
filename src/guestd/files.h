/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file calls (/v1/files…, /v1/archive, /v1/watch): streams bytes between a
 * request and a forked worker (filework.h), which does all of the work. The
 * loop never touches a path and holds one piece per request and direction.
 */

#include "guestd/filework.h"
#include "guestd/guestd.h"

#define FILES_WORKERS_MAX  32
#define FILES_WATCHERS_MAX 16 /* they stay, so they count apart */

struct http_stream;

/* Takes the request if its path (without query) is one of ours. */
bool files_route(struct guestd *g, struct http_stream *s, const char *path);

/* What a request asks for: verb and queries, header fields. false: answered
 * with an error. Pure but for that. */
bool files_job_read(struct http_stream *s, enum file_verb verb,
		    struct file_job *job);
