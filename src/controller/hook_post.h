/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One POST of one event to a webhook's URL, signed. It blocks (names are
 * resolved by the library), so it runs in a child process.
 *
 * The guard: only http and https, no proxy, no redirect followed, and every
 * address is judged at the moment its socket is made, so that a name cannot
 * mean one address to the guard and another to the connection.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/worker.h"
#include "net/addr.h"

#define HOOK_POST_MS	 10000u
#define HOOK_SECRETS_MAX 2u
#define HOOK_SIGNATURE	 256u
#define HOOK_ANSWER_MAX	 65536u /* of a body that nobody reads */

struct hook_post {
	const char *url, *body;
	const char *id; /* of the delivery */
	char secrets[HOOK_SECRETS_MAX][160];
	size_t n_secrets;
	const struct addr_net *allow;
	size_t n_allow;
};

/* "t=SECONDS,v1=HEX[,v1=HEX]": HMAC-SHA-256 of "SECONDS.BODY" under each
 * secret. */
void hook_signature(const struct hook_post *p, int64_t unix_s,
		    char ret[HOOK_SIGNATURE]);
/* A worker_fn; arg is a struct hook_post. rep->a: the status, 0 without an
 * answer; rep->data: why. */
int hook_post(void *arg, struct worker_report *rep, int *ret_fds,
	      size_t *ret_n_fds, struct err *e);
