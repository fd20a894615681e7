/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"

/*
 * The child shares our memory until it executes (vfork), so it reports a
 * failure by writing here, and may call nothing but the kernel: glibc's
 * setresuid() would act on all threads of the parent.
 */
struct child {
	const struct spawn *s;
	pid_t parent;
	sigset_t mask; /* ours, while all is blocked */
	int null_fd;
	volatile int errnum;
	const char *volatile step;
};

static __attribute__((noreturn)) void fail(struct child *c, const char *step)
{
	c->errnum = errno;
	c->step = step;
	_exit(127);
}

/* fd again, above all targets; -1 stays -1. */
static int move_up(struct child *c, int fd, int base)
{
	int up;

	if (fd < 0)
		return -1;
	up = fcntl(fd, F_DUPFD_CLOEXEC, base);
	if (up < 0)
		fail(c, "duplicate a descriptor");
	return up;
}

/* Two steps, because a source may be another one's target. */
static int place_fds(struct child *c)
{
	const struct spawn *s = c->s;
	int base = 3 + (int)s->n_fds, tmp[3 + SPAWN_FDS_MAX], exe;

	for (int i = 0; i < 3; i++)
		tmp[i] = move_up(c, s->stdio[i] < 0 ? c->null_fd : s->stdio[i],
				 base);
	for (size_t i = 0; i < s->n_fds; i++)
		tmp[3 + i] = move_up(c, s->fds[i], base);
	exe = move_up(c, s->exe_fd, base);
	for (int i = 0; i < base; i++) {
		if (syscall(SYS_dup3, tmp[i], i, 0) < 0)
			fail(c, "place a descriptor");
	}
	if (syscall(SYS_close_range, (unsigned)base, ~0u, CLOSE_RANGE_CLOEXEC) <
	    0)
		fail(c, "close_range");
	return exe;
}

static void reset_signals(struct child *c)
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

static void set_ids(struct child *c)
{
	const struct spawn *s = c->s;

	if (syscall(SYS_setgroups, s->n_groups, s->groups) < 0)
		fail(c, "setgroups");
	if (syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0)
		fail(c, "setresgid");
	if (syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0)
		fail(c, "setresuid");
}

static __attribute__((noreturn, noinline)) void run_child(struct child *c)
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

static pid_t start(struct child *c)
{
	sigset_t all;
	pid_t pid;

	/* A handler of ours must not run in the child, on our memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &c->mask);
	/* posix_spawn() cannot place descriptors, ids and a death signal in
	 * this order; fork() copies the page tables of a big parent.
	 * run_child() keeps the rules and never returns. */
	pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
	if (pid == 0)
		run_child(c); /* NOLINT(clang-analyzer-unix.Vfork) */
	if (pid < 0) {
		c->errnum = errno;
		c->step = "fork";
	}
	pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
	return pid;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd,
		struct err *e)
{
	owned_fd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct child c = { .s = s, .parent = getpid(), .null_fd = null_fd };
	pid_t pid;
	int pidfd;

	CHECK(s->n_fds <= SPAWN_FDS_MAX && s->n_groups <= SPAWN_GROUPS_MAX);
	CHECK(s->exe_fd >= 0 || s->argv[0][0] == '/');
	if (null_fd < 0)
		return err_errno(e, errno, "open /dev/null");
	pid = start(&c);
	if (c.errnum) {
		if (pid > 0)
			reap(pid);
		return err_errno(e, c.errnum, "start %s: %s", s->argv[0],
				 c.step);
	}
	/* a number cannot be reused before we reap it */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
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
