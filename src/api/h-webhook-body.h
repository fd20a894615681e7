/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The bodies of webhooks, read strictly. Pure; the results borrow from the
 * JSON they were read from. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/fault.h"
#include "api/h-event-cursor.h"
#include "net/target.h"

#define WEBHOOK_TYPES_MAX  32u
#define WEBHOOK_SECRET_MIN 16u
#define WEBHOOK_SECRET_MAX 128u
#define WEBHOOK_TYPE_MAX   72u

struct body_webhook {
	const char *url; /* NULL = not given */
	struct target target;
	json_t *types;	 /* strings; NULL = not given */
	bool has_labels; /* with labels NULL: no filter */
	json_t *labels;
	const char *secrets[2];
	size_t n_secrets;
	const char *state; /* active, disabled; changes only */
};

/* 0, or -1 with *f. `change`: every field may be absent, and there is state. */
int body_webhook(json_t *v, bool change, struct body_webhook *ret,
		 struct fault *f);
/* {"a","b"}: an array literal of checked types; new. */
char *webhook_types_literal(const json_t *types);
