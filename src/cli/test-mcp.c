/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/test.h"
#include "cli/mcp.h"
#include "cli/mcp_proto.h"

static struct mcp_message parsed(const char *line)
{
	struct mcp_message m;

	mcp_parse(line, strlen(line), &m);
	return m;
}

static void bad(const char *line, int code)
{
	struct mcp_message m = parsed(line);

	T_INT(m.kind, MCP_BAD);
	T_INT(m.code, code);
	T_TRUE(m.why != NULL);
	mcp_message_fini(&m);
}

TEST(a_request_has_an_id)
{
	struct mcp_message m =
	    parsed("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");

	T_INT(m.kind, MCP_REQUEST);
	T_STR(m.method, "ping");
	T_INT(json_integer_value(m.id), 1);
	mcp_message_fini(&m);
}

TEST(a_notification_has_none)
{
	struct mcp_message m =
	    parsed("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\","
		   "\"params\":{\"a\":1}}");

	T_INT(m.kind, MCP_NOTIFICATION);
	T_INT(json_integer_value(json_object_get(m.params, "a")), 1);
	mcp_message_fini(&m);
}

TEST(an_answer_is_seen_as_one)
{
	struct mcp_message m =
	    parsed("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}");

	T_INT(m.kind, MCP_ANSWER);
	mcp_message_fini(&m);
}

TEST(what_is_no_message)
{
	bad("", -32700);
	bad("{", -32700);
	bad("{} {}", -32700);
	bad("[]", -32600);
	bad("{}", -32600);
	bad("7", -32600);
	bad("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}", -32600);
	bad("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", -32600);
	bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600);
	bad("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[]}",
	    -32602);
}

TEST(versions)
{
	T_STR(mcp_version("2024-11-05"), "2024-11-05");
	T_STR(mcp_version("2025-06-18"), "2025-06-18");
	T_STR(mcp_version("2025-03-26"), "2024-11-05");
	T_STR(mcp_version("2099-01-01"), "2025-11-25");
}

static void schemas(const struct mcp_tool *t)
{
	for (; t->name; t++) {
		json_t *p = json_loads(t->properties, 0, NULL);
		json_t *r = json_loads(t->required, 0, NULL);
		json_t *name;
		size_t i;

		T_TRUE(json_is_object(p) && json_is_array(r));
		json_array_foreach(r, i, name)
		    T_TRUE(json_object_get(p, json_string_value(name)));
		json_decref(p);
		json_decref(r);
	}
}

TEST(every_schema_is_json_and_has_what_it_requires)
{
	schemas(mcp_sandbox_tools);
	schemas(mcp_file_tools);
	schemas(mcp_exec_tools);
}

/* A tool with these arguments, before any call: what it says. */
static void refuses(const struct mcp_tool *tools, const char *name,
		    const char *args, const char *says)
{
	struct mcp_call c = { .content = json_array() };

	c.args = json_loads(args, 0, NULL);
	json_reader_init(&c.reader, c.args, "", &c.e);
	while (strcmp(tools->name, name) != 0)
		tools++;
	tools->run(&c);
	T_TRUE(c.failed);
	T_HAS(json_string_value(
		  json_object_get(json_array_get(c.content, 0), "text")),
	      says);
	json_decref(c.args);
	json_decref(c.content);
}

TEST(wrong_arguments_are_named)
{
	refuses(mcp_file_tools, "read_file", "{\"sandbox\":\"x\"}", "path");
	refuses(mcp_file_tools, "read_file", "{\"path\":\"/x\"}", "sandbox");
	refuses(mcp_file_tools, "read_file",
		"{\"sandbox\":\"x\",\"path\":\"/\",\"max_byte\":1}",
		"max_bytes");
	refuses(mcp_file_tools, "write_file",
		"{\"sandbox\":\"x\",\"path\":\"/x\"}", "text");
	refuses(mcp_file_tools, "write_file",
		"{\"sandbox\":\"x\",\"path\":\"/x\",\"base64\":\"?\"}",
		"base64");
	refuses(mcp_exec_tools, "run_command", "{\"sandbox\":\"x\"}",
		"command");
	refuses(mcp_exec_tools, "run_command",
		"{\"sandbox\":\"x\",\"command\":\"a\",\"argv\":[\"b\"]}",
		"not both");
	refuses(mcp_sandbox_tools, "create_sandbox", "{\"ttl_s\":0}", "ttl_s");
}
