/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Following a stream of server-sent events over lost connections. Blocking. */

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/sse.h"

#define STREAM_GIVE_UP_S 120

struct stream {
	struct cli *cli;
	struct client *client;
	enum client_side side;
	/* The path to ask for, allocated; id is the last event's, "" at
	 * first. */
	char *(*path)(void *arg, const char *id);
	int (*on_event)(void *arg, const struct sse_event *ev);
	void *arg;
	bool resumes; /* ids name where to go on */
};

/* Until on_event returns non-zero (CLI_OK then), the reader is gone, or it is
 * lost for good. The exit code after a message. */
int stream_follow(struct stream *s);
