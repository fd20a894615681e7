/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One caisson-api process: both listeners, the database pool, what is known of
 * the nodes. Stateless in the sense that another process, or this one after a
 * restart, goes on with whatever it left: accepted wishes are rows.
 *
 * Single-threaded; nothing blocks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "db/pg.h"
#include "net/http.h"

struct api_conf {
	const char *conninfo;
	const char *const *hosts; /* names we answer to, beside loopback */
	size_t n_hosts;
	const char *const *origins;
	size_t n_origins;
	unsigned db_conns; /* 0 = the pool's default */
	/* the data listener as clients reach it, HOST:PORT; NULL = the name
	 * they asked by and the listener's port */
	const char *data_url;
	/* DOMAIN[:PORT] of the URLs of sandboxes' ports; NULL = localhost and
	 * the data listener's port */
	const char *preview_domain;
	/* calls a second that one key may make on the control listener; 0 =
	 * no limit */
	unsigned rate_per_s;
	/* wrong keys that one address may try at once; 0 = the default */
	unsigned guess_burst;
	/* networks (CIDR) that webhooks may go to, beside the public ones */
	const char *const *webhook_allow;
	size_t n_webhook_allow;
};

struct audit_queue;
struct auth_cache;
struct event_hub;
struct limit;
struct nodes;
struct datas;

struct api {
	struct loop *loop;
	struct api_conf conf; /* borrowed */
	struct pg_pool *db;
	char owner[28]; /* names this process as owner of operations */
	uint8_t secret[32];
	bool has_secret;
	struct auth_cache *auth;
	struct audit_queue *audit; /* refused requests on their way */
	struct event_hub *events;
	struct limit *rate; /* calls by key; NULL: no limit */
	struct nodes *nodes;
	struct datas *datas;
	struct http_server *control, *data;
	uint16_t data_port; /* of the listener */
	struct list reqs;
	struct map *waits; /* operation id -> struct list of waiters */
	unsigned n_waits;
	struct loop_timer sweep_timer, renew_timer, hello_timer;
	bool sweeping;
	struct list tasks;
	bool stopping;
};

struct api *api_new(struct loop *l, const struct api_conf *conf);
/* Listening sockets are taken over. */
void api_listen_take(struct api *a, int control_fd, int data_fd);
/* Cuts everything. */
struct api *api_free(struct api *a);

/* "127.0.0.1:7700", "[::1]:7700": numeric only. A listening socket or -errno
 * with *e. */
int api_bind(const char *text, struct err *e);
