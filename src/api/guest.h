/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a request about a sandbox to that sandbox: found for this tenant, alive,
 * on a node that is known. */

#include "api/req.h"

struct guest {
	const char *id;	       /* sb… */
	const char *data_path; /* of its node */
	const char *env;       /* JSON objects; defaults may be NULL */
	const char *defaults;
};

/* ref: id or @name. done is not called if the request was answered: 404, 410
 * sandbox_ended, 409 wrong_state, 503. *g is valid during the call. */
void guest_find(struct req *r, const char *ref,
		void (*done)(struct req *r, const struct guest *g));
/* For routes with {ex}: the sandbox is in the exec's id. false: answered 404.
 */
bool guest_of_exec(const char *exec, char ret_sandbox[23]);
