/* SPDX-License-Identifier: Apache-2.0 */

/* What survives a power cut cannot be tried here; the order of the calls that
 * decide it can. This program's fsync() and rename() stand before libc's. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

static char order[16]; /* f: a file synced, d: a directory, r: renamed */
static char failing;   /* the step that fails */

static void begin(char fails)
{
	memset(order, 0, sizeof(order));
	failing = fails;
}

static int step(char what)
{
	size_t n = strlen(order);

	if (n + 1 < sizeof(order))
		order[n] = what;
	errno = EIO;
	return what == failing ? -1 : 0;
}

int fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || step(S_ISDIR(st.st_mode) ? 'd' : 'f') < 0)
		return -1;
	return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
	if (step('r') < 0)
		return -1;
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

TEST(bytes_are_synced_before_the_name_and_the_folder_after)
{
	owned_str path = xasprintf("%s/f", test_tmpdir());
	struct err e = { 0 };

	begin(0);
	T_INT(file_write_atomic(path, "new", 3, 0600, &e), 0);
	T_STR(order, "frd");
}

TEST(bytes_that_cannot_be_synced_replace_nothing)
{
	owned_str path = xasprintf("%s/f", test_tmpdir());
	owned_str back = NULL;
	struct err e = { 0 };

	begin(0);
	T_INT(file_write_atomic(path, "old", 3, 0600, &e), 0);
	begin('f');
	T_INT(file_write_atomic(path, "new", 3, 0600, &e), -EIO);
	T_INT(file_read(path, 10, &back, NULL, &e), 0);
	T_STR(back, "old");
}

TEST(a_folder_that_cannot_be_synced_is_told)
{
	owned_str path = xasprintf("%s/f", test_tmpdir());
	struct err e = { 0 };

	begin('d');
	T_INT(file_write_atomic(path, "new", 3, 0600, &e), -EIO);
	T_HAS(e.msg, "sync directory");
}
