/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Read a file once and hash it; copy it on the way if asked to. Holes are not
 * read: their zeros are fed to the hash from memory, and they stay holes in the
 * copy. Blocking for as long as the bytes take: for worker processes.
 */

#include <stdint.h>

#include "tls/digest.h"

/* from: readable; to: an empty writable file, or -1. The digest of what was
 * read (and so of what was written), its size. 0 or -errno. */
int copy_hash(int from, int to, char ret_hex[DIGEST_HEX], uint64_t *ret_size);
