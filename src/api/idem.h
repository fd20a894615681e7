/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What makes a change safe to send: Idempotency-Key and If-Match.
 *
 * Every changing call of the control listener takes an Idempotency-Key. Calls
 * that make something which must exist once (a sandbox, a key, a build, an
 * exec) take the key in the transaction, or in the guest, that makes it. For
 * all others the key is taken before the handler runs and the answer is kept
 * before it is sent; a second request waits for the first and gets the same
 * answer. A refusal gives the key back. If this process dies in between, the
 * key is free after IDEM_LEASE_S and the call runs again: those calls say what
 * shall be, so that changes nothing.
 *
 * A kept answer never holds a secret: fields `secret` and `token` are null.
 */

#include "api/req.h"

#define IDEM_LEASE_S 180

/* Runs go(r) if there is no key or it is ours; else the request is answered
 * (replay, 409) now or later. */
void idem_begin(struct req *r, void (*go)(struct req *r));
/* true: the answer is kept first, and given to again(…) afterwards. */
struct idem_answer {
	int status;
	const char *name, *value, *text; /* JSON; one header more, or NULL */
};
bool idem_answer(struct req *r, const struct idem_answer *x);
/* Drops what r holds of it. */
void idem_fini(struct req *r);

/* The one If-Match: ret "" if there is none or it is `*`, else the generation
 * as digits. false: answered 400. */
#define IF_MATCH_MAX 24u
bool req_if_match(struct req *r, char ret[IF_MATCH_MAX]);
/* `"7"` or `*` (empty). Pure. */
bool if_match_parse(const char *text, char ret[IF_MATCH_MAX]);
/* The text of an answer without its secrets; new. NULL if it is no JSON. */
char *idem_without_secrets(const char *text);
