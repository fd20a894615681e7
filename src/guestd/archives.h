/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whole trees in one request, as pax tar, plain or in zstd. The formats are
 * libarchive's; what may be unpacked, and where to, is decided here.
 *
 * Unpacking trusts no entry: a name is cut into parts, each part is opened from
 * the folder above without following links, and a link on the way is only
 * followed if it was there before the archive. Existing files are replaced, not
 * written into; existing folders stay as they are. Memory is bounded whatever
 * the archive says (RLIMIT_DATA), disk by the file system.
 *
 * Forked half only (filework.h), except for the checks, which are pure.
 */

#include <stdbool.h>

#include "guestd/filework.h"

#define ARCHIVE_DEPTH_MAX 1000u /* folders in each other, when packing */

int archive_pack_run(struct file_ctx *c);
int archive_unpack_run(struct file_ctx *c);

/* An entry's name as the path below the tree's top: no "." and no empty parts;
 * "" is the top itself. -EINVAL for absolute names and "..", -ENAMETOOLONG. */
int archive_name(const char *name, char ret[FILE_PATH_MAX]);

/* May an entry `name` (of archive_name()) be a symbolic link with that target,
 * in a tree at `top` (absolute, without links)? Only if the target is below
 * top, whatever the folders on the way are: ".." counts at its start alone. */
bool archive_link_stays(const char *top, const char *name, const char *target);
