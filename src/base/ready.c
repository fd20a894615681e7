/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ready.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

static void notify_fd(void)
{
	const char *s = getenv("CAISSON_READY_FD");
	int64_t fd;

	if (!s || !text_int(s, 3, 1 << 20, &fd))
		return;
	(void)write_all((int)fd, "1\n", 2);
	close((int)fd);
}

static void notify_systemd(void)
{
	static const char ready[] = "READY=1";
	const char *s = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = s ? strlen(s) : 0;

	if (n < 2 || n >= sizeof(a.sun_path) || (s[0] != '/' && s[0] != '@'))
		return;
	memcpy(a.sun_path, s, n);
	if (a.sun_path[0] == '@')
		a.sun_path[0] = 0; /* abstract name */
	owned_fd fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, ready, sizeof(ready) - 1, MSG_NOSIGNAL | MSG_DONTWAIT,
		      (struct sockaddr *)&a,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

void ready_notify(void)
{
	notify_fd();
	notify_systemd();
	unsetenv("CAISSON_READY_FD");
	unsetenv("NOTIFY_SOCKET");
}

static void on_term(struct loop_signal *s)
{
	(void)s;
	_exit(0);
}

int ready_run(struct loop *l)
{
	struct loop_signal term = { 0 }, intr = { 0 };
	int r;

	loop_signal_add(l, &term, SIGTERM, on_term);
	loop_signal_add(l, &intr, SIGINT, on_term);
	ready_notify();
	r = loop_run(l);
	loop_signal_del(&term);
	loop_signal_del(&intr);
	return r;
}
