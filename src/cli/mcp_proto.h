/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages of the Model Context Protocol: JSON-RPC 2.0, one object a line.
 * Pure; what it reads may be anything. */

#include <jansson.h>
#include <stddef.h>

#define MCP_LINE_MAX (8u << 20)

enum mcp_kind {
	MCP_REQUEST,	  /* wants an answer with its id */
	MCP_NOTIFICATION, /* wants none */
	MCP_ANSWER,	  /* to nothing that we asked: ignored */
	MCP_BAD,	  /* code and why; id if it could be read */
};

struct mcp_message {
	enum mcp_kind kind;
	json_t *root;	      /* owned: mcp_message_fini() */
	const char *method;   /* borrowed of root, as all below */
	const json_t *id;     /* a string or a number; NULL = none */
	const json_t *params; /* an object, or NULL */
	int code;	      /* JSON-RPC's, of MCP_BAD */
	const char *why;
};

void mcp_parse(const char *line, size_t n, struct mcp_message *ret);
void mcp_message_fini(struct mcp_message *m);

/* {"jsonrpc","id",…}; new references. id NULL is null. */
json_t *mcp_result_take(const json_t *id, json_t *result);
json_t *mcp_error(const json_t *id, int code, const char *message);
/* The version to speak with a client that asks for this one. */
const char *mcp_version(const char *asked);
