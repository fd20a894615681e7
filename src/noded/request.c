/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/request.h"

#include <string.h>

#include "base/own.h"

#define REQ	  sizeof(struct noded_req), sizeof(struct noded_req)
#define ARGV_FDS  1u
#define EXTRA_MAX 4u

const struct channel_op noded_ops[NODED_OP_MAX_] = {
	[NODED_HELLO] = { REQ, 0, 0 },
	[NODED_SLOT_CREATE] = { REQ, 0, 0 },
	[NODED_SPAWN_MONITOR] = { REQ, 0, 0 },
	[NODED_SPAWN_VMM] = { REQ, ARGV_FDS, ARGV_FDS + EXTRA_MAX },
	[NODED_KILL] = { REQ, 0, 0 },
	[NODED_SLOT_DESTROY] = { REQ, 0, 0 },
	[NODED_LIST] = { REQ, 0, 0 },
	[NODED_KVM] = { REQ, 0, 0 },
};

static const char *const names[NODED_OP_MAX_] = {
	[NODED_HELLO] = "hello",
	[NODED_SLOT_CREATE] = "slot_create",
	[NODED_SPAWN_MONITOR] = "spawn_monitor",
	[NODED_SPAWN_VMM] = "spawn_vmm",
	[NODED_KILL] = "kill",
	[NODED_SLOT_DESTROY] = "slot_destroy",
	[NODED_LIST] = "list",
	[NODED_KVM] = "kvm",
};

const char *request_name(unsigned op)
{
	return op < ARRAY_SIZE(names) && names[op] ? names[op] : "unknown";
}

static bool op_has_slot(unsigned op)
{
	return op != NODED_HELLO && op != NODED_LIST && op != NODED_KVM;
}

static int check_vmm(const struct noded_req *q, struct err *e)
{
	if (q->engine == 0 || q->engine >= NODED_ENGINE_MAX_)
		return err_set(e, -EBADMSG, ERR_INVALID, "engine %u",
			       q->engine);
	if (q->flags & ~NODED_SPAWN_KVM)
		return err_set(e, -EBADMSG, ERR_INVALID, "flags %#x", q->flags);
	if (q->vcpus == 0 || q->vcpus > NODED_VCPUS_MAX)
		return err_set(e, -EBADMSG, ERR_INVALID, "%u vcpus", q->vcpus);
	if (q->mem_mib < NODED_MEM_MIB_MIN || q->mem_mib > NODED_MEM_MIB_MAX)
		return err_set(e, -EBADMSG, ERR_INVALID, "%u MiB of memory",
			       q->mem_mib);
	return 0;
}

int request_decode(const void *msg, size_t n, size_t n_fds,
		   struct noded_req *ret, struct err *e)
{
	struct noded_req q;
	const struct channel_op *op;

	if (n != sizeof(q))
		return err_set(e, -EBADMSG, ERR_INVALID, "%zu bytes", n);
	memcpy(&q, msg, sizeof(q));
	if (q.hdr.op == 0 || q.hdr.op >= NODED_OP_MAX_)
		return err_set(e, -EBADMSG, ERR_INVALID, "op %u", q.hdr.op);
	op = &noded_ops[q.hdr.op];
	if (n_fds < op->n_fds_min || n_fds > op->n_fds_max)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "%s with %zu descriptors",
			       request_name(q.hdr.op), n_fds);
	if (!op_has_slot(q.hdr.op))
		q.slot = 0;
	if (q.slot >= NODED_SLOTS_MAX)
		return err_set(e, -EBADMSG, ERR_INVALID, "slot %u", q.slot);
	if (q.hdr.op != NODED_KILL)
		q.who = NODED_WHO_ALL;
	if (q.who > NODED_WHO_MONITOR)
		return err_set(e, -EBADMSG, ERR_INVALID, "who %u", q.who);
	if (q.hdr.op != NODED_SPAWN_VMM)
		q.engine = q.flags = q.vcpus = q.mem_mib = 0;
	else if (check_vmm(&q, e) < 0)
		return -EBADMSG;
	*ret = q;
	return 0;
}
