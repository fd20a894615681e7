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
	ROUTE_JSON,    /* the answer is one bounded JSON value */
	ROUTE_OUTPUT,  /* frames */
	ROUTE_FILE,    /* raw bytes of a promised length */
	ROUTE_ARCHIVE, /* raw bytes to the end of the stream */
	ROUTE_WATCH,   /* lines of JSON */
	ROUTE_ATTACH,  /* frames both ways at once */
	ROUTE_TUNNEL,  /* raw bytes both ways at once, each with its own end */
	ROUTE_CONSOLE, /* the monitor's own: never reaches the guest */
};

/* Request headers that go with a call, beside those that go with all. */
enum route_field {
	ROUTE_RANGE = 1, /* range and if-range */
	ROUTE_MATCH = 2, /* if-match and if-none-match */
	ROUTE_DIGEST = 4,
};

struct route {
	enum route_kind kind;
	const char *method; /* static */
	char *path;	    /* canonical, with query; allocated */
	bool has_body;	    /* a request body is passed on */
	uint64_t body_max;  /* its most bytes */
	unsigned fields;    /* enum route_field */
	/* How long the guest may be silent when it is its turn; 0 = for ever:
	 * bytes wait for a program of the guest's. */
	uint32_t silence_ms;
	uint64_t from;	 /* OUTPUT, ATTACH, CONSOLE */
	bool follow;	 /* CONSOLE */
	bool is_zstd;	 /* ARCHIVE */
	const char *bad; /* the parameter refused, static; NULL if none is */
};

/* 0, or negative with ERR_NOT_FOUND, ERR_INVALID (a parameter, named in
 * ret->bad if it is one we know), or ERR_UNSUPPORTED (a path that has other
 * methods). Nothing else of *ret is set then. */
int route_parse(const char *method, const char *path, struct route *ret,
		struct err *e);
void route_fini(struct route *r);
