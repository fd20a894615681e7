/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/request.h"

#include "base/test.h"

static struct noded_req vmm(void)
{
	return (struct noded_req){ .hdr = { .op = NODED_SPAWN_VMM, .seq = 1 },
				   .slot = 3,
				   .engine = NODED_ENGINE_QEMU,
				   .vcpus = 1,
				   .mem_mib = 512 };
}

static int decode(const struct noded_req *q, size_t n_fds)
{
	struct noded_req out;
	struct err e = { 0 };

	return request_decode(q, sizeof(*q), n_fds, &out, &e);
}

TEST(well_formed_spawn_passes)
{
	struct noded_req q = vmm();

	T_INT(decode(&q, 1), 0);
	T_INT(decode(&q, 5), 0);
}

TEST(spawn_without_or_with_too_many_descriptors)
{
	struct noded_req q = vmm();

	T_INT(decode(&q, 0), -EBADMSG);
	T_INT(decode(&q, 6), -EBADMSG);
}

TEST(other_operations_take_no_descriptor)
{
	struct noded_req q = { .hdr = { .op = NODED_SLOT_CREATE } };

	T_INT(decode(&q, 0), 0);
	T_INT(decode(&q, 1), -EBADMSG);
}

TEST(slot_beyond_the_last)
{
	struct noded_req q = vmm();

	q.slot = NODED_SLOTS_MAX - 1;
	T_INT(decode(&q, 1), 0);
	q.slot = NODED_SLOTS_MAX;
	T_INT(decode(&q, 1), -EBADMSG);
	q.slot = UINT32_MAX;
	T_INT(decode(&q, 1), -EBADMSG);
}

TEST(unknown_operation)
{
	struct noded_req q = { .hdr = { .op = 0 } };

	T_INT(decode(&q, 0), -EBADMSG);
	q.hdr.op = NODED_OP_MAX_;
	T_INT(decode(&q, 0), -EBADMSG);
	q.hdr.op = UINT32_MAX;
	T_INT(decode(&q, 0), -EBADMSG);
}

TEST(unknown_engine)
{
	struct noded_req q = vmm();

	q.engine = 0;
	T_INT(decode(&q, 1), -EBADMSG);
	q.engine = NODED_ENGINE_MAX_;
	T_INT(decode(&q, 1), -EBADMSG);
}

TEST(unknown_flag)
{
	struct noded_req q = vmm();

	q.flags = NODED_SPAWN_KVM;
	T_INT(decode(&q, 1), 0);
	q.flags = 2;
	T_INT(decode(&q, 1), -EBADMSG);
}

TEST(size_of_a_machine_is_bounded)
{
	struct noded_req q = vmm();

	q.vcpus = 0;
	T_INT(decode(&q, 1), -EBADMSG);
	q.vcpus = NODED_VCPUS_MAX + 1;
	T_INT(decode(&q, 1), -EBADMSG);
	q = vmm();
	q.mem_mib = NODED_MEM_MIB_MIN - 1;
	T_INT(decode(&q, 1), -EBADMSG);
	q.mem_mib = NODED_MEM_MIB_MAX + 1;
	T_INT(decode(&q, 1), -EBADMSG);
}

TEST(kill_of_unknown_role)
{
	struct noded_req q = { .hdr = { .op = NODED_KILL } };

	q.who = NODED_WHO_MONITOR;
	T_INT(decode(&q, 0), 0);
	q.who = NODED_WHO_MONITOR + 1;
	T_INT(decode(&q, 0), -EBADMSG);
}

TEST(other_length_is_no_request)
{
	struct noded_req q = vmm(), out;
	struct err e = { 0 };

	T_INT(request_decode(&q, sizeof(q) - 1, 1, &out, &e), -EBADMSG);
	T_INT(request_decode(&q, 0, 1, &out, &e), -EBADMSG);
}

TEST(fields_that_are_not_used_come_out_as_zero)
{
	struct noded_req q = vmm(), out;
	struct err e = { 0 };

	q.hdr.op = NODED_HELLO;
	q.slot = 99999;
	q.who = 99;
	T_INT(request_decode(&q, sizeof(q), 0, &out, &e), 0);
	T_INT(out.slot, 0);
	T_INT(out.who, 0);
	T_INT(out.mem_mib, 0);
}

TEST(operations_have_names)
{
	T_STR(request_name(NODED_SLOT_CREATE), "slot_create");
	T_STR(request_name(0), "unknown");
	T_STR(request_name(4096), "unknown");
}
