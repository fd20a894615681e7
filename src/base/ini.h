/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration files: sections, a typed table of keys, and errors that begin
 * with "file:line: ". Unknown sections and keys are errors. `#` and `;` start a
 * comment at the beginning of a line only. No includes, no continuation lines.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum ini_type {
	INI_STR,  /* char **: allocated, replaces (frees) the old value */
	INI_BOOL, /* bool *: yes/no, true/false, on/off */
	INI_INT,  /* int64_t *: within min..max */
	INI_SIZE, /* int64_t *, bytes: 10, 4K, 512M, 2G; within min..max */
	INI_TIME, /* int64_t *, milliseconds: 250ms, 10s, 5m, 1h, 7d */
	INI_TYPE_MAX_,
};

struct ini_key {
	const char *section, *key;
	enum ini_type type;
	void *dest;
	int64_t min, max; /* ignored when both are 0 */
};

/* Parse text (n bytes) called `name` in messages. 0, or -EINVAL with *e. */
int ini_parse(const char *name, const char *text, size_t n,
	      const struct ini_key *keys, size_t n_keys, struct err *e);
/* The same for a file of at most 1 MiB; -ENOENT is reported as such. */
int ini_load(const char *path, const struct ini_key *keys, size_t n_keys,
	     struct err *e);
