/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/test.h"

static struct err e;

/* Run a script and return what it wrote to stdout; *ret_status its end. */
static const char *run_spec(struct spawn *s, const char *script,
			    int *ret_status)
{
	static char out[8192];
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int p[2], pidfd;

	T_INT(pipe2(p, O_CLOEXEC), 0);
	if (!s->argv)
		s->argv = argv;
	s->stdio[0] = -1;
	s->stdio[1] = p[1];
	s->stdio[2] = 2;
	err_clear(&e);
	T_INT(spawn_start(s, &pid, &pidfd, &e), 0);
	close(p[1]);
	T_INT(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
	while ((got = read(p[0], out + n, sizeof(out) - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = 0;
	close(p[0]);
	close(pidfd);
	T_INT(waitpid(pid, ret_status, 0), pid);
	return out;
}

static const char *run(struct spawn *s, const char *script)
{
	int status;
	const char *out = run_spec(s, script, &status);

	T_INT(status, 0);
	return out;
}

TEST(spawn_runs_and_reports_the_end)
{
	struct spawn s = { .exe_fd = -1 };
	int status;

	T_STR(run_spec(&s, "echo hello; exit 3", &status), "hello\n");
	T_INT(WEXITSTATUS(status), 3);
}

TEST(spawn_environment_is_empty_unless_given)
{
	static const char *const env[] = { "A=1", NULL };
	struct spawn s = { .exe_fd = -1 };

	setenv("SECRET", "x", 1);
	T_STR(run(&s, "echo \"[$SECRET]\""), "[]\n");
	s = (struct spawn){ .exe_fd = -1, .envp = env };
	T_STR(run(&s, "echo $A"), "1\n");
	unsetenv("SECRET");
}

TEST(spawn_gives_exactly_the_named_descriptors)
{
	struct spawn s = { .exe_fd = -1 };
	int leak = open("/dev/zero", O_RDONLY); /* not CLOEXEC, on purpose */
	int fds[2] = { open("/dev/null", O_RDONLY | O_CLOEXEC),
		       open("/dev/full", O_WRONLY | O_CLOEXEC) };

	s.fds = fds;
	s.n_fds = 2;
	/* the shell itself may hold one more above 9 */
	T_STR(run(&s, "for i in 0 3 4 5 6 7 8 9; do "
		      "readlink /proc/$$/fd/$i || echo none; done"),
	      "/dev/null\n/dev/null\n/dev/full\nnone\nnone\nnone\nnone\n"
	      "none\n");
	close(leak);
	close(fds[0]);
	close(fds[1]);
}

TEST(spawn_descriptors_may_overlap_their_targets)
{
	struct spawn s = { .exe_fd = -1 };
	int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int b = open("/dev/full", O_WRONLY | O_CLOEXEC), fds[3];

	/* sources at 3 and 4, swapped, and one of them twice */
	T_INT(dup3(a, 40, O_CLOEXEC), 40);
	T_INT(dup3(b, 41, O_CLOEXEC), 41);
	close(a);
	close(b);
	T_INT(dup3(40, 3, O_CLOEXEC), 3);
	T_INT(dup3(41, 4, O_CLOEXEC), 4);
	fds[0] = 4;
	fds[1] = 3;
	fds[2] = 4;
	s.fds = fds;
	s.n_fds = 3;
	T_STR(run(&s, "for i in 3 4 5; do readlink /proc/$$/fd/$i; done"),
	      "/dev/full\n/dev/null\n/dev/full\n");
	close(3);
	close(4);
	close(40);
	close(41);
}

TEST(spawn_signals_are_as_new)
{
	struct spawn s = { .exe_fd = -1 };
	sigset_t set, old;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	T_STR(run(&s, "grep -E '^Sig(Blk|Ign)' /proc/self/status"),
	      "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	/* ours are as they were */
	sigprocmask(SIG_SETMASK, &old, &set);
	T_TRUE(sigismember(&set, SIGTERM));
	T_TRUE(!sigismember(&set, SIGINT));
	T_TRUE(signal(SIGPIPE, SIG_DFL) == SIG_IGN);
}

TEST(spawn_missing_program_is_an_error_at_once)
{
	const char *const argv[] = { "/no/such/program", NULL };
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 } };
	pid_t pid = 0;
	int pidfd = -1;

	T_INT(spawn_start(&s, &pid, &pidfd, &e), -ENOENT);
	T_STR(e.msg, "start /no/such/program: exec: No such file or directory");
	T_INT(pidfd, -1);
	/* nothing left running, nothing to reap */
	T_TRUE(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(spawn_bad_descriptor_or_directory_is_an_error)
{
	const char *const argv[] = { "/bin/true", NULL };
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 },
			   .cwd = "/no/such/dir" };
	int bad = 999;
	pid_t pid;

	T_INT(spawn_start(&s, &pid, NULL, &e), -ENOENT);
	T_HAS(e.msg, "chdir");
	s.cwd = NULL;
	s.fds = &bad;
	s.n_fds = 1;
	T_INT(spawn_start(&s, &pid, NULL, &e), -EBADF);
	T_HAS(e.msg, "descriptor");
}

TEST(spawn_by_descriptor)
{
	const char *const argv[] = { "echo", "by-fd", NULL };
	struct spawn s = { .argv = argv };
	owned_fd exe = open("/bin/echo", O_PATH | O_CLOEXEC);

	s.exe_fd = exe;
	T_STR(run(&s, NULL), "by-fd\n");
}

TEST(spawn_directory_session_and_no_new_privs)
{
	struct spawn s = { .exe_fd = -1,
			   .new_session = true,
			   .no_new_privs = true };

	T_STR(run(&s, "pwd; grep NoNewPrivs /proc/self/status; "
		      "read -r _ _ _ _ _ sid _ < /proc/$$/stat; "
		      "[ $sid = $$ ] && echo leader"),
	      "/\nNoNewPrivs:\t1\nleader\n");
	s = (struct spawn){ .exe_fd = -1, .cwd = "/tmp" };
	T_STR(run(&s, "pwd"), "/tmp\n");
}

TEST(spawn_as_another_user)
{
	struct spawn s = { .exe_fd = -1,
			   .set_ids = true,
			   .uid = 12345,
			   .gid = 23456,
			   .groups = { 77, 78 },
			   .n_groups = 2,
			   .die_with_parent = true };

	if (geteuid() != 0)
		test_skip("needs root");
	T_STR(run(&s, "grep -E '^(Uid|Gid|Groups|CapEff)' /proc/self/status"),
	      "Uid:\t12345\t12345\t12345\t12345\n"
	      "Gid:\t23456\t23456\t23456\t23456\n"
	      "Groups:\t77 78 \n"
	      "CapEff:\t0000000000000000\n");
}

TEST(spawn_dies_with_its_parent_also_as_another_user)
{
	const char *const argv[] = { "/bin/sleep", "600", NULL };
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 },
			   .set_ids = geteuid() == 0,
			   .uid = 12345,
			   .gid = 12345,
			   .die_with_parent = true };
	pid_t middle, sleeper = 0;
	int tell[2], pidfd;

	T_INT(pipe2(tell, O_CLOEXEC), 0);
	middle = fork();
	if (middle == 0) {
		pid_t pid = -1;
		char c;

		if (spawn_start(&s, &pid, NULL, &e) < 0)
			pid = -1;
		(void)!write(tell[1], &pid, sizeof(pid));
		/* until killed, so that the tester can open the pidfd */
		while (read(tell[0], &c, 0) == 0)
			pause();
		_exit(0);
	}
	T_INT(read(tell[0], &sleeper, sizeof(sleeper)), sizeof(sleeper));
	T_TRUE(sleeper > 0);
	pidfd = (int)syscall(SYS_pidfd_open, sleeper, 0);
	T_TRUE(pidfd >= 0);
	kill(middle, SIGKILL);
	T_INT(waitpid(middle, NULL, 0), middle);
	struct pollfd f = { .fd = pidfd, .events = POLLIN };
	T_INT(poll(&f, 1, 60000), 1);
	close(pidfd);
	close(tell[0]);
	close(tell[1]);
}
