/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading what a newer server may have widened: absent or differently typed is
 * the default given, unknown fields do not matter. path is dotted
 * ("isolation.level"). For requests and files of ours use net/json.h.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

const json_t *jget(const json_t *v, const char *path); /* NULL if absent */
const char *jget_str(const json_t *v, const char *path, const char *def);
int64_t jget_int(const json_t *v, const char *path, int64_t def);
/* Copy of a string that is safe on a terminal: control bytes become '?'. */
void jget_shown(const json_t *v, const char *path, const char *def, char *ret,
		size_t n);
