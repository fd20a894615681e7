/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/argv.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

static char text[ARGV_BYTES_MAX];
static const char *argv[ARGV_WORDS_MAX + 1];

TEST(words_are_split_at_nul)
{
	char s[] = "qemu\0-M\0microvm";

	T_INT(argv_split(s, sizeof(s), argv), 3);
	T_STR(argv[0], "qemu");
	T_STR(argv[2], "microvm");
	T_TRUE(argv[3] == NULL);
}

TEST(empty_words_after_the_first_are_words)
{
	char s[] = "qemu\0\0x";

	T_INT(argv_split(s, sizeof(s), argv), 3);
	T_STR(argv[1], "");
}

TEST(no_words_at_all)
{
	char s[] = "";

	T_INT(argv_split(s, 0, argv), -EBADMSG);
	T_INT(argv_split(s, 1, argv), -EBADMSG);
}

TEST(last_word_needs_its_nul)
{
	char s[] = "qemu\0-M";

	T_INT(argv_split(s, sizeof(s) - 1, argv), -EBADMSG);
}

TEST(as_many_words_as_there_is_room_for)
{
	char s[2 * (ARGV_WORDS_MAX + 1)];

	for (size_t i = 0; i < sizeof(s); i += 2) {
		s[i] = 'a';
		s[i + 1] = 0;
	}
	T_INT(argv_split(s, sizeof(s) - 2, argv), ARGV_WORDS_MAX);
	T_TRUE(argv[ARGV_WORDS_MAX] == NULL);
	T_INT(argv_split(s, sizeof(s), argv), -EBADMSG);
}

static int sealed(const char *p, size_t n, int seals)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	T_TRUE(fd >= 0);
	T_INT(write_all(fd, p, n), 0);
	T_INT(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define ALL (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

TEST(sealed_memfd_is_read)
{
	owned_fd fd = sealed("a\0b", 4, ALL);

	T_INT(argv_read(fd, text, argv), 2);
	T_STR(argv[1], "b");
}

TEST(each_seal_is_needed)
{
	const int seals[] = { F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW,
			      F_SEAL_SEAL };

	for (size_t i = 0; i < ARRAY_SIZE(seals); i++) {
		owned_fd fd = sealed("a", 2, ALL & ~seals[i]);

		T_INT(argv_read(fd, text, argv), -EPERM);
	}
}

TEST(plain_file_is_refused)
{
	owned_fd fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	T_TRUE(argv_read(fd, text, argv) < 0);
}

TEST(too_long_a_command_line)
{
	static char big[ARGV_BYTES_MAX + 1];
	owned_fd fd = -1;

	memset(big, 'a', sizeof(big) - 1);
	fd = sealed(big, sizeof(big), ALL);
	T_INT(argv_read(fd, text, argv), -EFBIG);
}
