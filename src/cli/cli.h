/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line's frame: a table of verbs, what every verb shares (--json,
 * --context, -v), and how errors become words and exit codes. A verb is one
 * function; it parses its own options with CLI_COMMON among them, talks to the
 * API through cli/client.h and returns the exit code.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/args.h"
#include "base/err.h"
#include "cli/client.h"
#include "cli/exitcode.h"

struct cli {
	bool json;
	bool verbose;
	const char *context; /* --context, NULL = the current one */
};

/* The options that each verb takes. */
#define CLI_COMMON(c)                                                          \
	{ "json", 0, ARG_FLAG, &(c)->json, NULL, "print JSON", 0, 0 },         \
	    { "context", 0,                                                    \
	      ARG_STR,	 &(c)->context,                                        \
	      "NAME",	 "use this context for once",                          \
	      0,	 0 },                                                  \
	{                                                                      \
		"verbose", 'v', ARG_FLAG, &(c)->verbose, NULL,                 \
		    "say more on stderr", 0, 0                                 \
	}

struct verb {
	const char *name;
	const char *alias; /* "kill rm", NULL for none */
	const char *group; /* heading in the overview; NULL = not listed */
	const char *summary;
	/* argv[0] is the verb. Returns the exit code. */
	int (*run)(struct cli *c, int argc, char **argv);
};

/* A verb that a later version brings, and what serves meanwhile. */
struct verb_later {
	const char *name, *instead;
};

const struct verb *verb_find(const struct verb *v, size_t n, const char *word);
const struct verb_later *verb_later_find(const struct verb_later *v, size_t n,
					 const char *word);
/* The nearest verb's name to a misspelt word, or NULL. */
const char *verb_suggest(const struct verb *v, size_t n, const char *word);
/* Overview by groups, in the table's order. */
void verb_overview(const struct verb *v, size_t n, FILE *to);

/* Find the verb in argv[0] and run it; prefix ("template") is for messages of
 * a verb with verbs of its own, NULL at the top. */
int verb_dispatch(struct cli *c, const char *prefix, const struct verb *v,
		  size_t n, const struct verb_later *later, size_t n_later,
		  int argc, char **argv);

/* A verb with verbs of its own. */
struct verb_group {
	const char *name, *summary;
	const struct verb *verbs;
	size_t n;
	const struct verb_later *later;
	size_t n_later;
	const char *alone; /* the one that runs without a word, or NULL */
};
int verb_group(struct cli *c, const struct verb_group *g, int argc,
	       char **argv);

/* What a verb is, for manuals and completion: it is run as for --help, and one
 * of the two is called instead. Not from within another. */
struct cli_describe {
	void (*on_args)(void *arg, const struct args *a);
	void (*on_group)(void *arg, const struct verb_group *g);
	void *arg;
};
void cli_describe(const struct verb *v, const struct cli_describe *d);

/* Parse a verb's options: true to go on (*ret_rest is the first word's index),
 * false with *ret_exit set after help or a message. */
bool cli_args(const struct args *a, int argc, char **argv, int *ret_rest,
	      int *ret_exit);

/* Print "caisson: …" (or a JSON error) and return the exit code that fits. */
int cli_fail(const struct cli *c, const struct err *e);
int cli_fault(const struct cli *c, const struct fault *f);
/* Words for a wrong use; returns CLI_OURS. */
int cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* JSON on stdout, indented, with a newline; returns 0 or CLI_OURS. */
int cli_print_json(const json_t *v);

/* The client for the chosen context; NULL after cli_fail(), with *ret_exit. */
struct client *cli_client(const struct cli *c, int *ret_exit);

/* One call: 0 with *ret_body (new reference, may be NULL), else *ret_exit is
 * set after a message, and -1 is returned. */
int cli_call(const struct cli *c, struct client *cl, const char *method,
	     const char *path, const json_t *body, json_t **ret_body,
	     int *ret_exit);

int cli_main(int argc, char **argv);

/* ---- verbs, one file per group ---- */
int verb_up(struct cli *c, int argc, char **argv);
int verb_down(struct cli *c, int argc, char **argv);
int verb_status(struct cli *c, int argc, char **argv);
int verb_supervise(struct cli *c, int argc, char **argv);
int verb_migrate(struct cli *c, int argc, char **argv);
int verb_run(struct cli *c, int argc, char **argv);
int verb_exec(struct cli *c, int argc, char **argv);
int verb_shell(struct cli *c, int argc, char **argv);
int verb_attach(struct cli *c, int argc, char **argv);
int verb_ps(struct cli *c, int argc, char **argv);
int verb_logs(struct cli *c, int argc, char **argv);
int verb_forward(struct cli *c, int argc, char **argv);
int verb_open(struct cli *c, int argc, char **argv);
int verb_ssh_config(struct cli *c, int argc, char **argv);
int verb_create(struct cli *c, int argc, char **argv);
int verb_ls(struct cli *c, int argc, char **argv);
int verb_info(struct cli *c, int argc, char **argv);
int verb_end(struct cli *c, int argc, char **argv);
int verb_template(struct cli *c, int argc, char **argv);
int verb_node(struct cli *c, int argc, char **argv);
int verb_op(struct cli *c, int argc, char **argv);
int verb_context(struct cli *c, int argc, char **argv);
int verb_login(struct cli *c, int argc, char **argv);
int verb_version(struct cli *c, int argc, char **argv);
int verb_cp(struct cli *c, int argc, char **argv);
int verb_files(struct cli *c, int argc, char **argv);
int verb_label(struct cli *c, int argc, char **argv);
int verb_events(struct cli *c, int argc, char **argv);
int verb_webhook(struct cli *c, int argc, char **argv);
int verb_usage(struct cli *c, int argc, char **argv);
int verb_metrics(struct cli *c, int argc, char **argv);
int verb_quota(struct cli *c, int argc, char **argv);
int verb_key(struct cli *c, int argc, char **argv);
int verb_token(struct cli *c, int argc, char **argv);
int verb_tenant(struct cli *c, int argc, char **argv);
int verb_project(struct cli *c, int argc, char **argv);
int verb_audit(struct cli *c, int argc, char **argv);
int verb_port(struct cli *c, int argc, char **argv);
int verb_doctor(struct cli *c, int argc, char **argv);
int verb_completion(struct cli *c, int argc, char **argv);
int verb_complete(struct cli *c, int argc, char **argv);
int verb_manual(struct cli *c, int argc, char **argv);
int verb_mcp(struct cli *c, int argc, char **argv);
