/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The whole of caisson-api, a private PostgreSQL, a fake node and a client, all
 * in one loop. Each test calls rig_up() first and rig_down() last; the database
 * stays for the program's life.
 */

#include <jansson.h>

#include "api/api.h"
#include "api/test-node.h"

#define OPERATOR "e2b_1111111111111111111111111111111111111111"
#define VIEWER	 "e2b_2222222222222222222222222222222222222222"
#define STRANGER                                                               \
	"e2b_3333333333333333333333333333333333333333" /* another tenant */
#define DEV "e2b_4444444444444444444444444444444444444444"

extern struct loop *rig_loop;
extern struct api *rig_api;
extern struct fake rig_fake;
extern unsigned rig_guess_burst, rig_rate; /* of the next rig_api_start() */

void rig_up(void);
void rig_down(void);
void rig_api_start(void); /* another process after api_free(rig_api) */
void rig_wait_node(void); /* until the API knows the node's counters */
void rig_spin(int ms);
int rig_socket(bool data); /* connected to a listener */

struct ask {
	const char *method, *path, *key, *body;
	const char *name, *value; /* one header more */
	const char *name2, *value2;
	const char *host; /* NULL = localhost */
	bool data, h2;
	uint64_t upload;
};

struct call {
	int status;
	bool done, cut, paused;
	struct buf body;
	char timing[64], location[80], replayed[8], type[64], cookie[16],
	    allow[32];
	char request_id[40], etag[24], retry_after[8];
	struct http_conn *conn;
	struct http_stream *stream;
	uint64_t received;
	uint64_t upload; /* bytes still to send */
};

void rig_send(struct call *c, const struct ask *a);
void rig_wait(struct call *c);
void rig_end(struct call *c);
void rig_resume(struct call *c); /* reads again after `paused` */

/* One call and its whole answer, which stays until the next. */
int rig_ask(const struct ask *a);
extern struct call rig_last;
extern json_t *rig_body; /* of it, or NULL */
/* A string of the last body by path: "sandbox.state"; "" if there is none. */
const char *rig_field(const char *path);
/* Create a running sandbox; its id, allocated. */
char *rig_create(const char *json);

/* what a call leaves out is zero */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define ASK(...) rig_ask(&(struct ask){ __VA_ARGS__ })
#define BASE	 "{\"template\":\"base\"}"
