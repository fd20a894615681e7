/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/test.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(own_fd_is_closed_at_the_end_of_its_scope)
{
	int number;
	{
		owned_fd fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		T_TRUE(fd >= 0);
		number = fd;
		T_TRUE(is_open(number));
	}
	T_TRUE(!is_open(number));
}

TEST(own_taken_fd_survives)
{
	int number;
	{
		owned_fd fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		number = take_fd(&fd);
		T_INT(fd, -1);
	}
	T_TRUE(is_open(number));
	T_INT(fd_close(number), -1);
	T_TRUE(!is_open(number));
}

TEST(own_close_keeps_errno)
{
	errno = ENOTTY;
	T_INT(fd_close(-1), -1);
	T_INT(errno, ENOTTY);
	T_INT(fd_close(1 << 20), -1); /* EBADF inside */
	T_INT(errno, ENOTTY);
}

static int freed;

static int *count_free(int *p)
{
	freed++;
	free(p);
	return NULL;
}
DEFINE_CLEANUP(int, count_free);

TEST(own_cleanup_runs_once_and_take_disarms)
{
	int *kept;

	freed = 0;
	{
		OWNED(count_free_p) int *a = xnew(int);
		OWNED(count_free_p) int *none = NULL;

		(void)none;
		T_INT(*a, 0);
	}
	T_INT(freed, 1);
	{
		OWNED(count_free_p) int *a = xnew(int);

		kept = TAKE(a);
		T_TRUE(!a);
	}
	T_INT(freed, 1);
	free(kept);
}

TEST(own_allocations_are_zeroed_and_never_null)
{
	unsigned char *p = xcalloc(0, 0);
	int *many = xnew_n(int, 100);

	T_TRUE(p);
	for (int i = 0; i < 100; i++)
		T_INT(many[i], 0);
	free(p);
	free(many);
}

TEST(own_strings)
{
	owned_str a = xstrdup("abc");
	owned_str b = xstrndup("abcdef", 2);
	owned_str c = xasprintf("%s-%d", a, 5);

	T_STR(a, "abc");
	T_STR(b, "ab");
	T_STR(c, "abc-5");
}
