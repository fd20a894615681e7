/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_proto.h"

#include <string.h>

#include "base/own.h"
#include "net/json.h"

static void bad(struct mcp_message *m, int code, const char *why)
{
	m->kind = MCP_BAD;
	m->code = code;
	m->why = why;
}

void mcp_parse(const char *line, size_t n, struct mcp_message *ret)
{
	const json_t *version, *method, *params;

	*ret = (struct mcp_message){ 0 };
	if (json_parse(line, n, &ret->root, NULL) < 0) {
		bad(ret, -32700, "not one JSON value");
		return;
	}
	if (json_is_array(ret->root)) {
		bad(ret, -32600,
		    "batches are not supported: one message a "
		    "line");
		return;
	}
	version = json_object_get(ret->root, "jsonrpc");
	method = json_object_get(ret->root, "method");
	params = json_object_get(ret->root, "params");
	ret->id = json_object_get(ret->root, "id");
	if (ret->id && !json_is_string(ret->id) && !json_is_number(ret->id)) {
		ret->id = NULL;
		bad(ret, -32600, "an id is a string or a number");
	} else if (!json_is_string(version) ||
		   strcmp(json_string_value(version), "2.0") != 0) {
		bad(ret, -32600, "expected \"jsonrpc\":\"2.0\"");
	} else if (!method && ret->id) {
		ret->kind = MCP_ANSWER;
	} else if (!json_is_string(method)) {
		bad(ret, -32600, "expected a method");
	} else if (params && !json_is_object(params)) {
		bad(ret, -32602, "params is an object");
	} else {
		ret->kind = ret->id ? MCP_REQUEST : MCP_NOTIFICATION;
		ret->method = json_string_value(method);
		ret->params = params;
	}
}

void mcp_message_fini(struct mcp_message *m)
{
	json_decref(m->root);
	*m = (struct mcp_message){ 0 };
}

static json_t *envelope(const json_t *id)
{
	json_t *v = json_pack("{s:s}", "jsonrpc", "2.0");

	json_set_take(v, "id", id ? json_deep_copy(id) : json_null());
	return v;
}

json_t *mcp_result_take(const json_t *id, json_t *result)
{
	json_t *v = envelope(id);

	json_set_take(v, "result", result);
	return v;
}

json_t *mcp_error(const json_t *id, int code, const char *message)
{
	json_t *v = envelope(id), *e = json_object();

	json_set_take(e, "code", json_integer(code));
	json_set_take(e, "message", json_str_lossy(message, strlen(message)));
	json_set_take(v, "error", e);
	return v;
}

const char *mcp_version(const char *asked)
{
	static const char *const known[] = { "2025-11-25", "2025-06-18",
					     "2024-11-05" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!strcmp(asked, known[i]))
			return known[i];
	}
	/* 2025-03-26 has batches, which nobody sends: the one before it */
	return strcmp(asked, "2025-03-26") ? known[0] : known[2];
}
