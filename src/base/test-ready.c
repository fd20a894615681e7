/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

TEST(ready_writes_a_line_and_closes)
{
	char number[16], line[8];
	int p[2];

	T_INT(pipe2(p, O_CLOEXEC), 0);
	snprintf(number, sizeof(number), "%d", p[1]);
	setenv("CAISSON_READY_FD", number, 1);
	ready_notify();
	T_INT(read(p[0], line, sizeof(line)), 2);
	T_TRUE(memcmp(line, "1\n", 2) == 0);
	T_INT(read(p[0], line, sizeof(line)), 0); /* closed */
	T_TRUE(!getenv("CAISSON_READY_FD"));
	close(p[0]);
}

TEST(ready_tells_systemd)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	owned_fd fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char got[32] = "";

	snprintf(a.sun_path, sizeof(a.sun_path), "%.80s/n", test_tmpdir());
	T_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
	ready_notify();
	T_TRUE(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	T_STR(got, "READY=1");
	T_TRUE(!getenv("NOTIFY_SOCKET"));
}

TEST(ready_ignores_nonsense)
{
	unsetenv("CAISSON_READY_FD");
	unsetenv("NOTIFY_SOCKET");
	ready_notify();
	setenv("CAISSON_READY_FD", "1; rm", 1);
	setenv("NOTIFY_SOCKET", "relative", 1);
	ready_notify();
	setenv("CAISSON_READY_FD", "1", 1); /* not our stdout */
	ready_notify();
	T_TRUE(fcntl(1, F_GETFD) >= 0);
	setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
	ready_notify();
}

TEST(ready_run_ends_at_once_on_sigterm)
{
	char number[16], line[8];
	int p[2], status;
	pid_t pid;

	T_INT(pipe2(p, O_CLOEXEC), 0);
	snprintf(number, sizeof(number), "%d", p[1]);
	pid = fork();
	if (pid == 0) {
		setenv("CAISSON_READY_FD", number, 1);
		ready_run(loop_new());
		_exit(1);
	}
	close(p[1]);
	T_INT(read(p[0], line, sizeof(line)), 2); /* it serves */
	T_INT(kill(pid, SIGTERM), 0);
	T_INT(waitpid(pid, &status, 0), pid);
	T_INT(status, 0);
	close(p[0]);
}
