/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/argv.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int argv_split(char *text, size_t n, const char *argv[ARGV_WORDS_MAX + 1])
{
	size_t words = 0;
	char *p = text;

	if (n == 0 || n > ARGV_BYTES_MAX || text[n - 1] != 0 || text[0] == 0)
		return -EBADMSG;
	while (p < text + n) {
		if (words == ARGV_WORDS_MAX)
			return -EBADMSG;
		argv[words++] = p;
		p += strlen(p) + 1;
	}
	argv[words] = NULL;
	return (int)words;
}

int argv_read(int fd, char text[ARGV_BYTES_MAX],
	      const char *argv[ARGV_WORDS_MAX + 1])
{
	const int want =
	    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	ssize_t n;

	if (seals < 0 || (seals & want) != want)
		return -EPERM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)ARGV_BYTES_MAX)
		return -EFBIG;
	n = pread(fd, text, ARGV_BYTES_MAX, 0);
	if (n < 0)
		return -errno;
	return argv_split(text, (size_t)n, argv);
}
