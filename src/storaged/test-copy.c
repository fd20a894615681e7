/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

static int file(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	T_TRUE(fd >= 0);
	return fd;
}

TEST(digest_of_abc)
{
	owned_fd fd = file("a");
	char hex[DIGEST_HEX];
	uint64_t size;

	T_INT(pwrite(fd, "abc", 3, 0), 3);
	T_INT(copy_hash(fd, -1, hex, &size), 0);
	T_INT(size, 3);
	T_STR(hex,
	      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f200"
	      "15ad");
}

TEST(empty_file)
{
	owned_fd fd = file("a"), to = file("b");
	char hex[DIGEST_HEX];
	uint64_t size;

	T_INT(copy_hash(fd, to, hex, &size), 0);
	T_INT(size, 0);
	T_STR(hex,
	      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
	      "b855");
}

/* The digest must be that of the bytes, however they lie on the disk. */
TEST(holes_hash_like_zeros)
{
	const size_t n = 3u << 20;
	owned_fd sparse = file("a"), full = file("b");
	OWNED(own_free_p) uint8_t *mem = xcalloc(1, n);
	char one[DIGEST_HEX], two[DIGEST_HEX];
	uint64_t size;

	mem[n / 2] = 7;
	T_INT(pwrite(full, mem, n, 0), n);
	T_INT(ftruncate(sparse, (off_t)n), 0);
	T_INT(pwrite(sparse, "\7", 1, (off_t)n / 2), 1);
	T_INT(copy_hash(sparse, -1, one, &size), 0);
	T_INT(copy_hash(full, -1, two, &size), 0);
	T_STR(one, two);
}

TEST(sparse_file_stays_sparse_in_the_copy)
{
	owned_fd from = file("a"), to = file("b");
	char one[DIGEST_HEX], two[DIGEST_HEX];
	struct stat st;
	uint64_t size;

	T_INT(ftruncate(from, 64 << 20), 0);
	T_INT(pwrite(from, "x", 1, 5 << 20), 1);
	T_INT(pwrite(from, "y", 1, (64 << 20) - 1), 1);
	T_INT(copy_hash(from, to, one, &size), 0);
	T_INT(fstat(to, &st), 0);
	T_INT(st.st_size, 64 << 20);
	T_TRUE(st.st_blocks * 512 < 1 << 20);
	T_INT(copy_hash(to, -1, two, &size), 0);
	T_STR(one, two);
}

TEST(hole_at_the_end_is_kept)
{
	owned_fd from = file("a"), to = file("b");
	char hex[DIGEST_HEX];
	struct stat st;
	uint64_t size;

	T_INT(pwrite(from, "x", 1, 0), 1);
	T_INT(ftruncate(from, 8 << 20), 0);
	T_INT(copy_hash(from, to, hex, &size), 0);
	T_INT(fstat(to, &st), 0);
	T_INT(st.st_size, 8 << 20);
	T_INT(size, 8 << 20);
}

TEST(one_flipped_bit_changes_the_digest)
{
	owned_fd fd = file("a");
	char one[DIGEST_HEX], two[DIGEST_HEX];
	uint64_t size;

	T_INT(pwrite(fd, "hello", 5, 1 << 20), 5);
	T_INT(copy_hash(fd, -1, one, &size), 0);
	T_INT(pwrite(fd, "hellm", 5, 1 << 20), 5);
	T_INT(copy_hash(fd, -1, two, &size), 0);
	T_TRUE(strcmp(one, two) != 0);
}

TEST(only_files_are_hashed)
{
	owned_fd fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char hex[DIGEST_HEX];
	uint64_t size;

	T_INT(copy_hash(fd, -1, hex, &size), -EINVAL);
}
