/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim/interpose.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test.h"

#define LEN (8u << 20)

/* The functions under test replace the C library's in this program. */

TEST(ram_is_private_to_us_and_shared_to_the_vmm)
{
	static struct ram ram = { .pagemap = -1 };
	struct stat st;
	uint8_t *p;
	char byte = 'x';
	int fd;

	interpose_ram(&ram);
	fd = open(SHIM_RAM_PATH, O_RDWR | O_CLOEXEC);
	T_TRUE(fd >= 0);
	T_INT(open(SHIM_RAM_PATH, O_RDWR | O_CLOEXEC), -1); /* one only */
	T_INT(errno, EBUSY);
	T_INT(ftruncate(fd, LEN), 0);
	T_INT(fstat(fd, &st), 0);
	T_INT(st.st_size, LEN);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	T_TRUE(p != MAP_FAILED);
	T_TRUE(ram.base == p);
	T_INT(ram.len, LEN);
	p[0] = 'y';
	T_INT(pread(fd, &byte, 1, 0), 1);
	T_INT(byte, 0); /* the file never sees it */
	T_TRUE(mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
}

TEST(descriptors_open_by_number_from_the_start)
{
	char path[64], b[4] = { 0 };
	int fd = memfd_create("k", MFD_CLOEXEC), two, n;
	FILE *f;

	T_INT(write(fd, "abcd", 4), 4);
	snprintf(path, sizeof(path), "%s%d", SHIM_FD_PREFIX, fd);
	f = fopen(path, "rb");
	T_TRUE(f != NULL);
	T_INT(fread(b, 1, 2, f), 2);
	T_TRUE(memcmp(b, "ab", 2) == 0);
	fclose(f);
	two = open(path, O_RDONLY | O_CLOEXEC);
	T_TRUE(two >= 0 && two != fd);
	n = (int)read(two, b, 4);
	T_INT(n, 4);
	T_TRUE(memcmp(b, "abcd", 4) == 0);
	T_TRUE(fcntl(two, F_GETFD) & FD_CLOEXEC);
	close(two);
	close(fd);
}

TEST(names_that_are_no_numbers_do_not_open)
{
	const char *bad[] = { SHIM_FD_PREFIX "x", SHIM_FD_PREFIX "-1",
			      SHIM_FD_PREFIX "99999999999999999999",
			      SHIM_FD_PREFIX "../../etc/passwd",
			      SHIM_FD_PREFIX "9999" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		T_INT(open(bad[i], O_RDONLY | O_CLOEXEC), -1);
		T_TRUE(fopen(bad[i], "r") == NULL);
	}
}

TEST(other_files_are_untouched)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	FILE *f = fopen("/dev/null", "r");
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	T_TRUE(fd >= 0 && f && p != MAP_FAILED);
	T_INT(open("/nonexistent", O_RDONLY | O_CLOEXEC), -1);
	T_INT(errno, ENOENT);
	fclose(f);
	close(fd);
	munmap(p, 4096);
}
