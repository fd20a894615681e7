/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/usage.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

#define STAT(name)                                                             \
	"42 (" name ") S 1 42 42 0 -1 4194560 100 0 0 0 70 30 5 6 20 0 3 0"

TEST(ticks_of_a_process)
{
	uint64_t n = 0;

	T_TRUE(usage_parse_stat(STAT("qemu"), &n));
	T_INT(n, 100);
}

TEST(a_name_may_be_anything)
{
	uint64_t n = 0;

	T_TRUE(usage_parse_stat(STAT("a) R 1 2 (b"), &n));
	T_INT(n, 100);
	T_TRUE(usage_parse_stat(STAT(")))"), &n));
	T_INT(n, 100);
}

TEST(a_cut_stat_is_refused)
{
	uint64_t n;

	T_TRUE(!usage_parse_stat("", &n));
	T_TRUE(!usage_parse_stat("42 (qemu", &n));
	T_TRUE(!usage_parse_stat("42 (qemu) S 1 2 3", &n));
	T_TRUE(!usage_parse_stat("42 (q) S 1 2 3 4 5 6 7 8 9 10 -1 -1", &n));
	T_TRUE(!usage_parse_stat("42 (q) S 1 2 3 4 5 6 7 8 9 10 "
				 "99999999999999999999 1",
				 &n));
}

TEST(resident_pages)
{
	uint64_t n = 0;

	T_TRUE(usage_parse_statm("900 123 50 1 0 70 0\n", &n));
	T_INT(n, 123);
	T_TRUE(!usage_parse_statm("900", &n));
	T_TRUE(!usage_parse_statm("", &n));
	T_TRUE(!usage_parse_statm("900 x", &n));
	T_TRUE(!usage_parse_statm("900 18446744073709551615 1", &n));
}

TEST(only_the_slots_own_group_counts)
{
	char path[192];

	T_TRUE(usage_parse_cgroup("0::/caisson/slot-3/vmm\n", 3, path,
				  sizeof(path)));
	T_STR(path, "/caisson/slot-3/vmm");
	T_TRUE(usage_parse_cgroup("5:cpu:/x\n0::/a/slot-3/vmm\n", 3, path,
				  sizeof(path)));
	T_TRUE(!usage_parse_cgroup("0::/caisson/slot-33/vmm\n", 3, path,
				   sizeof(path)));
	T_TRUE(!usage_parse_cgroup("0::/caisson/slot-3/monitor\n", 3, path,
				   sizeof(path)));
	T_TRUE(!usage_parse_cgroup("0::/\n", 3, path, sizeof(path)));
	T_TRUE(!usage_parse_cgroup("", 3, path, sizeof(path)));
	T_TRUE(!usage_parse_cgroup("0::/../../x/slot-3/vmm\n", 3, path,
				   sizeof(path)));
	T_TRUE(!usage_parse_cgroup("0::/caisson/slot-3/vmm\n", 3, path, 10));
}

TEST(processor_time_of_a_group)
{
	uint64_t n = 0;

	T_TRUE(usage_parse_cpu_stat("usage_usec 123456\nuser_usec 1\n", &n));
	T_INT(n, 123456);
	T_TRUE(usage_parse_cpu_stat("x 1\nusage_usec 7\n", &n));
	T_INT(n, 7);
	T_TRUE(!usage_parse_cpu_stat("my_usage_usec 7\n", &n));
	T_TRUE(!usage_parse_cpu_stat("usage_usec \n", &n));
	T_TRUE(!usage_parse_cpu_stat("", &n));
}

TEST(our_own_process_uses_memory)
{
	struct usage_source src = { .pid = getpid(), .disk_fd = -1 };
	struct usage u = { 0 };

	usage_read(&src, &u);
	T_TRUE(u.is_known && !u.has_disk);
	T_TRUE(u.memory_bytes > 4096);
}

TEST(counters_never_go_back)
{
	struct usage_source src = { .pid = 0, .disk_fd = -1 };
	struct usage u = { .is_known = true,
			   .cpu_ms = 500,
			   .memory_bytes = 7000,
			   .has_disk = true,
			   .disk_bytes = 4096 };

	usage_read(&src, &u);
	T_INT(u.cpu_ms, 500);
	T_INT(u.memory_bytes, 7000);
	T_INT(u.disk_bytes, 4096);
}

TEST(what_came_before_is_not_counted)
{
	struct usage_source src = { .pid = getpid(),
				    .disk_fd = -1,
				    .cpu_base_ms = UINT64_MAX };
	struct usage u = { 0 };

	usage_read(&src, &u);
	T_INT(u.cpu_ms, 0);
}

TEST(disk_is_what_is_allocated)
{
	owned_str path = xasprintf("%s/overlay", test_tmpdir());
	owned_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct usage_source src = { .disk_fd = fd };
	struct usage u = { 0 };
	char block[65536];

	memset(block, 1, sizeof(block));
	T_INT(ftruncate(fd, 1 << 30), 0);
	usage_read(&src, &u);
	T_TRUE(u.has_disk && u.disk_bytes < 1 << 20);
	T_INT(write_all(fd, block, sizeof(block)), 0);
	fsync(fd);
	usage_read(&src, &u);
	T_TRUE(u.disk_bytes >= sizeof(block) && u.disk_bytes < 1 << 20);
}
