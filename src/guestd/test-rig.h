/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host's end of the channel, for tests and by hand: record layer and HTTP/2
 * client over a descriptor, with calls that run the loop until they are done.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop.h"
#include "net/http.h"
#include "net/record.h"

#define RIG_WAIT_MS 60000

struct rig {
	struct loop *loop;
	int fd;
	struct loop_io io;
	struct loop_defer again;
	struct record *record;
	struct http_transport transport;
	struct buf in;
	struct http_conn *conn; /* NULL until a session is up */
	bool lost;		/* the other end is gone */
	pid_t pid;		/* guestd, if rig_spawn() started it */
	uint64_t rx_bytes;	/* payload received */
};

/* One answer, collected or still coming. */
struct rig_reply {
	struct rig *rig;
	struct http_stream *stream; /* NULL when over */
	int status;
	/* of the head; "" and -1 where it has none */
	char etag[128], content_range[80], date[40];
	int64_t length;
	struct buf body;
	size_t body_max; /* do not take more than that; 0 = all */
	bool closed, cut;
};

/* Takes fd over and starts a session. */
void rig_init_take(struct rig *r, struct loop *l, int fd);
void rig_fini(struct rig *r); /* also ends and reaps a guestd of ours */
/* caisson-guestd of this build on a socket pair, with a session. */
void rig_spawn(struct rig *r);
/* A new session, as a host that reconnected: false if none came up. */
bool rig_reconnect(struct rig *r);
bool rig_wait_up(struct rig *r);

/* Run the loop for a while, or until *stop. */
void rig_run(struct rig *r, uint64_t ms, const bool *stop);

/* Start a request. fields: pairs of name and value, NULL-terminated, or NULL.
 * body NULL: none. */
void rig_start(struct rig *r, struct rig_reply *p, const char *method,
	       const char *path, const char *const *fields, const void *body,
	       size_t n);
/* For streams that a test starts itself; their owner is a struct rig_reply. */
const struct http_handler *rig_handler(void);
/* Until it is over; false after RIG_WAIT_MS. */
bool rig_finish(struct rig_reply *p);
/* Take what arrived and was held back by body_max; new limit. */
void rig_take(struct rig_reply *p, size_t body_max);
void rig_reply_fini(struct rig_reply *p);

/* All in one: status, or 0 if the stream was cut. The body is in p. */
int rig_call(struct rig *r, struct rig_reply *p, const char *method,
	     const char *path, const char *body);
/* renew + thaw with fresh values; status of the last call. */
int rig_go(struct rig *r, const char *sandbox);
