/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/test.h"
#include "sandboxd/spec.h"

static struct journal good(void)
{
	struct journal j = { .slot = 3,
			     .step = JOURNAL_CONFIRMED,
			     .generation = 9,
			     .fence = 2,
			     .vcpus = 1,
			     .memory_mib = 256 };

	snprintf(j.sandbox, sizeof(j.sandbox), "sb00000000000000000001");
	snprintf(j.operation, sizeof(j.operation), "op_00000000000000000000");
	snprintf(j.vm, sizeof(j.vm), "vm-00000000000000000000");
	snprintf(j.hostname, sizeof(j.hostname), "box");
	spec_hash("release", j.release);
	spec_hash("spec", j.spec);
	return j;
}

static int decode(struct journal j)
{
	struct journal back;

	journal_seal(&j);
	return journal_decode(&j, sizeof(j), &back);
}

static int folder(void)
{
	int fd = open(test_tmpdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	T_TRUE(fd >= 0);
	return fd;
}

TEST(good_one_comes_back)
{
	struct journal j = good(), back;

	journal_seal(&j);
	T_INT(journal_decode(&j, sizeof(j), &back), 0);
	T_INT(memcmp(&j, &back, sizeof(j)), 0);
}

TEST(each_flipped_byte_is_refused)
{
	struct journal j = good(), back;
	unsigned char *p = (unsigned char *)&j;

	journal_seal(&j);
	for (size_t i = 0; i < sizeof(j); i++) {
		p[i] ^= 0x40;
		T_INT(journal_decode(&j, sizeof(j), &back), -EBADMSG);
		p[i] ^= 0x40;
	}
}

TEST(each_shorter_one_is_refused)
{
	struct journal j = good(), back;

	journal_seal(&j);
	for (size_t n = 0; n < sizeof(j); n++)
		T_INT(journal_decode(&j, n, &back), -EBADMSG);
}

TEST(no_step_is_refused)
{
	struct journal j = good();

	j.step = JOURNAL_NONE;
	T_INT(decode(j), -EBADMSG);
	j.step = JOURNAL_STEP_MAX_;
	T_INT(decode(j), -EBADMSG);
}

TEST(slot_out_of_range_is_refused)
{
	struct journal j = good();

	j.slot = 1024;
	T_INT(decode(j), -EBADMSG);
}

TEST(text_without_end_is_refused)
{
	struct journal j = good();

	memset(j.hostname, 'a', sizeof(j.hostname));
	T_INT(decode(j), -EBADMSG);
}

TEST(path_as_vm_is_refused)
{
	struct journal j = good();

	snprintf(j.vm, sizeof(j.vm), "../../../../etc/passwd");
	T_INT(decode(j), -EBADMSG);
}

TEST(not_a_sandbox_id_is_refused)
{
	struct journal j = good();

	snprintf(j.sandbox, sizeof(j.sandbox), "sb0000000000000000000");
	T_INT(decode(j), -EBADMSG);
}

TEST(written_is_read)
{
	struct journal j = good(), back;
	int fd = folder();

	T_INT(journal_write(fd, &j), 0);
	T_INT(journal_read(fd, 3, &back), 0);
	T_INT(back.generation, 9);
	j.step = JOURNAL_OPEN;
	T_INT(journal_write(fd, &j), 0);
	T_INT(journal_read(fd, 3, &back), 0);
	T_INT(back.step, JOURNAL_OPEN);
	close(fd);
}

TEST(another_slots_journal_is_refused)
{
	struct journal j = good(), back;
	int fd = folder();

	T_INT(journal_write(fd, &j), 0);
	T_INT(renameat(fd, "3", fd, "4"), 0);
	T_INT(journal_read(fd, 4, &back), -EBADMSG);
	close(fd);
}

TEST(removed_twice_is_success)
{
	struct journal j = good(), back;
	int fd = folder();

	T_INT(journal_write(fd, &j), 0);
	T_INT(journal_remove(fd, 3), 0);
	T_INT(journal_remove(fd, 3), 0);
	T_INT(journal_read(fd, 3, &back), -ENOENT);
	close(fd);
}

TEST(link_is_not_followed)
{
	struct journal back;
	int fd = folder();

	T_INT(symlinkat("/etc/passwd", fd, "5"), 0);
	T_INT(journal_read(fd, 5, &back), -ELOOP);
	close(fd);
}
