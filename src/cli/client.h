/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP client of the CLI, on libcurl: an independent peer of our own server.
 * Blocking; one client, one call at a time; connections are kept. Mutating
 * calls carry an Idempotency-Key, so that a call whose answer got lost is
 * repeated (up to 3 times, connection failures only). A signal descriptor, if
 * set, is watched during calls.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/context.h"

enum client_side { CLIENT_CONTROL, CLIENT_DATA };

/* A typed refusal by the server: {error:{…}}. */
struct fault {
	int status;
	char code[64];
	char message[512];
	char cause[32];
	char field[64]; /* of the request, "" for none */
	char remedy[512];
	char request_id[64];
};

struct client;

/* Takes c's contents over. */
struct client *client_new_take(struct context *c);
struct client *client_free(struct client *cl);
const struct context *client_context(const struct client *cl);

/* Readable = something to look at: on_wake(arg) is called, non-zero ends the
 * call in hand with -ECANCELED. fd -1 for none. */
void client_watch(struct client *cl, int fd, int (*on_wake)(void *arg),
		  void *arg);

/* The next client_call() carries this Idempotency-Key (at most 63 characters)
 * instead of a fresh one: to ask again for what an interrupted call made. */
void client_key(struct client *cl, const char *key);

enum { CLIENT_OK, CLIENT_FAULT };
/* CLIENT_OK with *ret (new reference; NULL if the body is empty), CLIENT_FAULT
 * with *f, or a negative errno with *e if no answer came. ret_status may be
 * NULL. timeout_s covers the whole call. */
int client_call(struct client *cl, enum client_side side, const char *method,
		const char *path, const json_t *body, unsigned timeout_s,
		json_t **ret, int *ret_status, struct fault *f, struct err *e);

/* Stream a GET's body to on_bytes until its end; no total timeout, but 45 s of
 * silence ends it (-ETIMEDOUT). on_bytes non-zero ends it with -ECANCELED.
 * Returns as client_call; CLIENT_OK = the body ended properly. */
int client_stream(struct client *cl, enum client_side side, const char *path,
		  const char *accept,
		  int (*on_bytes)(void *arg, const void *p, size_t n),
		  void *arg, struct fault *f, struct err *e);

/* Bytes in either direction, with headers of the caller's. */
struct client_transfer {
	enum client_side side;
	const char *method, *path;
	const char *accept; /* NULL = application/json */
	const char *const
	    *headers; /* "Name: value", NULL at the end, or NULL */
	/* The body to send: at most n bytes into p, 0 at its end, negative to
	 * give up. NULL = none. May block: nothing is received meanwhile. */
	ssize_t (*on_read)(void *arg, void *p, size_t n);
	int64_t body_bytes; /* -1 = not known before */
	/* The body of a 2xx as it comes; non-zero ends it (-ECANCELED). NULL:
	 * it is JSON, for *ret. */
	int (*on_bytes)(void *arg, const void *p, size_t n);
	/* Each header of the answer, before its body. */
	void (*on_header)(void *arg, const char *name, const char *value);
	void *arg;
	unsigned silence_s; /* this long without a byte ends it; 0 = never */
};

/* Once, without repeating. Returns as client_call(). */
int client_transfer(struct client *cl, const struct client_transfer *t,
		    json_t **ret, int *ret_status, struct fault *f,
		    struct err *e);

/* Fill *f from an answer's body (pure; any bytes). */
void fault_parse(int status, const void *p, size_t n, struct fault *f);
/* CAISSON_CA_FILE names certificates to trust instead of the system's, for a
 * server with a CA of its own. easy is a CURL *. */
void client_trust(void *easy);
/* Percent-encode a path segment or query value; allocated. */
char *client_escape(const char *s);
