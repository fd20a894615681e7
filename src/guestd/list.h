/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is there: one thing (stat) or a folder's content (list), as JSON.
 *
 * A list is in the order of bytes, each folder before what is below it. Its
 * cursor is the last path told, not a position, so that changes in between
 * neither repeat nor hide what stays. Of a folder only the names that fit into
 * the page are held, so memory depends on limit and depth alone.
 *
 * Forked half only (filework.h).
 */

#include <stddef.h>

#include "guestd/filework.h"

#define LIST_LIMIT_MAX 1000u
#define LIST_DEPTH_MAX 64u

int list_run(struct file_ctx *c);
int list_stat_run(struct file_ctx *c);
/* Answer with the entry of dir/name (not following); path as the caller wrote
 * it. */
int list_answer_entry(struct file_ctx *c, int status, int dir, const char *name,
		      const char *path);

/* v[key] = text, or v[key_b64] where it is not UTF-8. v is a json_t. */
void list_set_bytes(void *v, const char *key, const char *text);

/* A cursor from a path, and back: printable, fits into a query as it is. The
 * result is allocated. */
char *list_cursor(const char *path);
/* 0 or -EINVAL: not one of ours. A path: relative, no empty part, no "..".
 * Pure. */
int list_cursor_parse(const char *text, char ret[FILE_PATH_MAX]);
