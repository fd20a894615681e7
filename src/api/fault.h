/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A refusal as the public API words it: {code, message, cause, remedy, …}. The
 * table of codes is part of the API: a code is stable and has one HTTP status.
 * Pure.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct fault {
	const char *code; /* of the table; NULL = no fault */
	const char *cause;
	int retry_after_s; /* 0 = not said */
	char message[ERR_MSG_MAX];
	char remedy[320];
	char field[160];
	char operation[32];
};

/* The status of a code; 0 if there is no such code. */
int fault_status(const char *code);
/* The table's own spelling of a code from elsewhere, or NULL. */
const char *fault_code(const char *code);
/* The same for causes (request policy quota capacity node guest store
 * provider). */
const char *fault_cause(const char *cause);
/* All codes, NULL-terminated, for the API's document. */
const char *const *fault_codes(void);

/* code and cause must be in the tables (CHECKed). remedy may be "". */
void fault_set(struct fault *f, const char *code, const char *cause,
	       const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* A failure of the database, said by src/db. */
void fault_of_db(struct fault *f, const struct err *e);

/* {error:{…}} of another part of the system (at most 64 KiB): its words are
 * kept, its code and cause only if they are in the tables. status is what the
 * part answered, for what is not in that form. */
void fault_of_peer(struct fault *f, const char *cause, int status,
		   const char *body, size_t n);

/* The inner object, without request id. New reference. */
json_t *fault_json(const struct fault *f);
/* {"error":{…}}, allocated. */
char *fault_text(const struct fault *f, const char *request_id);
