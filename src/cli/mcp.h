/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tools of `caisson mcp`: each is one or a few calls of the API. Calls are
 * queued and run one after the other; standard input is read meanwhile, so a
 * ping is answered and a cancellation reaches the call in hand. A tool that
 * fails answers words with the remedy (isError), never a protocol error.
 */

#include <jansson.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "net/json.h"

#define MCP_TEXT_MAX 262144 /* bytes of file or output in one answer */

struct mcp_tool;

struct mcp_call {
	struct client *client;
	json_t *args;
	struct json_reader reader; /* of args */
	struct err e;
	json_t *content; /* result.content, to be filled */
	bool failed;
};

struct mcp_tool {
	const char *name, *description;
	const char *properties; /* of inputSchema, JSON */
	const char *required;	/* JSON array */
	bool reads;		/* annotations.readOnlyHint */
	void (*run)(struct mcp_call *c);
};

/* The tables end with a tool without a name. */
extern const struct mcp_tool mcp_sandbox_tools[];
extern const struct mcp_tool mcp_file_tools[];
extern const struct mcp_tool mcp_exec_tools[];

/* The reply: text, or JSON as text. */
void mcp_text(struct mcp_call *c, const char *p, size_t n);
void mcp_json_take(struct mcp_call *c, json_t *v);
void mcp_fail(struct mcp_call *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* All arguments were asked for: false after a failure. */
bool mcp_args_end(struct mcp_call *c);
/* "ID" or "@NAME", percent-encoded, of the argument; NULL after a failure. */
char *mcp_sandbox(struct mcp_call *c);
/* An exec's id of the argument. */
char *mcp_exec(struct mcp_call *c);
/* One call; false after a failure. */
bool mcp_ask(struct mcp_call *c, enum client_side side, const char *method,
	     const char *path, const json_t *body, json_t **ret);
/* The outcome of client_transfer() and such, as a failure. */
void mcp_refused(struct mcp_call *c, int r, const struct fault *f,
		 const struct err *e);
/* POST text as the body; *ret is the answer, if there is one. */
void mcp_input(struct mcp_call *c, const char *path, const char *text,
	       json_t **ret);
/* UTF-8 as text, anything else as base64 with a word about it. */
void mcp_bytes(struct mcp_call *c, const void *p, size_t n);
