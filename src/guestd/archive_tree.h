/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tree that an archive is unpacked into: ways to its folders that no entry
 * of the archive can bend, and the links that the archive made.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "guestd/filework.h"

struct late_folder; /* a folder whose mode and time come last */

struct archive_tree {
	int top;		  /* O_PATH */
	char path[FILE_PATH_MAX]; /* of it, without links */
	struct file_owner owner;
	/* the folder used last */
	int last;
	char last_name[FILE_PATH_MAX];
	/* links made: a hash set of (device, inode) */
	struct made_link *made;
	size_t n_made, cap_made;
	bool too_many; /* then no link at all is followed */
	struct late_folder *late;
	size_t n_late, late_bytes;
};

/* Make (with its parents) and open the top. 0 or -errno. */
int archive_tree_open(struct archive_tree *t, const char *path);
void archive_tree_fini(struct archive_tree *t);

/* The folder that holds `name` (of archive_name(), not ""), made if need be;
 * *ret_last is the last part of name. The descriptor is the tree's. -ELOOP: a
 * link that the archive made is on the way. */
int archive_tree_folder(struct archive_tree *t, const char *name,
			const char **ret_last);
/* Make a folder, or find it. 1 = it was there. */
int archive_tree_mkdir(struct archive_tree *t, const char *name, mode_t mode,
		       const struct timespec *mtime);
/* A link was made there. */
void archive_tree_made(struct archive_tree *t, int dir, const char *name);
/* Give made folders their mode and time, innermost first. */
void archive_tree_finish(struct archive_tree *t);
