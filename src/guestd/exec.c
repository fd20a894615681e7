/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "guestd/cgroup.h"
#include "guestd/exec_child.h"
#include "guestd/exec_stream.h"
#include "proto/data.h"

void exec_ref(struct exec *x)
{
	x->refs++;
}

void exec_unref(struct exec *x)
{
	CHECK(x->refs > 0);
	if (--x->refs > 0)
		return;
	exec_output_stop(x);
	loop_io_del(&x->report_io);
	fd_close(x->report_fd);
	loop_timer_del(&x->timeout);
	loop_timer_del(&x->drain);
	loop_timer_del(&x->retry);
	loop_defer_del(&x->wake);
	children_del(&x->child);
	fd_close(x->stdin_fd);
	if (x->cgroup >= 0) {
		/* busy while something was left behind: swept later */
		(void)cgroup_remove(x->g->held.workload, x->id);
		fd_close(x->cgroup);
	}
	execlog_fini(&x->log);
	spec_fini(&x->spec);
	free(x);
}

/* ---- the end ---- */

static void find_left_behind(struct exec *x)
{
	ssize_t n;

	if (x->cgroup < 0)
		return;
	n = cgroup_pids(x->cgroup, x->fact.left, EXEC_LEFT_MAX);
	if (n > 0)
		x->fact.n_left = n < EXEC_LEFT_MAX ? (size_t)n : EXEC_LEFT_MAX;
}

static void end(struct exec *x)
{
	int64_t cpu_us;

	find_left_behind(x);
	exec_output_stop(x);
	loop_timer_del(&x->drain);
	cpu_us = cgroup_value(x->cgroup, "cpu.stat", "usage_usec");
	if (cpu_us >= 0)
		x->fact.cpu_ms = (uint64_t)cpu_us / 1000;
	x->stdin_fd = fd_close(x->stdin_fd);
	x->state = EXEC_ST_ENDED;
	x->ended_ms = loop_now_ms(x->g->loop);
	x->g->execs->n_live--;
	exec_streams_wake(x);
}

void exec_check_end(struct exec *x)
{
	if (x->state == EXEC_ST_DRAINING && exec_output_done(x))
		end(x);
}

static void on_drain(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, drain);

	/* A slow reader, not a child, is what keeps the pipes full: wait. */
	if (x->pipes[0].waiting || x->pipes[1].waiting) {
		loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
		return;
	}
	exec_output_drain(x);
	if (x->pipes[0].waiting || x->pipes[1].waiting)
		loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
	else if (x->state == EXEC_ST_DRAINING)
		end(x);
}

static void on_exit_(struct child *c, int status, const struct rusage *ru)
{
	struct exec *x = container_of(c, struct exec, child);
	struct exec_fact *f = &x->fact;

	f->wall_ms = (now_mono_us() - x->began_us) / 1000;
	f->cpu_ms = (uint64_t)ru->ru_utime.tv_sec * 1000 +
		    (uint64_t)ru->ru_utime.tv_usec / 1000 +
		    (uint64_t)ru->ru_stime.tv_sec * 1000 +
		    (uint64_t)ru->ru_stime.tv_usec / 1000;
	f->max_rss_bytes = (uint64_t)ru->ru_maxrss << 10;
	if (WIFEXITED(status)) {
		f->reason = EXEC_EXITED;
		f->code = WEXITSTATUS(status);
	} else if (WIFSIGNALED(status)) {
		f->signo = WTERMSIG(status);
		f->reason = EXEC_SIGNALED;
		if (f->signo == SIGKILL &&
		    cgroup_value(x->cgroup, "memory.events", "oom_kill") > 0)
			f->reason = EXEC_OOM;
	} else {
		f->reason = EXEC_UNKNOWN;
	}
	if (x->timed_out && f->reason != EXEC_EXITED)
		f->reason = EXEC_TIMEOUT;
	loop_timer_del(&x->timeout);
	if (x->state == EXEC_ST_STARTING)
		return; /* the report decides what this was */
	x->state = EXEC_ST_DRAINING;
	loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
	exec_check_end(x);
}

static void on_timeout(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, timeout);

	x->timed_out = true;
	(void)exec_signal(x, SIGKILL, true);
}

/* ---- the start ---- */

static void started(struct exec *x)
{
	x->state = EXEC_ST_RUNNING;
	loop_timer_del(&x->timeout);
	if (x->spec.timeout_ms && x->child.pid)
		loop_timer_set(x->g->loop, &x->timeout, x->spec.timeout_ms,
			       on_timeout);
	exec_waiters_answer(x, NULL);
	if (!x->child.pid) {
		/* it ended before we heard that it began */
		x->state = EXEC_ST_DRAINING;
		loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
	}
	exec_output_resume(x);
	exec_check_end(x);
}

