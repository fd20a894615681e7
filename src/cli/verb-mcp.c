/* SPDX-License-Identifier: Apache-2.0 */

/* mcp: the loop around the tools. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/cli.h"
#include "cli/mcp.h"
#include "cli/mcp_proto.h"
#include "cli/version.h"

#define QUEUE_MAX 64u
#define BUSY	  (-32000)

struct mcp {
	struct client *client;
	struct buf in;
	bool ended, broken;    /* of input; of output */
	json_t *queue;	       /* requests that wait, as they came */
	const json_t *running; /* id of the call in hand, or NULL */
	bool cancelled, told;
};

static const struct mcp_tool *const tools[] = { mcp_sandbox_tools,
						mcp_exec_tools,
						mcp_file_tools };

static void answer_take(struct mcp *m, json_t *v)
{
	owned_str text = json_text(v);

	json_decref(v);
	if (printf("%s\n", text) < 0 || fflush(stdout) != 0)
		m->broken = true;
}

/* ---- what is answered at once ---- */

static json_t *tool_json(const struct mcp_tool *t)
{
	json_t *v = json_object(), *schema = json_object();

	json_set_take(schema, "type", json_string("object"));
	json_set_take(schema, "properties", json_loads(t->properties, 0, NULL));
	json_set_take(schema, "required", json_loads(t->required, 0, NULL));
	json_set_take(schema, "additionalProperties", json_false());
	json_set_take(v, "name", json_string(t->name));
	json_set_take(v, "description", json_string(t->description));
	json_set_take(v, "inputSchema", schema);
	json_set_take(v, "annotations",
		      json_pack("{s:b}", "readOnlyHint", t->reads));
	return v;
}

static json_t *tools_json(void)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		for (const struct mcp_tool *t = tools[i]; t->name; t++)
			json_array_append_new(all, tool_json(t));
	}
	return json_pack("{s:o}", "tools", all);
}

static json_t *initialize(const json_t *params)
{
	const json_t *v = json_object_get(params, "protocolVersion");

	return json_pack(
	    "{s:s,s:{s:{s:b}},s:{s:s,s:s},s:s}", "protocolVersion",
	    mcp_version(json_is_string(v) ? json_string_value(v) : ""),
	    "capabilities", "tools", "listChanged", 0, "serverInfo", "name",
	    "caisson", "version", CAISSON_VERSION, "instructions",
	    "Each sandbox is a virtual machine without network. Make one, run "
	    "commands and read and write files in it, end it.");
}

/* ---- calls ---- */

static const struct mcp_tool *find_tool(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		for (const struct mcp_tool *t = tools[i]; t->name; t++) {
			if (!strcmp(t->name, name))
				return t;
		}
	}
	return NULL;
}

static void call(struct mcp *m, const struct mcp_message *q)
{
	const json_t *name = json_object_get(q->params, "name");
	const struct mcp_tool *t =
	    json_is_string(name) ? find_tool(json_string_value(name)) : NULL;
	json_t *given = json_object_get(q->params, "arguments");
	owned_json args = given ? json_incref(given) : json_object();
	struct mcp_call c = { .client = m->client, .args = args };

	if (!t) {
		answer_take(m, mcp_error(q->id, -32602,
					 "no such tool; tools/list names "
					 "them"));
		return;
	}
	c.content = json_array();
	json_reader_init(&c.reader, args, "", &c.e);
	m->running = q->id;
	m->cancelled = m->told = false;
	t->run(&c);
	m->running = NULL;
	/* nobody waits for a cancelled one */
	if (m->cancelled)
		json_decref(c.content);
	else
		answer_take(
		    m, mcp_result_take(q->id, json_pack("{s:o,s:b}", "content",
							c.content, "isError",
							c.failed)));
}

/* ---- messages ---- */

static void cancel(struct mcp *m, const json_t *params)
{
	const json_t *id = json_object_get(params, "requestId");
	json_t *x;
	size_t i;

	if (m->running && id && json_equal(id, m->running)) {
		m->cancelled = true;
		return;
	}
	json_array_foreach(m->queue, i, x)
	{
		if (id && json_equal(id, json_object_get(x, "id"))) {
			json_array_remove(m->queue, i);
			return;
		}
	}
}

