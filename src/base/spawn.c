/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"

/*
 * Between fork and exec the child may call nothing that takes a lock: another
 * thread of the parent may have held it. What ends that way is written to a
 * pipe, whose end by exec says that all went well.
 */
struct failure {
	int errnum;
	char step[28];
};

struct child {
	const struct spawn *s;
	pid_t parent;
	int null_fd;
	int report;
};

static __attribute__((noreturn)) void fail(const struct child *c,
					   const char *step)
{
	struct failure f = { .errnum = errno };

	memcpy(f.step, step, strnlen(step, sizeof(f.step) - 1));
	/* shorter than PIPE_BUF into an empty pipe: whole, or not at all */
	if (write(c->report, &f, sizeof(f)) < 0)
		_exit(126);
	_exit(127);
}

/* fd again, above all targets; -1 stays -1. */
static int move_up(const struct child *c, int fd, int base)
{
	int up;

	if (fd < 0)
		return -1;
	up = fcntl(fd, F_DUPFD_CLOEXEC, base);
	if (up < 0)
		fail(c, "duplicate a descriptor");
	return up;
}

/* Two steps, because a source may be another one's target. The report's end
 * goes above all, too, and closes by exec like the rest. */
static int place_fds(struct child *c)
{
	const struct spawn *s = c->s;
	int base = 3 + (int)s->n_fds, tmp[3 + SPAWN_FDS_MAX], exe;

	c->report = move_up(c, c->report, base);
	for (int i = 0; i < 3; i++)
		tmp[i] = move_up(c, s->stdio[i] < 0 ? c->null_fd : s->stdio[i],
				 base);
	for (size_t i = 0; i < s->n_fds; i++)
		tmp[3 + i] = move_up(c, s->fds[i], base);
	exe = move_up(c, s->exe_fd, base);
	for (int i = 0; i < base; i++) {
		if (dup3(tmp[i], i, 0) < 0)
			fail(c, "place a descriptor");
	}
	if (close_range((unsigned)base, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		fail(c, "close_range");
	return exe;
}

static void reset_signals(const struct child *c)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t none;

	/* fails for SIGKILL, SIGSTOP and glibc's own two, which is right */
	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, &sa, NULL);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		fail(c, "unblock signals");
}

static void set_ids(const struct child *c)
{
	const struct spawn *s = c->s;

	/* glibc's own act on all threads, under a lock */
	if (syscall(SYS_setgroups, s->n_groups, s->groups) < 0)
		fail(c, "setgroups");
	if (syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0)
		fail(c, "setresgid");
	if (syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0)
		fail(c, "setresuid");
}

static __attribute__((noreturn)) void run_child(struct child *c)
{
	static const char *const no_env[] = { NULL };
	const struct spawn *s = c->s;
	const char *const *envp = s->envp ? s->envp : no_env;
	int exe;

	reset_signals(c);
	exe = place_fds(c);
	if (s->new_session && setsid() < 0)
		fail(c, "setsid");
	if (chdir(s->cwd ? s->cwd : "/") < 0)
		fail(c, "chdir");
	if (s->set_ids)
		set_ids(c);
	/* after the change of ids, which clears it */
	if (s->die_with_parent) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
			fail(c, "PR_SET_PDEATHSIG");
		if (getppid() != c->parent)
			_exit(127);
	}
	if (s->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(c, "PR_SET_NO_NEW_PRIVS");
	if (exe >= 0)
		syscall(SYS_execveat, exe, "", s->argv, envp, AT_EMPTY_PATH);
	else
		syscall(SYS_execve, s->argv[0], s->argv, envp);
	fail(c, "exec");
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static pid_t start(struct child *c)
{
	sigset_t all, mine;
	pid_t pid;
	int errnum;

	/* A handler of ours must not run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mine);
	/* posix_spawn() cannot place descriptors, ids and a death signal in
	 * this order; run_child() never returns. */
	pid = fork();
	if (pid == 0)
		run_child(c);
	errnum = errno;
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	errno = errnum;
	return pid;
}

/* Wait for the exec. Returns whether there was a failure to read. */
static bool read_failure(int fd, struct failure *f)
{
	ssize_t n;

	do
		n = read(fd, f, sizeof(*f));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*f);
}

int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd,
		struct err *e)
{
	owned_fd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	owned_fd report = -1;
	struct child c = { .s = s, .parent = getpid(), .null_fd = null_fd };
	struct failure f;
	pid_t pid;
	int pidfd, p[2];

	CHECK(s->n_fds <= SPAWN_FDS_MAX && s->n_groups <= SPAWN_GROUPS_MAX);
	CHECK(s->exe_fd >= 0 || s->argv[0][0] == '/');
	if (null_fd < 0)
		return err_errno(e, errno, "open /dev/null");
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(e, errno, "start %s: pipe", s->argv[0]);
	report = p[0];
	c.report = p[1];
	pid = start(&c);
	if (pid < 0) {
		int errnum = errno;

		fd_close(p[1]);
		return err_errno(e, errnum, "start %s: fork", s->argv[0]);
	}
	fd_close(p[1]);
	if (read_failure(report, &f)) {
		reap(pid);
		return err_errno(e, f.errnum, "start %s: %s", s->argv[0],
				 f.step);
	}
	/* a number cannot be reused before we reap it */
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		int errnum = errno;

		kill(pid, SIGKILL);
		reap(pid);
		return err_errno(e, errnum, "start %s: pidfd_open", s->argv[0]);
	}
	*ret_pid = pid;
	if (ret_pidfd)
		*ret_pidfd = pidfd;
	else
		fd_close(pidfd);
	return 0;
}
