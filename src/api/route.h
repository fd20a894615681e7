/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The route table: the one place that says which calls exist. Dispatch, the
 * OpenAPI document and the answers 404, 405 and 422 all come from it. The
 * matcher is pure.
 */

#include <stdbool.h>
#include <stddef.h>

#define ROUTE_PARAMS_MAX 3u
#define ROUTE_PARAM_MAX	 300u /* decoded bytes of one path segment */
#define ROUTE_PATH_MAX	 8192u

struct req;

enum role {	       /* each includes those before it */
	    ROLE_OPEN, /* no key */
	    ROLE_VIEWER,
	    ROLE_DEVELOPER,
	    ROLE_ADMIN,
	    ROLE_OPERATOR,
	    ROLE_MAX_,
};

/* What a narrowed token may carry (POST /v1/tokens). */
enum allow {
	ALLOW_EXEC = 1,
	ALLOW_FILES = 2,
	ALLOW_PORTS = 4,
	ALLOW_END = 8,
	/* of a route only: any token of the sandbox may */
	ALLOW_ANY = 16,
};

enum side { SIDE_CONTROL = 1, SIDE_DATA = 2 };

struct route {
	const char *method;
	const char *path; /* "/v1/sandboxes/{id}" */
	enum side side;
	enum role role;
	void (*run)(struct req *r); /* NULL: answered 422 not_supported */
	const char *summary;
	/* of what `run` reads and answers; NULL = none. Names of schemas. */
	const char *query; /* space-separated names of parameters */
	const char *request;
	const char *response;
	const char *type; /* response's media type; NULL = application/json */
	bool stream;	  /* the request's body is not collected */
};

extern const struct route routes[];
extern const size_t n_routes;

struct route_params {
	size_t n;
	char name[ROUTE_PARAMS_MAX][16];
	char value[ROUTE_PARAMS_MAX][ROUTE_PARAM_MAX + 1];
};

enum route_result {
	ROUTE_FOUND,
	ROUTE_UNKNOWN,
	ROUTE_METHOD, /* the path exists; see *ret_allow */
	ROUTE_BAD_PATH,
};

#define ROUTE_ALLOW_MAX 64u

/* path: origin form, the query (from '?') is ignored. Of two templates that
 * match, the one that stands first counts. allow: "GET, POST". */
enum route_result route_match(const struct route *table, size_t n_table,
			      enum side side, const char *method,
			      const char *path, const struct route **ret,
			      struct route_params *ret_params,
			      char allow[ROUTE_ALLOW_MAX]);
/* NULL if the template has no such parameter. */
const char *route_param(const struct route_params *p, const char *name);

/* Does it look at If-Match? A change of what has a generation does. */
bool route_conditional(const struct route *r);
/* The bit that a narrowed token needs for this route; 0: no narrowed token is
 * let in. Follows from the path, so that a new route below a known one is in
 * the right class, and any other is closed. */
unsigned route_allow(const struct route *r);
/* "exec", "files", "ports", "end"; NULL for ALLOW_ANY and what is no bit. */
const char *allow_name(unsigned bit);
bool allow_parse(const char *name, unsigned *ret);

const char *role_name(enum role r);
bool role_parse(const char *name, enum role *ret); /* not "open" */
