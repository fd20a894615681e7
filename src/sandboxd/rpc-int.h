/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by rpc.c (requests and routes) and rpc-json.c (answers). */

#include <jansson.h>

#include "base/list.h"
#include "base/loop.h"
#include "net/http.h"
#include "sandboxd/events.h"
#include "sandboxd/sandbox.h"

struct prepare;

struct req {
	struct node *node;
	struct http_stream *s;
	struct waiter w;
	struct events_waiter ew;
	struct loop_timer timer;
	uint64_t after;
	char id[80]; /* of the sandbox or prepare */
};

void reply_json(struct req *q, int status, json_t *body_take);
void reply_fault(struct req *q, const struct fault *f);
void reply_refuse(struct req *q, enum fault_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

json_t *json_node(struct node *n);
json_t *json_sandboxes(struct node *n);
json_t *json_running(const struct sandbox *s);
json_t *json_events(struct node *n, uint64_t after, bool is_known);
json_t *json_samples(struct node *n, uint64_t after, bool is_known);
json_t *json_usage(const struct usage *u);
json_t *json_prepare(const struct prepare *p);
