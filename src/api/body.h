/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bodies of requests, read strictly: an unknown field is an error, a field
 * that a later version will know is a typed refusal that names it. Pure; the
 * results borrow from the JSON they were read from.
 *
 * Each returns 0, or -1 with *f filled: missing_field, unknown_field,
 * invalid_field (400) or not_supported (422).
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/fault.h"
#include "api/route.h"

#define BODY_NAME_MAX	 63u
#define BODY_TTL_DEFAULT 3600	  /* seconds, when lifetime.ttl_s is absent */
#define BODY_TTL_MAX	 31622400 /* 366 days */
#define BODY_LABELS_MAX	 64u
#define BODY_ENV_MAX	 256u
#define BODY_KEEP_MAX	 67108864

struct body_create {
	const char *template; /* NAME, NAME:TAG or sha256:HEX */
	const char *name;     /* NULL = none */
	const char *isolation;
	json_t *labels, *env;		     /* NULL = none */
	int64_t vcpus, memory_mib, disk_mib; /* 0 = the release's default */
	int64_t ttl_s;
	bool has_ttl; /* false: null was given, no end */
	const char *on_expiry;
};
int body_create(json_t *v, struct body_create *ret, struct fault *f);

struct body_exec {
	json_t *env; /* NULL = none */
	bool attach; /* nothing runs before the first attach */
	bool has_stdin, has_pty;
};
/* Checks the whole body; what is in it goes on to the guest as it is. */
int body_exec(json_t *v, struct body_exec *ret, struct fault *f);
/* The body for the guest: v with id, and env = defaults < sandbox < exec; user
 * and cwd from the defaults if v has none. New reference. */
json_t *body_exec_merge(const json_t *v, const char *id, const json_t *defaults,
			const json_t *sandbox_env);

int body_signal(json_t *v, struct fault *f);
int body_size(json_t *v, struct fault *f);

struct body_attach_token {
	bool watch;
	int64_t ttl_s;
};
int body_attach_token(json_t *v, struct body_attach_token *ret,
		      struct fault *f);

struct body_token {
	const char *sandbox; /* id or @name */
	unsigned allow;	     /* bits of enum allow, at least one */
	int64_t ttl_s;
};
int body_token(json_t *v, struct body_token *ret, struct fault *f);

struct body_port {
	int64_t port;
	const char *access; /* "private", "token" or "public" */
};
int body_port(json_t *v, struct body_port *ret, struct fault *f);

struct body_key {
	const char *name;
	enum role role;
	const char *project; /* NULL = the caller's */
};
int body_key(json_t *v, struct body_key *ret, struct fault *f);

struct body_build {
	json_t *manifest; /* canonical, new reference: fini */
};
int body_build(json_t *v, struct body_build *ret, struct fault *f);
void body_build_fini(struct body_build *b);
/* "sha256:HEX" of the canonical text: keys sorted, no spaces. */
void manifest_digest(const json_t *manifest, char ret[72]);

/* For readers elsewhere (body-admin.c): end one, with what it found as a fault;
 * refuse a field that a later version knows. */
struct json_reader;
bool body_end(struct json_reader *r, const struct err *e, struct fault *f);
void body_later(struct json_reader *r, const char *name, struct fault *f);

/* [a-z0-9] and inner dashes, 1..63: a DNS label. */
bool name_valid(const char *s);
/* NAME, NAME:TAG or sha256: + 64 hex. */
bool template_ref_valid(const char *s);
/* "sha256:" + 64 lower-case hex. */
bool digest_valid(const char *s);
