/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What may stand at the end of a command line, from the table of verbs alone.
 * No I/O; what needs a server is only named. */

#include <stddef.h>

#include "base/buf.h"
#include "cli/cli.h"

enum complete_more {
	COMPLETE_NOTHING,
	COMPLETE_SANDBOX, /* a sandbox's name or id */
	COMPLETE_PATH,	  /* SB: or a file here */
	COMPLETE_CONTEXT,
	COMPLETE_TEMPLATE,
	COMPLETE_FILE,
};

/* words: what stands behind `caisson`, the last being completed ("" for a new
 * one). Appends "WORD\tSUMMARY\n" for each candidate that begins like it;
 * returns what else may stand there. */
enum complete_more complete_words(char *const *words, size_t n,
				  struct buf *out);
