/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/proc.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/check.h"
#include "base/own.h"

#define START_TIMEOUT_MS 5000
#define SAID_SHOWN	 400

void proc_init(struct proc *p, struct loop *l,
	       void (*on_started)(struct proc *, const struct err *),
	       void (*on_ended)(struct proc *, int, const char *))
{
	memset(p, 0, sizeof(*p));
	p->loop = l;
	p->report_fd = p->said_fd = -1;
	p->on_started = on_started;
	p->on_ended = on_ended;
}

void proc_fini(struct proc *p)
{
	loop_timer_del(&p->deadline);
	loop_io_del(&p->report);
	loop_proc_del(&p->lp);
	p->report_fd = fd_close(p->report_fd);
	p->said_fd = fd_close(p->said_fd);
	p->pid = 0;
}

int proc_pidfd(const struct proc *p)
{
	return p->lp.io.fd;
}

/* The report pipe speaks: end of file = it has executed. */
static void conclude(struct proc *p, bool is_gone)
{
	struct jail_report rep = { 0 };
	ssize_t n = read(p->report_fd, &rep, sizeof(rep));
	struct err e = { 0 };

	if (n < 0 && !is_gone)
		return; /* nothing yet */
	loop_timer_del(&p->deadline);
	loop_io_del(&p->report);
	p->report_fd = fd_close(p->report_fd);
	p->is_starting = false;
	if (p->timed_out)
		err_set(&e, -ETIMEDOUT, ERR_TIMEOUT,
			"the process did not get into its jail within %d ms",
			START_TIMEOUT_MS);
	else if (n == (ssize_t)sizeof(rep))
		err_errno(&e, rep.errnum > 0 ? rep.errnum : EIO,
			  "the process could not %s: %m",
			  jail_step_name(rep.step));
	p->on_started(p, e.code < 0 ? &e : NULL);
}

static void on_report(struct loop_io *io, unsigned events)
{
	(void)events;
	conclude(container_of(io, struct proc, report), false);
}

static void on_deadline(struct loop_timer *t)
{
	struct proc *p = container_of(t, struct proc, deadline);

	p->timed_out = true;
	pidfd_send_signal(proc_pidfd(p), SIGKILL, NULL, 0);
}

/* The last SAID_SHOWN bytes written, as a string. */
static void last_words(const struct proc *p, char ret[SAID_SHOWN + 1])
{
	static char all[PROC_SAID_MAX];
	size_t n = 0, from;
	ssize_t got = -1;

	ret[0] = 0;
	if (p->said_fd >= 0)
		got = pread(p->said_fd, all, sizeof(all), 0);
	if (got <= 0)
		return;
	n = strnlen(all, (size_t)got);
	from = n > SAID_SHOWN ? n - SAID_SHOWN : 0;
	snprintf(ret, SAID_SHOWN + 1, "%.*s", (int)(n - from), all + from);
}

static void on_gone(struct loop_proc *lp, int status)
{
	struct proc *p = container_of(lp, struct proc, lp);
	char said[SAID_SHOWN + 1];

	if (p->is_starting)
		conclude(p, true); /* before the pidfd goes */
	last_words(p, said);
	proc_fini(p);
	p->on_ended(p, status, said);
}

/* A fixed amount of memory behind stderr: a VMM whose guest makes it complain
 * for ever fills this and nothing else, and needs no reader. */
static int said_new(struct err *e)
{
	int fd = memfd_create("stderr", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_errno(e, errno, "memfd for stderr: %m");
	if (ftruncate(fd, PROC_SAID_MAX) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) <
		0) {
		int r = err_errno(e, errno, "memfd for stderr: %m");

		close(fd);
		return r;
	}
	return fd;
}

static int watch(struct proc *p, int pidfd, pid_t pid, struct err *e)
{
	int r = loop_proc_add_take(p->loop, &p->lp, pidfd, pid, on_gone);

	if (r < 0)
		return err_errno(e, -r, "watch process %d: %m", (int)pid);
	p->pid = pid;
	return 0;
}

/* In the parent: the child's pid, pidfd in *ret; or -errno. */
static pid_t clone_into(int cgroup_fd, int *ret_pidfd)
{
	struct clone_args a = {
		.flags = CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWPID |
			 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET |
			 CLONE_INTO_CGROUP,
		.pidfd = (uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup_fd,
	};
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	return pid < 0 ? -errno : (pid_t)pid;
}

int proc_start(struct proc *p, struct jail *j, int cgroup_fd, bool keep_said,
	       struct err *e)
{
	int ends[2], pidfd = -1, r;
	owned_fd said = -1;
	pid_t pid;

	CHECK(p->pid == 0 && !p->is_starting);
	if (keep_said) {
		said = said_new(e);
		if (said < 0)
			return said;
		j->stderr_fd = said;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe: %m");
	j->report_fd = ends[1];
	pid = clone_into(cgroup_fd, &pidfd);
	if (pid == 0)
		jail_enter(j);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_errno(e, -pid, "clone3: %m");
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	p->is_starting = true;
	p->timed_out = false;
	p->report_fd = ends[0];
	p->said_fd = take_fd(&said);
	r = loop_io_add(p->loop, &p->report, ends[0], LOOP_IN, on_report);
	CHECK(r == 0);
	loop_timer_set(p->loop, &p->deadline, START_TIMEOUT_MS, on_deadline);
	r = watch(p, pidfd, pid, e);
	CHECK(r == 0);
	return 0;
}

int proc_adopt(struct proc *p, pid_t pid, struct err *e)
{
	int pidfd = pidfd_open(pid, 0);

	if (pidfd < 0)
		return err_errno(e, errno, "process %d: %m", (int)pid);
	return watch(p, pidfd, pid, e);
}
