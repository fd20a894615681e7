/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A refusal or failure as the node RPC tells it: a stable code with its HTTP
 * status, who refused, what to do, and words. Everything that a sandbox's life
 * can run into ends in one of these; there is no untyped failure.
 */

#include <stdbool.h>

#include "base/err.h"

enum fault_code {
	FAULT_NONE,
	FAULT_INVALID,
	FAULT_NOT_FOUND,
	FAULT_STALE,
	FAULT_INCARNATION,
	FAULT_STATE,
	FAULT_CANCELLED,
	FAULT_UNSUPPORTED,
	FAULT_CAPACITY,
	FAULT_NODE,
	FAULT_STORE,
	FAULT_NO_SPACE,
	FAULT_CORRUPT,
	FAULT_TIMEOUT,
	FAULT_BOOT,
	FAULT_VM,
	FAULT_INTERNAL,
	FAULT_MAX_,
};

#define FAULT_MSG_MAX 1536

struct fault {
	enum fault_code code;
	const char *remedy; /* NULL = the code's own */
	char msg[FAULT_MSG_MAX];
};

struct fault_info {
	int status;
	const char *code, *cause, *remedy;
	unsigned retry_after_s; /* 0 = none */
};

const struct fault_info *fault_info(enum fault_code code);

void fault_set(struct fault *f, enum fault_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Who a struct err came from decides what its kind means to the asker. */
enum fault_from { FAULT_FROM_NODED, FAULT_FROM_STORE, FAULT_FROM_MONITOR };
void fault_from_err(struct fault *f, enum fault_from from, const char *doing,
		    const struct err *e);
