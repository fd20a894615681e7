/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decoder of an exec's output stream (application/x-ndjson, one frame a line).
 * Bytes in, frames out: pure, bounded (a line holds at most
 * NDJSON_LINE_MAX bytes), and it keeps the offset up to which every byte has
 * been handed on, so that a lost connection resumes there: bytes below it are
 * dropped, a jump above it is reported as a gap, never passed over in silence.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define NDJSON_LINE_MAX 262144u

enum ndjson_type {
	NDJSON_OUTPUT, /* stream, p, n */
	NDJSON_STARTED,
	NDJSON_EXIT, /* fact */
	NDJSON_GAP,  /* from, to: bytes that nobody has any more */
	NDJSON_OTHER,
};

struct ndjson_frame {
	enum ndjson_type type;
	int stream; /* 1 stdout, 2 stderr, 3 pty */
	const uint8_t *p;
	size_t n;
	uint64_t from, to;
	const json_t *fact; /* borrowed; valid during the call */
};

struct ndjson {
	struct buf line;
	uint64_t next; /* all bytes below were handed on (or are gone) */
	bool over;     /* the exit fact was seen */
	bool unnamed;  /* a console: one stream, which lines do not name */
	/* Non-zero ends the feeding and is returned from it. */
	int (*on_frame)(void *arg, const struct ndjson_frame *f);
	void *arg;
};

void ndjson_init(struct ndjson *d, uint64_t from,
		 int (*on_frame)(void *, const struct ndjson_frame *),
		 void *arg);
void ndjson_fini(struct ndjson *d);
/* A new connection: an unfinished line of the old one is void. */
void ndjson_restart(struct ndjson *d);
/* 0; what on_frame returned if non-zero; or -EBADMSG with *e for a line that
 * is no frame. */
int ndjson_feed(struct ndjson *d, const void *p, size_t n, struct err *e);
