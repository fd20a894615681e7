/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Data connections to sandboxes (doc/node-rpc.md): one HTTP/2 connection per
 * sandbox in use, through the node's data socket to that sandbox's monitor,
 * kept while used and 30 s beyond.
 */

#include "api/fault.h"
#include "net/http.h"

struct api;
struct data_want;
struct datas;

struct datas *datas_new(struct api *a);
struct datas *datas_free(struct datas *d);

/*
 * A connection to the sandbox, from the cache or new. done is called once:
 * from within if the cache has one, else later; with conn == NULL and a fault
 * if there is none to be had. The connection is borrowed: start a stream at
 * once. reused: it was in the cache and may be dead without knowing.
 * Returns a handle to take the wish back, or NULL if done was called.
 */
typedef void data_done(void *arg, struct http_conn *conn, bool reused,
		       const struct fault *f);
struct data_want *data_get(struct datas *d, const char *sandbox,
			   const char *data_path, data_done *done, void *arg);
void data_want_drop(struct data_want *w); /* done will not be called */
/* Forget a connection that turned out to be dead. */
void data_forget(struct datas *d, const char *sandbox);
