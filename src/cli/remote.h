/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the verbs that name things by tables and paths share: calls of the data
 * listener, whole lists, and records as tables. Blocking. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

/* "/v1/sandboxes/ID/WHAT?path=PATH", percent-encoded; allocated. */
char *remote_path(const char *id, const char *what, const char *path);
/* As cli_call(), on the data listener. */
int remote_call(const struct cli *c, struct client *cl, const char *method,
		const char *path, json_t **ret_body, int *ret_exit);
/* 0 with the entry, 1 if there is none, -1 after a message. */
int remote_stat(const struct cli *c, struct client *cl, const char *id,
		const char *path, bool follow, json_t **ret, int *ret_exit);

/* Up to max items (0 = all) of a list on the control listener; path has its
 * query, if any. NULL after a message. */
json_t *list_all(const struct cli *c, struct client *cl, const char *path,
		 size_t max, int *ret_exit);

/* ... from a cursor on (NULL = the start). */
json_t *list_after(const struct cli *c, struct client *cl, const char *path,
		   const char *after, size_t max, int *ret_exit);

enum column_kind { COL_TEXT, COL_AGE, COL_TIME, COL_JSON };
struct column {
	const char *title, *path; /* path as jget() */
	enum column_kind kind;
};
/* A table of the records, or all of them with --json. */
int records_print(const struct cli *c, const json_t *items,
		  const struct column *cols, size_t n_cols);
/* "title  value" lines of what a record has; or --json. */
int record_print(const struct cli *c, const json_t *v,
		 const struct column *lines, size_t n_lines);
/* GET a list and print it. */
int list_print(struct cli *c, const char *path, size_t max,
	       const struct column *cols, size_t n_cols);
/* One call, its answer printed as record_print(). */
int call_print(struct cli *c, const char *method, const char *path,
	       const json_t *body, const struct column *lines, size_t n_lines);
/* The id behind a word, with a client that is the caller's to free; NULL after
 * a message. */
char *sandbox_of(struct cli *c, const char *word, struct client **ret_client,
		 int *ret_exit);
