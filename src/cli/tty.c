/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tty.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t raw_fd = -1;

/* async-signal-safe */
static void restore(void)
{
	int fd = raw_fd;

	raw_fd = -1;
	/* TCSADRAIN would wait for a terminal that was stopped by Ctrl-S */
	if (fd >= 0)
		tcsetattr(fd, TCSANOW, &before);
}

static void on_fault(int signo)
{
	restore();
	raise(signo); /* SA_RESETHAND: now it is the default */
}

static void hook_exits(void)
{
	static const int faults[] = { SIGABRT, SIGSEGV, SIGBUS,
				      SIGFPE,  SIGILL,	SIGQUIT };
	static bool hooked;
	struct sigaction sa = { .sa_handler = on_fault,
				.sa_flags = (int)SA_RESETHAND };

	if (hooked)
		return;
	hooked = true;
	atexit(restore);
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigaction(faults[i], &sa, NULL);
}

int tty_raw(int fd)
{
	struct termios t;

	if (raw_fd >= 0)
		return 0;
	if (tcgetattr(fd, &before) < 0)
		return -errno;
	hook_exits();
	t = before;
	cfmakeraw(&t);
	raw_fd = fd;
	if (tcsetattr(fd, TCSADRAIN, &t) < 0) {
		raw_fd = -1;
		return -errno;
	}
	return 0;
}

void tty_cooked(void)
{
	restore();
}

bool tty_size(int fd, unsigned *ret_cols, unsigned *ret_rows)
{
	struct winsize w;

	if (ioctl(fd, TIOCGWINSZ, &w) < 0 || !w.ws_col || !w.ws_row)
		return false;
	*ret_cols = w.ws_col;
	*ret_rows = w.ws_row;
	return true;
}
