/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets by name, of base/channel.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"

#define LISTEN_BACKLOG 128

static int address(const char *path, struct sockaddr_un *ret, struct err *e)
{
	size_t n = strlen(path);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (n == 0 || n >= sizeof(ret->sun_path))
		return err_set(e, -ENAMETOOLONG, ERR_INVALID,
			       "socket %s: the path must have 1 to %zu bytes; "
			       "choose a shorter --run directory",
			       path, sizeof(ret->sun_path) - 1);
	memcpy(ret->sun_path, path, n);
	return 0;
}

int unix_listen(const char *path, int type, unsigned mode, struct err *e)
{
	owned_fd fd = -1;
	struct sockaddr_un a;
	struct stat st;
	int r = address(path, &a, e);

	if (r < 0)
		return r;
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(e, errno, "socket %s", path);
	/* the socket's own mode bounds the name's, so that there is no moment
	 * in which the name is open to more than mode */
	if (fchmod(fd, mode) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_errno(e, errno, "bind %s", path);
	if (chmod(path, mode) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return err_errno(e, errno, "listen on %s", path);
	return take_fd(&fd);
}

int unix_connect(const char *path, int type, struct err *e)
{
	owned_fd fd = -1;
	struct sockaddr_un a;
	int r = address(path, &a, e);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(e, errno, "socket %s", path);
	/* never EINPROGRESS on unix; EAGAIN = the listener's queue is full */
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_errno(e, errno, "connect to %s", path);
	return take_fd(&fd);
}

int unix_peer(int fd, struct ucred *ret)
{
	socklen_t n = sizeof(*ret);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0)
		return -errno;
	return 0;
}
