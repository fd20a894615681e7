/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/qcow2.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/test.h"
#include "base/text.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static int refused(uint64_t size)
{
	struct qcow2_layout l;

	return qcow2_layout(size, &l);
}

TEST(sizes_that_are_no_disk_are_refused)
{
	T_INT(refused(0), -EINVAL);
	T_INT(refused(512), -EINVAL);
	T_INT(refused(MIB + 1), -EINVAL);
	T_INT(refused(QCOW2_SIZE_MAX + 512), -EINVAL);
	T_INT(refused(UINT64_MAX), -EINVAL);
}

TEST(one_l1_entry_covers_512_mib)
{
	struct qcow2_layout l;

	T_INT(qcow2_layout(512 * MIB, &l), 0);
	T_INT(l.l1_size, 1);
	T_INT(qcow2_layout(512 * MIB + 512, &l), 0);
	T_INT(l.l1_size, 2);
}

TEST(largest_disk_has_a_table_of_four_clusters)
{
	struct qcow2_layout l;

	T_INT(qcow2_layout(QCOW2_SIZE_MAX, &l), 0);
	T_INT(l.l1_size, 32768);
	T_INT(l.l1_clusters, 4);
	T_INT(l.clusters, 7);
}

TEST(header_begins_with_magic_and_version)
{
	static const uint8_t want[8] = { 'Q', 'F', 'I', 0xfb, 0, 0, 0, 3 };
	uint8_t head[QCOW2_HEAD_BYTES];
	struct qcow2_layout l;

	T_INT(qcow2_layout(GIB, &l), 0);
	qcow2_head(&l, head);
	T_TRUE(memcmp(head, want, sizeof(want)) == 0);
}

TEST(header_names_no_backing_file)
{
	uint8_t head[QCOW2_HEAD_BYTES], none[12] = { 0 };
	struct qcow2_layout l;

	T_INT(qcow2_layout(GIB, &l), 0);
	qcow2_head(&l, head);
	T_TRUE(memcmp(head + 8, none, sizeof(none)) == 0);
}

static char path[512];

static void make(uint64_t size)
{
	struct err e = { 0 };
	owned_fd fd = -1;

	snprintf(path, sizeof(path), "%s/disk", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	T_TRUE(fd >= 0);
	T_INT(qcow2_empty_write(fd, size, &e), 0);
}

/* Exit status of qemu-img CMD -f qcow2 FILE; its output in out. */
static int qemu_img(const char *cmd, char *out, size_t size)
{
	const char *argv[] = {
		"/usr/bin/qemu-img", cmd, "-f", "qcow2", path, NULL
	};
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 } };
	char said[512];
	struct err e = { 0 };
	owned_fd to = -1, pidfd = -1;
	siginfo_t si = { 0 };
	pid_t pid;
	ssize_t n;

	if (access(argv[0], X_OK) < 0)
		test_skip("no /usr/bin/qemu-img here");
	snprintf(said, sizeof(said), "%s/out", test_tmpdir());
	to = open(said, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	T_TRUE(to >= 0);
	s.stdio[1] = s.stdio[2] = to;
	T_INT(spawn_start(&s, &pid, &pidfd, &e), 0);
	T_INT(waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED), 0);
	n = pread(to, out, size - 1, 0);
	out[n > 0 ? n : 0] = 0;
	return si.si_status;
}

TEST(qemu_img_check_finds_no_fault)
{
	const uint64_t sizes[] = { MIB, GIB, 4 * GIB + 512, 600 * GIB,
				   QCOW2_SIZE_MAX };
	char out[2048];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make(sizes[i]);
		T_INT(qemu_img("check", out, sizeof(out)), 0);
		T_HAS(out, "No errors were found");
	}
}

TEST(qemu_img_info_tells_the_size_and_no_backing)
{
	char out[2048];

	make(4 * GIB);
	T_INT(qemu_img("info", out, sizeof(out)), 0);
	T_HAS(out, "4294967296");
	T_HAS(out, "65536");
	T_TRUE(!strstr(out, "backing"));
}

TEST(empty_disk_takes_little_space)
{
	struct stat st;

	make(600 * GIB);
	T_INT(stat(path, &st), 0);
	T_TRUE(st.st_blocks * 512 <= 3 * 65536);
}
