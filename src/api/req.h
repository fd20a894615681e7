/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request of a client, from its head to its answer.
 *
 * A request lives while its stream is open or somebody holds a reference. A
 * callback that comes later finds stream == NULL if the client went away, and
 * every answering function is a no-op then; whoever must go on without the
 * client (a create) does so in an object of its own.
 */

#include <jansson.h>

#include "api/api.h"
#include "api/fault.h"
#include "api/route.h"
#include "base/buf.h"

#define REQ_BODY_MAX 1048576u

/* What a narrowed token may touch: one sandbox, some kinds of calls; or one
 * exec. Both names "": not narrowed. */
struct scope {
	char sandbox[32];
	unsigned allow; /* bits of enum allow */
	char exec[32];
	bool watch; /* exec: may only watch */
};

struct principal {
	char key[32], tenant[32], project[32];
	char prefix[16]; /* the key's public first characters */
	char name[128];	 /* of the key */
	enum role role;
	struct scope scope;
	int64_t exp_s; /* of a narrowed token, Unix seconds; else 0 */
};

struct idem;

/* auth.h has the words to it. */
struct auth_watch {
	struct list link; /* private */
	char key[32], tenant[32];
	void (*revoked)(struct auth_watch *w);
};

struct req {
	struct api *api;
	struct list link;
	struct http_stream *stream; /* NULL: the client is gone */
	unsigned refs;
	enum side side;
	const struct route *route;
	struct route_params params;
	struct principal who;
	char id[28];	      /* req_… */
	char traceparent[56]; /* passed on */
	char trace[33];
	struct buf body;
	json_t *json; /* the body, of routes that have a request schema */
	bool reading; /* the body is being collected */
	bool replied;
	bool replayed; /* the answer is of an earlier request, say so */
	int status;    /* of the answer, for the log */
	uint64_t start_us;
	/* of it, waiting for the sandbox; told if not 0 (Server-Timing) */
	uint64_t guest_us;
	struct loop_timer timer; /* of the phase in hand */
	/* hooks of a handler that streams; NULL if it does not */
	void (*on_body)(struct req *r);
	void (*on_writable)(struct req *r);
	void (*on_close)(struct req *r);
	/* The key was revoked, or the token ran out. NULL: the stream is cut.
	 */
	void (*on_revoked)(struct req *r, const char *reason);
	void *state;
	void (*drop)(struct req *r); /* frees state, when all is over */
	struct idem *idem;	     /* idem.h; NULL: no key, or not generic */
	struct auth_watch watch;
	struct loop_timer exp_timer; /* of a narrowed token */
	char db_said[128];	     /* message of a refusal of class CA */
};

/* http_conn_ops of both listeners; the connection's owner is the struct api. */
extern const struct http_conn_ops req_control_ops, req_data_ops;

struct req *req_ref(struct req *r);
void req_unref(struct req *r);

const char *req_param(const struct req *r, const char *name);  /* or NULL */
const char *req_header(const struct req *r, const char *name); /* or NULL */
const char *req_path(const struct req *r); /* with query; "" if gone */
/* Who is at the other end: an address without port, or "-". */
#define REQ_PEER 64u
void req_peer(const struct req *r, char ret[REQ_PEER]);
/* A query parameter, allocated, or NULL. */
char *req_query(const struct req *r, const char *name);
/* A whole number of the query within min..max; absent gives `missing`. false:
 * the request was answered 400. */
bool req_query_int(struct req *r, const char *name, int64_t min, int64_t max,
		   int64_t missing, int64_t *ret);

/* Answer; once. Each closes our side, except req_begin(). */
void req_fault(struct req *r, const struct fault *f);
void req_json(struct req *r, int status, const char *text);
void req_text(struct req *r, int status, const char *type, const char *text);
/* The same with one header more; NULL name = none. */
void req_json_with(struct req *r, int status, const char *name,
		   const char *value, const char *text);
/* {"operation":…,"sandbox":…} of two JSON texts; NULL = null. */
char *req_pair(const char *operation, const char *sandbox);
/* A streamed answer: head now, body by http_stream_write(). Adds Request-Id. */
void req_begin(struct req *r, struct http_head *head, bool body);

/* The stream goes on without the request, which was answered with status; the
 * caller holds a reference and takes the stream's handler over. The key is
 * watched until the last reference goes: set on_revoked. */
struct http_stream *req_detach(struct req *r, int status);

/* From here on the request is cut when its key is revoked or its token runs
 * out. Routes need not: it is done for them. */
void req_watch_key(struct req *r);

/* An object with its generation, which becomes the ETag. */
void req_object(struct req *r, int status, const char *generation,
		const char *text);

/* Run a statement for this request. done is called with a live reference that
 * is dropped afterwards; on a database failure that is not one of ours (class
 * CA) the request is answered and done is not called. timeout 5 s. */
typedef void req_db_done(struct req *r, const struct pg_result *res,
			 const char *sqlstate);
void req_db(struct req *r, struct pg_stmt *st, const char *const *params,
	    req_db_done *done);
/* Answer a refusal of class CA (sql/): what = "sandbox", "template", …, for the
 * words. Those of one handler alone (CA005, CA006) are the handler's. */
void req_refused(struct req *r, const char *sqlstate, const char *what);
/* The one Idempotency-Key, NULL if there is none. false: answered 400. */
bool req_idem(struct req *r, const char **ret_key);
/* Keyed hash of what is asked, as hex: path, query without wait_s, body. */
void req_body_hmac(const struct req *r, char ret[65]);
