/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A boot checkpoint as it is kept in the store: the text of the ref
 * boot-<sha256 of release, compatibility key and shape>. The name already says
 * what it fits; the fields repeat it so that a reader can check.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandboxd/spec.h"

struct checkpoint {
	char release[72], compat[72];
	struct resources res;
	uint64_t disk_bytes; /* virtual size of the overlay */
	char state[72], memory[72], layer[72], root[72]; /* hex */
	uint64_t memory_bytes;				 /* pages written */
};

/* "boot-" + 64 hex; ret holds 72. */
void ref_name(const char *release, const char *compat,
	      const struct resources *res, char ret[72]);
char *ref_text(const struct checkpoint *c); /* allocated */
/* 0, or -EINVAL with *e. */
int ref_parse(const void *p, size_t n, struct checkpoint *ret, struct err *e);
