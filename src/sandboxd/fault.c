/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/fault.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

static const struct fault_info infos[FAULT_MAX_] = {
	[FAULT_NONE] = { 200, "ok", "none", NULL, 0 },
	[FAULT_INVALID] = { 400, "invalid_field", "request", NULL, 0 },
	[FAULT_NOT_FOUND] = { 404, "not_found", "request", NULL, 0 },
	[FAULT_STALE] = { 409, "stale", "node",
			  "read the sandbox's row again; a newer command was "
			  "seen",
			  0 },
	[FAULT_INCARNATION] = { 409, "wrong_incarnation", "node",
				"read GET /v1/node and the list, then repeat",
				0 },
	[FAULT_STATE] = { 409, "wrong_state", "node", NULL, 0 },
	[FAULT_CANCELLED] = { 409, "cancelled", "node", NULL, 0 },
	[FAULT_UNSUPPORTED] = { 422, "not_supported", "node", NULL, 0 },
	[FAULT_CAPACITY] = { 503, "capacity", "capacity",
			     "end a sandbox, choose another node, or raise the "
			     "node's --slots or --memory-mib",
			     5 },
	[FAULT_NODE] = { 503, "node_unavailable", "node",
			 "look at caisson-noded's log on the node; repeat", 1 },
	[FAULT_STORE] = { 503, "store_unavailable", "store",
			  "look at caisson-storaged's log on the node; repeat",
			  1 },
	[FAULT_NO_SPACE] = { 507, "no_space", "store",
			     "free space in the node's data directory", 30 },
	[FAULT_CORRUPT] = { 500, "artifact_corrupt", "store",
			    "import the release again; the file on the node "
			    "differs from its digest",
			    0 },
	[FAULT_TIMEOUT] = { 504, "timeout", "node",
			    "repeat with more time; look at the node's load",
			    1 },
	[FAULT_BOOT] = { 500, "boot_failed", "guest",
			 "see the end of the serial log in the message", 0 },
	[FAULT_VM] = { 500, "vm_failed", "guest", NULL, 0 },
	[FAULT_INTERNAL] = { 500, "internal", "node", NULL, 0 },
};

const struct fault_info *fault_info(enum fault_code code)
{
	CHECK((unsigned)code < FAULT_MAX_);
	return &infos[code];
}

void fault_set(struct fault *f, enum fault_code code, const char *fmt, ...)
{
	va_list ap;

	f->code = code;
	f->remedy = NULL;
	va_start(ap, fmt);
	vsnprintf(f->msg, sizeof(f->msg), fmt, ap);
	va_end(ap);
}

static enum fault_code store_code(const struct err *e)
{
	if (e->code == -EBADMSG)
		return FAULT_CORRUPT;
	if (e->code == -ENOSPC || e->kind == ERR_EXHAUSTED)
		return FAULT_NO_SPACE;
	if (e->code == -ENOENT || e->kind == ERR_NOT_FOUND)
		return FAULT_NOT_FOUND;
	return FAULT_STORE;
}

static enum fault_code noded_code(const struct err *e)
{
	if (e->code == -EAGAIN || e->code == -ENOMEM || e->code == -ENOSPC ||
	    e->kind == ERR_EXHAUSTED)
		return FAULT_CAPACITY;
	return FAULT_NODE;
}

void fault_from_err(struct fault *f, enum fault_from from, const char *doing,
		    const struct err *e)
{
	enum fault_code code = FAULT_VM;

	if (e->kind == ERR_TIMEOUT)
		code = FAULT_TIMEOUT;
	else if (from == FAULT_FROM_STORE)
		code = store_code(e);
	else if (from == FAULT_FROM_NODED)
		code = noded_code(e);
	fault_set(f, code, "%s: %s", doing, e->msg);
}
