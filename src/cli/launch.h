/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What run, exec, shell and attach share: a command is made in a sandbox and
 * followed to its end; and which exec a word means. */

#include <jansson.h>

#include "cli/cli.h"
#include "cli/sandbox.h"

struct launch {
	struct cli *cli;
	struct client *client;
	const char *sandbox; /* id */
	const char *word;    /* what the user calls it; NULL = the id */
	const struct exec_opts *opts;
	bool detached;
};

/* Are the terminals there that -i and -t ask for? CLI_OK, or the exit code
 * after a message. */
int launch_check(const struct cli *c, const struct exec_opts *o);
/* The exit code. */
int launch_exec(struct launch *l, const json_t *body);
/* {"KEY": value} on one line. */
void print_json_line(const char *key, json_t *value_take);

/*
 * Of a list of exec records the one that `word` means: an id, a unique prefix
 * of it, or of the 8 characters that are its own. word NULL: the only one that
 * runs. Pure. PICK_OK with *ret (borrowed), PICK_NONE, PICK_MANY.
 */
int exec_pick(const json_t *items, const char *word, const json_t **ret);
/* "ex_" + 28 of [a-z0-9] */
bool exec_id_valid(const char *word);
/* Its record; NULL after a message. New reference. */
json_t *exec_resolve(const struct cli *c, struct client *cl,
		     const char *sandbox, const char *word, int *ret_exit);
