/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The engine without VMs: a sandbox runs at once and holds nothing. It exists
 * so that the control plane can be loaded beyond what a machine's VMs allow,
 * and it says what it is: isolation "software", and every request on a data
 * connection is answered 422.
 */

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/http.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/sandbox.h"

static void null_start(struct sandbox *s)
{
	/* 1 us, so that the total is not "not done". */
	s->timings_us[TIMING_TOTAL] = 1;
	sandbox_started(s);
}

static void null_end(struct sandbox *s)
{
	sandbox_torn(s);
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	static const char body[] =
	    "{\"error\":{\"code\":\"not_supported\",\"message\":\"this node's "
	    "engine is null: there is no VM to run anything in\",\"cause\":"
	    "\"node\",\"remedy\":\"start caisson-sandboxd with --engine "
	    "qemu\"}}";

	(void)c;
	http_stream_reply(s, 422, "application/json", body, sizeof(body) - 1);
}

static const struct http_conn_ops conn_ops = { .on_request = on_request };

static void null_data_take(struct sandbox *s, int fd)
{
	static const struct http_limits limits = { .streams = 16 };

	http_conn_server_take(s->node->loop, fd, HTTP_2, &limits, &conn_ops,
			      NULL);
}

static void null_forget(struct sandbox *s)
{
	(void)s;
}

const struct engine engine_null = {
	.name = "null",
	.start = null_start,
	.end = null_end,
	.data_take = null_data_take,
	.forget = null_forget,
};
