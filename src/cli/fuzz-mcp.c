/* SPDX-License-Identifier: Apache-2.0 */

/* A line of MCP is a message with all that its kind promises, or has a code. */

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cli/mcp_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct mcp_message m;
	json_t *v;

	mcp_parse((const char *)p, n, &m);
	if (m.kind == MCP_REQUEST || m.kind == MCP_NOTIFICATION)
		CHECK(m.method && (!m.params || json_is_object(m.params)));
	CHECK((m.kind != MCP_REQUEST && m.kind != MCP_ANSWER) || m.id);
	CHECK(m.kind != MCP_NOTIFICATION || !m.id);
	CHECK((m.kind == MCP_BAD) == (m.why != NULL));
	v = mcp_error(m.id, -1, m.why ? m.why : "x");
	CHECK(json_object_get(v, "error"));
	json_decref(v);
	mcp_message_fini(&m);
	return 0;
}
