/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a word of `cp` means, and where a copy ends up: as with other copying
 * programs, a folder that is there, or a trailing slash, means "into it".
 * Pure.
 */

#include <stdbool.h>
#include <stdint.h>

enum copy_place { COPY_HERE, COPY_SANDBOX, COPY_STREAM };

struct copyspec {
	enum copy_place place;
	char *sandbox; /* COPY_SANDBOX; allocated */
	char *path;    /* not for COPY_STREAM; allocated */
};

/* "-" is a stream. SB:PATH is of a sandbox if SB looks like one (no slash);
 * `./a:b` is a file here. False: "SB:" without a path, or an empty word. */
bool copyspec_parse(const char *word, struct copyspec *ret);
void copyspec_fini(struct copyspec *s);

enum copy_there { COPY_ABSENT, COPY_FILE, COPY_FOLDER };

/*
 * The path that the copy gets, allocated; NULL with *ret_why. src is the
 * source's path (its last part is the name, "NAME/." means its contents), tree:
 * it is a folder; there: what dest is now.
 */
char *copy_target(const char *src, bool tree, const char *dest,
		  enum copy_there there, const char **ret_why);

/* "bytes FROM-TO/ALL" of a Content-Range, which a server may make up: false
 * unless FROM <= TO < ALL. */
bool copy_range(const char *s, uint64_t *ret_from, uint64_t *ret_all);
