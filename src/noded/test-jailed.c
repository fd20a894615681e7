/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that tests put into a jail, as VMM (first extra descriptor = a
 * socket back to the test, argv[1] = what to do) or as monitor (argv[1] is
 * --slot). It tells what it finds there.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/channel.h"
#include "base/own.h"
#include "proto/noded.h"

static int err_of(int r)
{
	return r < 0 ? errno : 0;
}

static int capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];
	int n = 0;

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	for (int i = 0; i <= CAP_LAST_CAP; i++)
		n += prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1;
	return n + (d[0].effective || d[1].effective || d[0].permitted ||
		    d[1].permitted || d[0].inheritable);
}

static int exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static size_t facts(char *to, size_t size)
{
	struct rlimit core = { 9, 9 };
	int highest = 0, n;

	for (int i = 0; i < 1024; i++)
		if (fcntl(i, F_GETFD) >= 0)
			highest = i;
	getrlimit(RLIMIT_CORE, &core);
	n = snprintf(
	    to, size,
	    "uid=%d gid=%d groups=%d pid=%d caps=%d nnp=%d fds=%d core=%d "
	    "proc=%d etc=%d sys=%d tap0=%d kvm=%d mkroot=%d mkusr=%d "
	    "setuid=%d shim=%d null=%d urandom=%d slot=%d ppid=%d",
	    (int)getuid(), (int)getgid(), getgroups(0, NULL), (int)getpid(),
	    capabilities(), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), highest,
	    (int)core.rlim_cur, exists("/proc/self"), exists("/etc/passwd"),
	    exists("/sys/kernel"), (int)if_nametoindex("tap0"),
	    exists("/dev/kvm"), err_of(mkdir("/x", 0700)),
	    err_of(open("/usr/x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)),
	    err_of(setuid(0)), getenv("LD_PRELOAD") != NULL,
	    err_of(open("/dev/null", O_RDWR | O_CLOEXEC)),
	    err_of(open("/dev/urandom", O_RDONLY | O_CLOEXEC)), exists("/slot"),
	    (int)getppid());
	return (size_t)n;
}

static int dial(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	owned_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", name);
	return err_of(connect(fd, (struct sockaddr *)&a, sizeof(a)));
}

static int monitor(char **argv)
{
	for (;;) {
		struct pollfd p = { .fd = MONITOR_FD_LISTEN, .events = POLLIN };
		int ready = poll(&p, 1, -1);
		owned_fd fd =
		    accept4(MONITOR_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);
		char text[1024];
		size_t n = facts(text, sizeof(text));

		if (ready < 0 || fd < 0)
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      " argv=%s,%s,%s qmp=%d chan=%d mkslot=%d",
				      argv[2], argv[3], argv[4], dial("qmp"),
				      dial("chan"),
				      err_of(mkdir("/slot/x", 0700)));
		if (channel_send_fd(fd, text, n, NULL, 0) < 0)
			return 1;
	}
}

/* Write to stderr until it takes no more. */
static size_t flood(char *to, size_t size)
{
	static const char line[] = "qemu: the guest made me say this\n";
	size_t sum = 0;
	ssize_t n = 0;

	while (sum < 1 << 20 && n >= 0) {
		n = write(2, line, sizeof(line) - 1);
		sum += n > 0 ? (size_t)n : 0;
	}
	return (size_t)snprintf(to, size, "wrote=%zu", sum);
}

int main(int argc, char **argv)
{
	const int tap[1] = { VMM_FD_TAP };
	char text[1024];
	size_t n = 0;
	const char *what = argc > 1 ? argv[1] : "";

	if (argc > 4 && strcmp(what, "--slot") == 0)
		return monitor(argv);
	if (strcmp(what, "exit") == 0) {
		fprintf(stderr, "cannot go on\n");
		return 3;
	}
	if (strcmp(what, "forks") == 0)
		for (int i = 0; i < 3 && fork(); i++)
			;
	if (strcmp(what, "facts") == 0)
		n = facts(text, sizeof(text));
	else if (strcmp(what, "flood") == 0)
		n = flood(text, sizeof(text));
	else
		text[n++] = '.';
	if (channel_send_fd(VMM_FD_EXTRA, text, n, tap,
			    strcmp(what, "tap") == 0) < 0)
		return 1;
	for (;;)
		pause();
}
