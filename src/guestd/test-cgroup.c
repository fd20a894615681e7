/* SPDX-License-Identifier: Apache-2.0 */

/* What a workload may take of guests of all sizes. */

#include "guestd/cgroup.h"

#include "base/test.h"

#define MIB(n) (UINT64_C(n) << 20)

TEST(small_guest_leaves_guestd_its_own)
{
	/* a guest of 128 MiB, as its kernel counts */
	struct limits l = cgroup_limits(MIB(93), MIB(60), 658, 32768);

	T_INT(l.memory_bytes, MIB(60) - MIB(16));
	/* below the kernel's limit, with its own threads in it */
	T_TRUE(l.pids <= 658 - 192);
	T_TRUE(l.pids >= 300);
}

TEST(large_guest_gives_nearly_all)
{
	struct limits l = cgroup_limits(MIB(16000), MIB(15700), 125000, 32768);

	T_INT(l.memory_bytes, MIB(15700) - MIB(68));
	T_INT(l.pids, 32768 - 512);
}

TEST(memory_bounds_the_processes_too)
{
	struct limits l = cgroup_limits(MIB(512), MIB(450), 100000, 4194304);

	T_INT(l.pids, MIB(512) / 65536);
}

TEST(unknown_numbers_are_no_limits)
{
	struct limits l = cgroup_limits(MIB(512), 0, 0, 0);

	T_INT(l.memory_bytes, MIB(512) - MIB(68));
	T_INT(l.pids, MIB(512) / 65536);
}

TEST(tiny_numbers_leave_something)
{
	struct limits l = cgroup_limits(MIB(20), MIB(8), 100, 100);

	T_INT(l.memory_bytes, MIB(4));
	T_INT(l.pids, 50);
}
