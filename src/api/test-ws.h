/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A client's WebSocket at the data listener of the rig. */

#include "api/test-rig.h"
#include "base/test.h"
#include "net/ws.h"

struct wsc {
	struct http_conn *conn;
	struct ws *ws;
	int status; /* of a refusal */
	bool answered, closed, held;
	unsigned code, n_messages;
	char body[4096];
	char types[64]; /* of the frames that came, in hex pairs */
	struct buf output, last;
	uint64_t end; /* offset behind the output */
	bool in_order;
	bool
	    raw; /* a tunnel: messages are bytes; end = the peer's half-close */
};

/* Until it is open or refused. key, protocols, host may be NULL. */
void wsc_open(struct wsc *c, const char *path, const char *key,
	      const char *protocols, const char *host);
void wsc_close(struct wsc *c);
/* A frame of an exec. */
void wsc_put(struct wsc *c, uint8_t type, uint64_t offset, const char *payload);

#define UNTIL(x)                                                               \
	do {                                                                   \
		for (int i_ = 0; i_ < 3000 && !(x); i_++)                      \
			loop_once(rig_loop, 10);                               \
		T_TRUE(x);                                                     \
	} while (0)
