/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/own.h"

int pty_resize(int master, struct exec_size size)
{
	const struct winsize ws = { .ws_row = size.rows, .ws_col = size.cols };

	return ioctl(master, TIOCSWINSZ, &ws) < 0 ? -errno : 0;
}

int pty_open(int pts, struct exec_size size, int *ret_master, int *ret_slave,
	     struct err *e)
{
	owned_fd master =
	    openat(pts, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	owned_fd slave = -1;
	int unlocked = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return err_errno(e, errno, "open a terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || pty_resize(master, size) < 0)
		return err_errno(e, errno, "open a terminal");
	*ret_master = take_fd(&master);
	*ret_slave = take_fd(&slave);
	return 0;
}

int pty_write_end(int master, bool *in_line)
{
	struct termios t;
	char eof = 4; /* ^D */

	if (tcgetattr(master, &t) == 0 && t.c_cc[VEOF] != _POSIX_VDISABLE)
		eof = (char)t.c_cc[VEOF];
	/* the first only hands an unfinished line over */
	if (*in_line) {
		if (write(master, &eof, 1) != 1)
			return errno == EAGAIN ? -EAGAIN : 0;
		*in_line = false;
	}
	if (write(master, &eof, 1) != 1 && errno == EAGAIN)
		return -EAGAIN;
	return 0;
}

int pty_take_over(uid_t uid)
{
	struct termios t;

	if (ioctl(0, TIOCSCTTY, 0) < 0)
		return -errno;
	/* so that the user's programs may open it by its name; the group is
	 * devpts's */
	(void)!fchown(0, uid, (gid_t)-1);
	if (tcgetattr(0, &t) == 0) {
		/* backspace removes characters, not bytes */
		t.c_iflag |= IUTF8;
		(void)tcsetattr(0, TCSANOW, &t);
	}
	return 0;
}
