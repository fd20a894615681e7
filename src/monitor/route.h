/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The data plane's calls (doc/guest-protocol.md), as a white list: a client's
 * method and path become a route and a canonical path for the guest, or a
 * refusal. Nothing of the client's text is passed on as it came: identifiers
 * are checked, numbers re-printed, file names decoded and encoded again,
 * unknown parameters refused. Control calls (/g1) are not in the list. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define ROUTE_NAME_MAX 4096u /* bytes of a file name, decoded */

enum route_kind {
	ROUTE_JSON,   /* the answer is one bounded JSON value */
	ROUTE_OUTPUT, /* frames */
	ROUTE_FILE,   /* the answer's body is raw bytes */
};

struct route {
	enum route_kind kind;
	const char *method; /* static */
	char *path;	    /* canonical, with query; allocated */
	bool has_body;	    /* a request body is passed on */
	uint64_t body_max;  /* its most bytes */
	uint64_t from;	    /* OUTPUT */
};

/* 0, or negative with ERR_NOT_FOUND, ERR_INVALID (a parameter), or
 * ERR_UNSUPPORTED (a path that has other methods). */
int route_parse(const char *method, const char *path, struct route *ret,
		struct err *e);
void route_fini(struct route *r);