static void request(struct mcp *m, struct mcp_message *q)
{
	if (!strcmp(q->method, "ping"))
		answer_take(m, mcp_result_take(q->id, json_object()));
	else if (!strcmp(q->method, "initialize"))
		answer_take(m, mcp_result_take(q->id, initialize(q->params)));
	else if (!strcmp(q->method, "tools/list"))
		answer_take(m, mcp_result_take(q->id, tools_json()));
	else if (strcmp(q->method, "tools/call") != 0)
		answer_take(m, mcp_error(q->id, -32601, "no such method"));
	else if (json_array_size(m->queue) >= QUEUE_MAX)
		answer_take(m, mcp_error(q->id, BUSY,
					 "64 calls wait already: wait for "
					 "answers"));
	else
		json_array_append(m->queue, q->root);
}

static void on_line(struct mcp *m, const char *line, size_t n)
{
	struct mcp_message q;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n == 0)
		return;
	mcp_parse(line, n, &q);
	if (q.kind == MCP_REQUEST)
		request(m, &q);
	else if (q.kind == MCP_BAD)
		answer_take(m, mcp_error(q.id, q.code, q.why));
	else if (q.kind == MCP_NOTIFICATION &&
		 !strcmp(q.method, "notifications/cancelled"))
		cancel(m, q.params);
	mcp_message_fini(&q);
}

/* Read once and handle whole lines. */
static void take_input(struct mcp *m)
{
	uint8_t *to = buf_reserve(&m->in, 65536);
	ssize_t n = to ? read(STDIN_FILENO, to, 65536) : 0;

	if (!to)
		answer_take(m, mcp_error(NULL, -32600,
					 "a line of more than 8 "
					 "MiB"));
	if (n <= 0) {
		if (n == 0 || errno != EINTR)
			m->ended = true;
		return;
	}
	buf_commit(&m->in, (size_t)n);
	for (;;) {
		const char *line = (const char *)buf_data(&m->in);
		const char *nl = memchr(line, '\n', buf_len(&m->in));

		if (!nl)
			return;
		on_line(m, line, (size_t)(nl - line));
		buf_consume(&m->in, (size_t)(nl - line) + 1);
	}
}

/* While a call is under way. Non-zero ends it. */
static int on_wake(void *arg)
{
	struct mcp *m = arg;

	if (!m->ended)
		take_input(m);
	/* once: what tidies up behind it may make calls of its own */
	if (m->told || !(m->cancelled || m->ended || m->broken))
		return 0;
	m->told = true;
	return 1;
}

static void serve(struct mcp *m)
{
	while (!m->broken) {
		struct mcp_message q = { 0 };
		json_t *next = json_array_get(m->queue, 0);

		if (!next && m->ended)
			return;
		if (!next) {
			take_input(m);
			continue;
		}
		q.root = json_incref(next);
		q.id = json_object_get(next, "id");
		q.params = json_object_get(next, "params");
		json_array_remove(m->queue, 0);
		call(m, &q);
		mcp_message_fini(&q);
	}
}

int verb_mcp(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "mcp",
		.summary = "Tools for an agent: a Model Context Protocol "
			   "server on standard input and output.",
		.more = "Started by the agent's program, with the current "
			"context's key. Sandboxes, commands and\nfiles; calls "
			"run one after the other, and can be cancelled.\n\n"
			"  {\"mcpServers\": {\"caisson\": {\"command\": "
			"\"caisson\", \"args\": [\"mcp\"]}}}\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct mcp m = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	m.client = cli_client(c, &ret);
	if (!m.client)
		return ret;
	m.queue = json_array();
	buf_init(&m.in, MCP_LINE_MAX);
	client_watch(m.client, STDIN_FILENO, on_wake, &m);
	serve(&m);
	client_free(m.client);
	json_decref(m.queue);
	buf_fini(&m.in);
	return CLI_OK;
}