static void failed(struct exec *x, const struct exec_report *r)
{
	x->g->execs->n_live--;
	x->state = EXEC_ST_ENDED;
	exec_waiters_answer(x, r);
	execs_remove(x);
}

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
		started(x);
		return;
	}
	r.field[sizeof(r.field) - 1] = '\0';
	r.msg[sizeof(r.msg) - 1] = '\0';
	if (n != sizeof(r))
		r = (struct exec_report){ .status = 500,
					  .msg = "the child died early" };
	failed(x, &r);
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
	failed(x, &r);
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

/* Pipes: our ends do not block, the program's ends do. */
static int start_fds_open(struct start_fds *f, const struct exec *x,
			  struct err *e)
{
	*f = (struct start_fds){ .in = { -1, -1 },
				 .out = { -1, -1 },
				 .err = { -1, -1 },
				 .report = { -1, -1 },
				 .procs = -1 };
	if (pipe2(f->out, O_CLOEXEC) < 0 || pipe2(f->err, O_CLOEXEC) < 0 ||
	    pipe2(f->report, O_CLOEXEC) < 0 ||
	    (x->spec.stdin_open && pipe2(f->in, O_CLOEXEC) < 0) ||
	    fcntl(f->out[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(f->err[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(f->report[0], F_SETFL, O_NONBLOCK) < 0 ||
	    (x->spec.stdin_open && fcntl(f->in[1], F_SETFL, O_NONBLOCK) < 0))
		return err_errno(e, errno, "pipes of an exec");
	/* without its own cgroup a program would run in guestd's */
	if (x->g->held.workload >= 0 && x->cgroup < 0)
		return err_errno(e, -x->cgroup, "cgroup of an exec");
	if (x->cgroup >= 0) {
		f->procs =
		    openat(x->cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
		if (f->procs < 0)
			return err_errno(e, errno, "cgroup of an exec");
	}
	/* fewer, larger reads; a refusal by the limit is no matter */
	(void)fcntl(f->out[0], F_SETPIPE_SZ, 262144);
	return 0;
}

static void adopt(struct exec *x, pid_t pid, struct start_fds *f)
{
	x->pid = pid;
	x->began_us = now_mono_us();
	x->started_at_ms = now_unix_ms();
	children_add(x->g->children, &x->child, pid, on_exit_);
	x->stdin_fd = take_fd(&f->in[1]);
	x->report_fd = take_fd(&f->report[0]);
	(void)loop_io_add(x->g->loop, &x->report_io, x->report_fd, LOOP_IN,
			  on_report);
	exec_output_watch_take(x, 0, take_fd(&f->out[0]));
	exec_output_watch_take(x, 1, take_fd(&f->err[0]));
	loop_timer_set(x->g->loop, &x->timeout, EXEC_START_MAX_MS,
		       on_start_timeout);
}

static struct exec *exec_alloc(struct execs *s, struct exec_spec *spec)
{
	struct exec *x = xnew(struct exec);

	x->g = s->g;
	x->spec = *spec;
	*spec = (struct exec_spec){ 0 };
	snprintf(x->id, sizeof(x->id), "%s", x->spec.id);
	x->refs = 1;
	x->cgroup = x->report_fd = x->stdin_fd = -1;
	x->fact.code = x->fact.signo = -1;
	list_init(&x->link);
	list_init(&x->followers);
	list_init(&x->waiters);
	execlog_init(&x->log, x->spec.keep_bytes, &s->log_bytes);
	if (x->spec.block) {
		x->log.slack = EXEC_SLACK_BYTES;
		execlog_set_floor(&x->log, 0);
	}
	for (int i = 0; i < 2; i++) {
		x->pipes[i].exec = x;
		x->pipes[i].fd = -1;
		x->pipes[i].kind = i == 0 ? EXEC_STDOUT : EXEC_STDERR;
	}
	if (s->g->held.workload >= 0)
		x->cgroup = cgroup_make(s->g->held.workload, x->id);
	return x;
}

int exec_start_take(struct execs *s, struct exec_spec *spec, struct exec **ret,
		    struct err *e)
{
	struct exec *x = exec_alloc(s, spec);
	struct start_fds f;
	pid_t pid = -1;
	int r = start_fds_open(&f, x, e);

	if (r >= 0) {
		struct exec_setup setup = {
			.spec = &x->spec,
			.default_user = s->g->default_user,
			.stdio = { x->spec.stdin_open ? f.in[0]
						      : s->g->held.null,
				   f.out[1], f.err[1] },
			.report_fd = f.report[1],
			.cgroup_procs = f.procs,
			.proc = s->g->held.proc,
		};

		pid = children_fork();
		if (pid == 0)
			exec_child(&setup);
		if (pid < 0)
			r = err_errno(e, errno, "fork");
	}
	if (r < 0) {
		start_fds_close(&f);
		exec_unref(x);
		return r;
	}
	adopt(x, pid, &f);
	start_fds_close(&f);
	s->n_live++;
	*ret = x;
	return 0;
}

int exec_signal(struct exec *x, int signo, bool tree)
{
	/* After the leader was reaped its number may be somebody else's; the
	 * tree is still known by its cgroup. */
	if (!x->child.pid && (!tree || x->cgroup < 0))
		return -ESRCH;
	if (tree && x->cgroup >= 0)
		return cgroup_signal(x->cgroup, signo) > 0 ? 0 : -ESRCH;
	if (kill(tree ? -x->pid : x->pid, signo) < 0) {
		/* setsid has not run yet: there is no group so far */
		if (errno != ESRCH || !tree || kill(x->pid, signo) < 0)
			return -errno;
	}
	return 0;
}

/* ---- records ---- */

json_t *exec_fact_json(const struct exec *x)
{
	static const char *const reasons[] = {
		[EXEC_EXITED] = "exited",   [EXEC_SIGNALED] = "signaled",
		[EXEC_TIMEOUT] = "timeout", [EXEC_OOM] = "oom",
		[EXEC_UNKNOWN] = "unknown",
	};
	const struct exec_fact *f = &x->fact;
	json_t *v = json_object(), *bytes = json_object(), *left;
	char name[16];

	json_set_take(v, "reason", json_string(reasons[f->reason]));
	json_set_take(v, "code",
		      f->code < 0 ? json_null() : json_integer(f->code));
	if (f->signo > 0)
		signal_name(f->signo, name, sizeof(name));
	json_set_take(v, "signal",
		      f->signo > 0 ? json_string(name) : json_null());
	json_set_take(v, "wall_ms", json_integer((json_int_t)f->wall_ms));
	json_set_take(v, "cpu_ms", json_integer((json_int_t)f->cpu_ms));
	json_set_take(v, "max_rss_bytes",
		      json_integer((json_int_t)f->max_rss_bytes));
	json_set_take(bytes, "stdout",
		      json_integer((json_int_t)x->log.n_kind[0]));
	json_set_take(bytes, "stderr",
		      json_integer((json_int_t)x->log.n_kind[1]));
	json_set_take(v, "bytes", bytes);
	json_set_take(v, "dropped_bytes",
		      json_integer((json_int_t)x->log.dropped_bytes));
	if (f->n_left == 0)
		return v;
	left = json_array();
	for (size_t i = 0; i < f->n_left; i++)
		(void)json_array_append_new(left, json_integer(f->left[i]));
	json_set_take(v, "left_behind", left);
	return v;
}

json_t *exec_record(const struct exec *x)
{
	static const char *const states[] = {
		[EXEC_ST_STARTING] = "starting",
		[EXEC_ST_RUNNING] = "running",
		[EXEC_ST_DRAINING] = "running",
		[EXEC_ST_ENDED] = "ended",
	};
	json_t *v = json_object(), *cmd = json_array();
	char when[25];

	json_set_take(v, "id", json_string(x->id));
	json_set_take(v, "state", json_string(states[x->state]));
	json_set_take(v, "pid", json_integer(x->pid));
	text_rfc3339(x->started_at_ms, when);
	json_set_take(v, "started_at", json_string(when));
	for (size_t i = 0; i < x->spec.argc; i++)
		(void)json_array_append_new(
		    cmd,
		    json_str_lossy(x->spec.argv[i], strlen(x->spec.argv[i])));
	json_set_take(v, "cmd", cmd);
	if (x->spec.user)
		json_set_take(v, "user", json_string(x->spec.user));
	if (x->spec.cwd)
		json_set_take(v, "cwd", json_string(x->spec.cwd));
	json_set_take(v, "output_begin",
		      json_integer((json_int_t)x->log.begin));
	json_set_take(v, "output_end", json_integer((json_int_t)x->log.end));
	if (x->spec.stdin_open)
		json_set_take(v, "stdin_offset",
			      json_integer((json_int_t)x->stdin_bytes));
	if (x->state == EXEC_ST_ENDED)
		json_set_take(v, "exit", exec_fact_json(x));
	return v;
}
