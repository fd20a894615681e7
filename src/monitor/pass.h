/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request on its way: a client's stream (down) coupled to a stream of the
 * guest (up). Frees itself when both have ended.
 */

#include "base/list.h"
#include "monitor/route.h"
#include "net/http.h"

/* Silence of the guest, while it is its turn, after which a request is cut.
 * Following an output brings a frame every 15 s. */
#define PASS_SILENCE_MS 90000u

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
