/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The private PostgreSQL cluster's files. Root; blocking. */

#include "base/err.h"

struct stack;

/* Make DATA/postgres with initdb (as caisson-db): in a folder beside it that is
 * renamed when it is complete, so a half-made cluster is never taken for one. 0
 * also if it is there. */
int pg_init(const char *pg_bin, const char *data, struct err *e);
/* Write postgresql.conf, pg_hba.conf and pg_ident.conf anew. */
int pg_configure(const struct stack *s, struct err *e);
/* The newest /usr/lib/postgresql/N/bin (N >= 15) with what we need, or NULL;
 * allocated. */
char *pg_find_bin(void);
