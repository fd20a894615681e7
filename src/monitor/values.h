/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Is a JSON answer of a guest one that its daemon would give? The guest may
 * have taken the daemon's place, and clients take what passes here for sizes,
 * ids and names. So every number is a whole one of 0..INT64_MAX, and each field
 * that we know has the form it has in doc/guest-protocol.md, at any depth: a
 * name is one component of a path, an id a word, a mode octal digits. Fields
 * that we do not know pass, as long as their numbers do. Pure.
 */

#include <jansson.h>

#include "base/err.h"

/* 0, or -EBADMSG with the field named. */
int values_check(json_t *v, struct err *e);
