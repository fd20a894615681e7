/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"

__attribute__((noreturn)) static void child(worker_fn *fn, void *arg, int sock,
					    pid_t parent)
{
	struct worker_report rep = { 0 };
	struct err e = { 0 };
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds = 0;
	sigset_t none;
	int r;

	/* The parent's handlers mean nothing here; its death ends the job. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);

	r = fn(arg, &rep, fds, &n_fds, &e);
	rep.r = r;
	if (r < 0) {
		rep.kind = (int32_t)e.kind;
		snprintf(rep.msg, sizeof(rep.msg), "%s", e.msg);
	}
	r = channel_send_fd(sock, &rep, sizeof(rep), fds, n_fds);
	_exit(r < 0);
}

static void lost(struct worker *w, struct worker_report *rep, int status)
{
	memset(rep, 0, sizeof(*rep));
	if (w->timed_out) {
		rep->r = -ETIMEDOUT;
		rep->kind = ERR_TIMEOUT;
		snprintf(rep->msg, sizeof(rep->msg),
			 "the job passed its deadline and was stopped");
		return;
	}
	rep->r = -EIO;
	rep->kind = ERR_INTERNAL;
	snprintf(rep->msg, sizeof(rep->msg),
		 "the job ended without a report (wait status %d)", status);
}

static void on_gone(struct loop_proc *p, int status)
{
	struct worker *w = container_of(p, struct worker, proc);
	struct worker_report rep = { 0 };
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds = CHANNEL_FDS_MAX, i;
	struct pollfd ready = { .fd = w->sock, .events = POLLIN };
	ssize_t n = -1;

	loop_proc_del(p);
	loop_timer_del(&w->deadline);
	if (poll(&ready, 1, 0) > 0 && ready.revents & POLLIN)
		n = channel_recv_fd(w->sock, &rep, sizeof(rep), fds, &n_fds);
	if (n != (ssize_t)sizeof(rep)) {
		n_fds = n < 0 ? 0 : n_fds;
		lost(w, &rep, status);
	}
	w->sock = fd_close(w->sock);
	rep.msg[sizeof(rep.msg) - 1] = 0;
	rep.data[sizeof(rep.data) - 1] = 0;
	w->on_done(w, &rep, fds, n_fds);
	for (i = 0; i < n_fds; i++)
		fd_close(fds[i]);
}

static void on_deadline(struct loop_timer *t)
{
	struct worker *w = container_of(t, struct worker, deadline);

	w->timed_out = true;
	pidfd_send_signal(w->proc.io.fd, SIGKILL, NULL, 0);
}

int worker_start(struct loop *l, struct worker *w, worker_fn *fn, void *arg,
		 uint64_t timeout_ms,
		 void (*on_done)(struct worker *, const struct worker_report *,
				 int *, size_t),
		 struct err *e)
{
	pid_t parent = getpid(), pid;
	int sv[2], pidfd, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_errno(e, errno, "socketpair for a job: %m");
	pid = fork();
	if (pid < 0) {
		r = err_errno(e, errno, "fork a job: %m");
		close(sv[0]);
		close(sv[1]);
		return r;
	}
	if (pid == 0)
		child(fn, arg, sv[1], parent);
	close(sv[1]);
	pidfd = pidfd_open(pid, 0);
	CHECK(pidfd >= 0); /* our own child, not yet waited for */

	memset(w, 0, sizeof(*w));
	w->sock = sv[0];
	w->on_done = on_done;
	loop_timer_set(l, &w->deadline, timeout_ms, on_deadline);
	r = loop_proc_add_take(l, &w->proc, pidfd, pid, on_gone);
	CHECK(r == 0);
	return 0;
}

void worker_stop(struct worker *w)
{
	if (!w->proc.io.loop)
		return;
	pidfd_send_signal(w->proc.io.fd, SIGKILL, NULL, 0);
	waitid(P_PIDFD, (id_t)w->proc.io.fd, NULL, WEXITED);
	loop_timer_del(&w->deadline);
	loop_proc_del(&w->proc);
	w->sock = fd_close(w->sock);
}
