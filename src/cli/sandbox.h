/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What run, create and exec share: the create and exec bodies from options,
 * and which sandbox a word means. */

#include <jansson.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "cli/client.h"

struct create_opts {
	const char *template_ref, *name;
	struct arg_list labels, env;
	int64_t vcpus, memory_mib, disk_mib, ttl_s; /* 0 = the default */
};

#define CREATE_OPTS(o)                                                          \
	{ "template", 't',                                                      \
	  ARG_STR,    &(o)->template_ref,                                       \
	  "T",	      "template, NAME[:TAG] or sha256:… (base)",                \
	  0,	      0 },                                                      \
	    { "name",	  0,	  ARG_STR,                                      \
	      &(o)->name, "NAME", "name, unique while it lives",                \
	      0,	  0 },                                                  \
	    { "label", 0, ARG_LIST, &(o)->labels, "K=V", "label; repeatable",   \
	      0,       0 },                                                     \
	    { "cpus", 0, ARG_INT, &(o)->vcpus, "N", "virtual CPUs", 1, 64 },    \
	    { "memory", 0,	  ARG_INT, &(o)->memory_mib,                    \
	      "MIB",	"memory", 16,	   1 << 20 },                           \
	    { "disk", 0, ARG_INT, &(o)->disk_mib, "MIB", "disk", 16, 1 << 24 }, \
	{                                                                       \
		"ttl", 0, ARG_INT, &(o)->ttl_s, "S",                            \
		    "end it after S seconds whatever happens", 1, 31536000      \
	}

struct exec_opts {
	struct arg_list env;
	const char *user, *cwd, *overflow, *detach_keys;
	int64_t timeout_s, keep_bytes, give_up_s; /* 0 = the default */
	bool interactive, tty, no_escapes;
};

#define EXEC_OPTS(o)                                                            \
	{ "env",     'e',   ARG_LIST,                                           \
	  &(o)->env, "K=V", "environment variable; repeatable",                 \
	  0,	     0 },                                                       \
	    { "user", 'u', ARG_STR, &(o)->user, "NAME", "as this user", 0, 0 }, \
	    { "cwd",	 'w',	ARG_STR,                                        \
	      &(o)->cwd, "DIR", "in this directory of the guest",               \
	      0,	 0 },                                                   \
	    { "timeout", 0,                                                     \
	      ARG_INT,	 &(o)->timeout_s,                                       \
	      "S",	 "end the command after S seconds (exit 124)",          \
	      1,	 31536000 },                                            \
	    { "overflow",                                                       \
	      0,                                                                \
	      ARG_STR,                                                          \
	      &(o)->overflow,                                                   \
	      "HOW",                                                            \
	      "unread output: block (the default) or roll (with -d)",           \
	      0,                                                                \
	      0 },                                                              \
	{                                                                       \
		"keep-bytes", 0, ARG_INT, &(o)->keep_bytes, "N",                \
		    "output that is kept for readers (8388608)", 4096,          \
		    67108864                                                    \
	}

/* Of what stays attached. */
#define ATTACH_OPTS(o)                                                         \
	{ "detach-keys",                                                       \
	  0,                                                                   \
	  ARG_STR,                                                             \
	  &(o)->detach_keys,                                                   \
	  "KEYS",                                                              \
	  "leave a terminal by these (ctrl-p,ctrl-q) or none",                 \
	  0,                                                                   \
	  0 },                                                                 \
	    { "no-escapes",                                                    \
	      0,                                                               \
	      ARG_FLAG,                                                        \
	      &(o)->no_escapes,                                                \
	      NULL,                                                            \
	      "`~` at a line's start is "                                      \
	      "an ordinary key",                                               \
	      0,                                                               \
	      0 },                                                             \
	{                                                                      \
		"give-up", 0, ARG_INT, &(o)->give_up_s, "S",                   \
		    "try to come back for S seconds (120)", 1, 86400           \
	}

#define ATTACH_HELP                                                            \
	"A lost connection is resumed at the byte where it was lost, in both " \
	"directions; after\n--give-up seconds without the server the exit "    \
	"code is 125, and `caisson attach` goes on.\n"                         \
	"Without a terminal the first Ctrl-C reaches the command's tree, the " \
	"second leaves it running.\nWith one, keys are the guest's; "          \
	"ctrl-p,ctrl-q leaves, and at a line's start\n~. leaves, ~^Z "         \
	"suspends "                                                            \
	"this program, ~? helps.\n"

/* {"k":"v"} from K=V words; a later word wins. NULL with *e for a word without
 * "=" or with an empty key. New reference. */
json_t *pairs_json(const struct arg_list *l, const char *option, struct err *e);
json_t *create_body(const struct create_opts *o, struct err *e);
/* cmd: NULL-terminated. Not detached: nothing runs before the first attach, and
 * what is not read waits. With o->tty the terminal at stdout gives size and
 * TERM. */
json_t *exec_body(const struct exec_opts *o, char *const *cmd, bool detached,
		  struct err *e);

enum { PICK_OK, PICK_NONE, PICK_MANY };
/* Of a list of sandbox records, the one that `word` means: an exact id, else
 * the name of one that lives, else a unique prefix (3 characters at least) of
 * an id. Pure. *ret_id (borrowed) with PICK_OK; with PICK_MANY two of them are
 * put into `both`. */
int sandbox_pick(const json_t *items, const char *word, const char **ret_id,
		 const char *both[2]);
/* "sb" + 20 of [a-z0-9] */
bool sandbox_id_valid(const char *word);

/* The id, allocated; NULL after a message, with *ret_exit. */
char *sandbox_resolve(const struct cli *c, struct client *cl, const char *word,
		      int *ret_exit);

/*
 * Create and wait until it runs. *ret_answer is {operation, sandbox}. While it
 * waits, a readable signal_fd (-1 for none) abandons it: the sandbox is ended
 * and *ret_exit is 128 + the signal. NULL after a message otherwise.
 */
json_t *sandbox_make(const struct cli *c, struct client *cl, const json_t *body,
		     int signal_fd, int *ret_exit);
/* End it and wait; a sandbox that is gone already is a success. Returns 0, or
 * the exit code after a message. */
int sandbox_end(const struct cli *c, struct client *cl, const char *id,
		json_t **ret_answer);
