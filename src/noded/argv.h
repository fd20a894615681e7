/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A VMM's command line as it arrives: a memfd with all four seals, holding the
 * strings one after the other, each with its NUL. Root never looks into it: the
 * child reads it after it gave up every privilege, because the jail is the
 * boundary and not the words.
 */

#include <stddef.h>

#include "base/err.h"

#define ARGV_BYTES_MAX 65536u
#define ARGV_WORDS_MAX 256u

/* Point argv[0..] into text (n bytes) and end it with NULL. Returns the number
 * of words, or -EBADMSG: empty, no NUL at the end, too many. Pure. */
int argv_split(char *text, size_t n, const char *argv[ARGV_WORDS_MAX + 1]);

/* Check seals and size, read, split; text is the caller's. Words or a negative
 * errno: -EPERM if the memfd is not sealed, -EFBIG, -EBADMSG. */
int argv_read(int fd, char text[ARGV_BYTES_MAX],
	      const char *argv[ARGV_WORDS_MAX + 1]);
