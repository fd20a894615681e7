/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What pass.c (the two streams and their ends) and pass_body.c (bytes in
 * between) share.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "monitor/fields.h"
#include "monitor/frames.h"
#include "monitor/lines.h"
#include "monitor/route.h"
#include "monitor/sum.h"
#include "net/http.h"

enum answer {
	ANSWER_NONE,
	ANSWER_JSON,
	ANSWER_FILE,   /* raw, exactly `left` bytes */
	ANSWER_RAW,    /* raw, to its end */
	ANSWER_FRAMES, /* OUTPUT, ATTACH */
	ANSWER_LINES,  /* WATCH */
};

struct pass {
	struct list link;
	struct loop *loop;
	struct loop_timer silence;
	uint64_t moved_ms;	       /* when anything went on last */
	struct http_stream *down, *up; /* NULL once closed */
	struct route route;
	struct asked asked;
	enum answer answer;
	int status;
	uint64_t body_bytes;
	uint64_t left;	   /* FILE: bytes to come */
	bool has_all_body; /* the request was passed on whole */
	bool has_head, has_answered;
	struct sum *sum; /* PUT of a file: its bytes so far; else NULL */
	uint8_t digest[SUM_BYTES]; /* once has_all_body */
	struct frames frames;
	struct frames input; /* ATTACH: the client's */
	struct lines lines;
	struct buf json; /* the guest's answer */
	struct buf out;	 /* what the client has not taken yet */
	struct buf in;	 /* ATTACH: what the guest has not taken yet */
};

/* The guest's answer is of no use: 502 if nothing was answered, else a cut. */
void pass_fail(struct pass *p, const char *message);
void pass_touch(struct pass *p);
/* A frame of the client's was wrong: CLOSING, and no more to the guest. */
void pass_protocol(struct pass *p, const char *message);

/* Client to guest, and guest to client, as far as it goes now. */
void pass_request(struct pass *p);
void pass_response(struct pass *p);
/* The guest's head has come: answer with our own, or prepare to. */
void pass_head(struct pass *p, const struct http_head *h);
