/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bringing a file into the node's store (proto/storaged.h), as root. Blocking;
 * holes stay holes. */

#include <stdint.h>

#include "base/err.h"

struct storeclient {
	int fd;
	uint32_t seq;
};

int storeclient_open(struct storeclient *s, const char *run, struct err *e);
void storeclient_close(struct storeclient *s);
/* Copy and commit; ret_digest is "sha256:" + 64 hex + NUL (72 bytes).
 * on_bytes (may be NULL) hears of the bytes done so far; non-zero stops with
 * -ECANCELED and nothing is kept. */
int storeclient_import(struct storeclient *s, const char *path,
		       char ret_digest[72],
		       int (*on_bytes)(void *arg, uint64_t done,
				       uint64_t total),
		       void *arg, struct err *e);
/* Copy a file's data to an empty one, keeping holes. */
int copy_sparse(int from, int to,
		int (*on_bytes)(void *arg, uint64_t done, uint64_t total),
		void *arg, struct err *e);
