/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The data plane: HTTP/2 of clients on one side, guestd's on the other.
 *
 * Every request goes through the white list (monitor/route.h) and is written
 * anew with known headers (monitor/fields.h); every answer is checked and
 * written anew: statuses from a list, JSON parsed, bounded and dumped, frames
 * and lines validated, files streamed as raw bytes under a type of our choice
 * and never more of them than were promised. Nothing is held
 * beyond one stream window and one frame per request: whoever does not read
 * stops the other side.
 */

#include "base/loop.h"
#include "monitor/console.h"
#include "net/http.h"

#define DATA_CONNS_MAX 64u
#define DATA_JSON_MAX  1048576u

struct data;

/* conn(owner): the way to the guest, or NULL while there is none. */
struct data *data_new(struct loop *l, struct http_conn *(*conn)(void *owner),
		      void *owner);
struct data *data_free(struct data *d);
/* What answers GET /v1/console, whatever becomes of the guest. */
void data_console(struct data *d, struct console *c);
/* Before this, other requests are answered 409 wrong_state. */
void data_open(struct data *d, bool is_open);
/* Serve a client's connection; fd is taken over. */
void data_serve_take(struct data *d, int fd);
