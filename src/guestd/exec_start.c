/* SPDX-License-Identifier: Apache-2.0 */

/* The start of an exec: descriptors, fork, and what the child reports. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "guestd/cgroup.h"
#include "guestd/exec.h"
#include "guestd/exec_child.h"
#include "guestd/exec_pty.h"

static void on_report(struct loop_io *io, unsigned events)
{
	struct exec *x = container_of(io, struct exec, report_io);
	struct exec_report r = { 0 };
	/* at most PIPE_BUF, so it comes whole or not at all */
	ssize_t n = read(x->report_fd, &r, sizeof(r));

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_del(&x->report_io);
	x->report_fd = fd_close(x->report_fd);
	if (n == 0) {
		exec_started(x);
		return;
	}
	r.field[sizeof(r.field) - 1] = '\0';
	r.msg[sizeof(r.msg) - 1] = '\0';
	if (n != sizeof(r))
		r = (struct exec_report){ .status = 500,
					  .msg = "the child died early" };
	exec_refused(x, &r);
}

static void on_start_timeout(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, timeout);
	struct exec_report r = {
		.status = 504,
		.msg = "the program did not start in time; the guest's file "
		       "system does not answer",
	};

	(void)exec_signal(x, SIGKILL, true);
	loop_io_del(&x->report_io);
	x->report_fd = fd_close(x->report_fd);
	exec_refused(x, &r);
}

struct start_fds {
	int in[2], out[2], err[2], report[2];
	int procs;
};

static void start_fds_close(struct start_fds *f)
{
	fd_close(f->in[0]);
	fd_close(f->in[1]);
	fd_close(f->out[0]);
	fd_close(f->out[1]);
	fd_close(f->err[0]);
	fd_close(f->err[1]);
	fd_close(f->report[0]);
	fd_close(f->report[1]);
	fd_close(f->procs);
}

static int nonblock(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* Our ends do not block, the program's ends do. */
static int open_pipes(struct start_fds *f, bool with_stdin, struct err *e)
{
	if (pipe2(f->out, O_CLOEXEC) < 0 || pipe2(f->err, O_CLOEXEC) < 0 ||
	    (with_stdin && pipe2(f->in, O_CLOEXEC) < 0) ||
	    nonblock(f->out[0]) < 0 || nonblock(f->err[0]) < 0 ||
	    (with_stdin && nonblock(f->in[1]) < 0))
		return err_errno(e, errno, "pipes of an exec");
	/* fewer, larger reads; a refusal by the limit is no matter */
	(void)fcntl(f->out[0], F_SETPIPE_SZ, 262144);
	return 0;
}

/* The terminal is input and output at once; a loop watches each descriptor for
 * one thing, so there are three of its master. */
static int open_pty(struct start_fds *f, struct exec *x, struct err *e)
{
	int r =
	    pty_open(x->g->held.pts, x->spec.size, &f->out[0], &f->out[1], e);

	if (r < 0)
		return r;
	f->in[1] = fcntl(f->out[0], F_DUPFD_CLOEXEC, 3);
	x->pty = fcntl(f->out[0], F_DUPFD_CLOEXEC, 3);
	if (f->in[1] < 0 || x->pty < 0)
		return err_errno(e, errno, "a terminal");
	return 0;
}

static int start_fds_open(struct start_fds *f, struct exec *x, struct err *e)
{
	int r;

	*f = (struct start_fds){ .in = { -1, -1 },
				 .out = { -1, -1 },
				 .err = { -1, -1 },
				 .report = { -1, -1 },
				 .procs = -1 };
	if (pipe2(f->report, O_CLOEXEC) < 0 || nonblock(f->report[0]) < 0)
		return err_errno(e, errno, "pipes of an exec");
	r = x->spec.has_pty ? open_pty(f, x, e)
			    : open_pipes(f, x->spec.stdin_open, e);
	if (r < 0 || x->g->held.workload < 0)
		return r;
	/* without its own cgroup a program would run in guestd's */
	x->cgroup = cgroup_make(x->g->held.workload, x->id);
	if (x->cgroup < 0)
		return err_errno(e, -x->cgroup, "cgroup of an exec");
	f->procs = openat(x->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (f->procs < 0)
		return err_errno(e, errno, "cgroup of an exec");
	return 0;
}

/* Resident memory of guestd; 0 if it cannot be had. */
static uint64_t own_rss_bytes(const struct held *h)
{
	char text[128];
	owned_fd fd = openat(h->proc, "self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *p;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strchr(text, ' ');
	return p ? strtoull(p, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void adopt(struct exec *x, pid_t pid, struct start_fds *f)
{
	x->state = EXEC_ST_STARTING;
	x->pid = pid;
	x->fork_rss_bytes = own_rss_bytes(&x->g->held);
	x->began_us = now_mono_us();
	x->started_at_ms = now_unix_ms();
	children_add(x->g->children, &x->child, pid, exec_on_exit);
	exec_stdin_open_take(x, take_fd(&f->in[1]));
	x->report_fd = take_fd(&f->report[0]);
	(void)loop_io_add(x->g->loop, &x->report_io, x->report_fd, LOOP_IN,
			  on_report);
	exec_output_watch_take(x, 0, take_fd(&f->out[0]));
	if (!x->spec.has_pty)
		exec_output_watch_take(x, 1, take_fd(&f->err[0]));
	loop_timer_set(x->g->loop, &x->timeout, EXEC_START_MAX_MS,
		       on_start_timeout);
}

static pid_t fork_child(struct exec *x, const struct start_fds *f)
{
	int null = x->g->held.null;
	struct exec_setup setup = {
		.spec = &x->spec,
		.default_user = x->g->default_user,
		.stdio = { x->spec.stdin_open ? f->in[0] : null, f->out[1],
			   f->err[1] },
		.report_fd = f->report[1],
		.cgroup_procs = f->procs,
		.proc = x->g->held.proc,
	};
	bool inside = false;
	pid_t pid;

	if (x->spec.has_pty)
		setup.stdio[0] = setup.stdio[2] = f->out[1];
	pid = children_fork_into(x->cgroup, &inside);
	if (inside)
		setup.cgroup_procs = -1;
	if (pid == 0)
		exec_child(&setup);
	return pid;
}

int exec_start(struct exec *x, struct err *e)
{
	struct execs *s = x->g->execs;
	struct start_fds f;
	pid_t pid = -1;
	int r;

	CHECK(x->state == EXEC_ST_CREATED);
	if (s->n_live >= EXECS_LIVE_MAX)
		return err_set(e, -EBUSY, ERR_EXHAUSTED,
			       "too many execs run in this guest");
	r = start_fds_open(&f, x, e);
	if (r >= 0) {
		pid = fork_child(x, &f);
		if (pid < 0)
			r = err_errno(e, errno, "fork");
	}
	if (r < 0) {
		start_fds_close(&f);
		x->pty = fd_close(x->pty);
		exec_drop_cgroup(x);
		return r;
	}
	adopt(x, pid, &f);
	start_fds_close(&f);
	s->n_live++;
	return 0;
}
