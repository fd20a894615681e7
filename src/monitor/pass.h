/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request on its way: a client's stream (down) coupled to a stream of the
 * guest (up). Frees itself when both have ended. When the way to the guest
 * breaks, frames end with CLOSING {"reason":"disconnected","retry":true}; what
 * else had begun is cut.
 */

#include "base/list.h"
#include "monitor/route.h"
#include "net/http.h"

#define PASS_FRAMES_TYPE "application/vnd.caisson.frames"
#define PASS_LINES_TYPE	 "application/x-ndjson"

/* How long a client may leave what waits for him unread, or send nothing of a
 * body that he began. The guest's own times are the routes' (monitor/route.h):
 * attach, output and watch bring something every 15 s. */
#define PASS_STALL_MS 900000u
/* All of these times are divided by it; a variable for tests. */
extern uint64_t pass_silence_divisor;

/* Couple down to a new stream of guest. Answers down by itself if that fails.
 * route is taken over; list: where the object hangs while it lives. */
void pass_start(struct loop *l, struct http_stream *down,
		struct http_conn *guest, struct route *route_take,
		struct list *list);
/* Cut all of them, before their connections go. */
void pass_cut_all(struct list *list);
/* The list goes; its clients are gone, streams of the guest may still end. */
void pass_orphan_all(struct list *list);

/* {error:{code,message,cause}} */
void pass_refuse(struct http_stream *down, int status, const char *code,
		 const char *message, const char *cause);
void pass_refuse_field(struct http_stream *down, int status, const char *code,
		       const char *message, const char *cause,
		       const char *field);
