/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request passed on to a guest, and its answer passed back.
 *
 * What the guest says is opaque bytes for one client: its status is clamped to
 * a fixed set, only named headers pass, JSON is bounded and must be UTF-8, and
 * nothing of it is parsed here. Streams carry pressure both ways: bytes are
 * taken from one side only when the other took those before.
 */

#include "api/req.h"
#include "api/sse.h"

enum proxy_mode {
	PROXY_JSON,   /* answer collected, at most PROXY_JSON_MAX */
	PROXY_STREAM, /* answer passed as it comes */
	PROXY_UPLOAD, /* the client's body streamed up, answer as JSON */
};

#define PROXY_JSON_MAX 4194304u
#define PROXY_IDLE_MS  60000u  /* neither side moves: the guest is silent */
#define PROXY_STUCK_MS 600000u /* the client does not read */

struct proxy_spec {
	const char *sandbox, *data_path;
	const char *method, *path; /* at the guest */
	const char *body;	   /* JSON, or NULL */
	enum proxy_mode mode;
	/* Client headers that go along, NULL-terminated, lower case. */
	const char *const *pass;
	/* PROXY_STREAM: what the guest streams, as server-sent events. A stream
	 * that breaks ends with a closing event. */
	bool events, follow;
	enum sse_of events_of;
	/* PROXY_JSON: the answer to a 2xx, made from the guest's (valid UTF-8);
	 * allocated, or NULL if that is not what it should be. */
	char *(*edit)(struct req *r, const char *text, size_t n);
	int edit_status; /* of that answer; 0 = the guest's */
};

/* Answers r in the end, whatever happens. spec is copied. */
void proxy_start(struct req *r, const struct proxy_spec *spec);

/* ---- pure ---- */

/* The guest's status if the API has it, else 503. */
int proxy_status(int status);
/* May this header of a guest's answer pass? */
bool proxy_header(const char *name, const char *value);
bool proxy_utf8(const void *p, size_t n); /* no NUL either */
